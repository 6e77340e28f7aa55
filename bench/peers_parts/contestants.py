"""Who is measured, under which guarantees, and the environments that their libraries live in."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .driving import AT_LEAST_ONCE, EXACTLY_ONCE

HERE = Path(__file__).parent
CACHE = Path.home() / ".cache" / "bat-events" / "peers"


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One row of the tables: a driver under one guarantee. `environment` None is this project's own."""

    name: str
    guarantee: str
    driver: str
    environment: str | None = None
    arguments: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ("produce", "consume", "react", "latency")
    remark: str = ""
    most: int | None = None
    """Reactions at most: who takes 20 ms and more for each is not asked for thousands."""

    @property
    def label(self) -> str:
        """Name and guarantee."""
        return f"{self.name}, {self.guarantee}"

    def python(self) -> str:
        """The interpreter that runs the driver."""
        return sys.executable if self.environment is None else str(CACHE / self.environment / "bin" / "python")


BAT = "bat-events"
RAW = "raw client"
RAW_SINGLE = "raw client, one by one"
CONTESTANTS = (
    Contestant(
        name="raw bytes",
        guarantee=EXACTLY_ONCE,
        driver="raw_driver",
        arguments=("bytes",),
        tasks=("consume",),
        remark="moves bodies and headers, decodes nothing",
    ),
    Contestant(name=RAW, guarantee=EXACTLY_ONCE, driver="raw_driver", remark="confluent-kafka, fastavro to dicts"),
    Contestant(
        name=RAW_SINGLE,
        guarantee=EXACTLY_ONCE,
        driver="raw_driver",
        arguments=("single",),
        tasks=("react",),
        remark="a transaction for each event: the limit of a worker",
        most=300,
    ),
    Contestant(name=RAW, guarantee=AT_LEAST_ONCE, driver="raw_driver", remark="the same without transactions"),
    Contestant(
        name=BAT,
        guarantee=EXACTLY_ONCE,
        driver="bat_driver",
        arguments=("reactor",),
        remark="typed, checked events; reaction by the reactor's loop",
    ),
    Contestant(
        name=f"{BAT} worker",
        guarantee=EXACTLY_ONCE,
        driver="bat_driver",
        arguments=("worker",),
        tasks=("react", "latency"),
        remark="one event, one effect, one transaction, by design",
        most=300,
    ),
    Contestant(
        name="Quix Streams",
        guarantee=EXACTLY_ONCE,
        driver="quix_driver",
        environment="quix",
        remark="its own Avro serializers, to dicts",
    ),
    Contestant(name="Quix Streams", guarantee=AT_LEAST_ONCE, driver="quix_driver", environment="quix"),
    Contestant(
        name="FastStream",
        guarantee=AT_LEAST_ONCE,
        driver="faststream_driver",
        environment="faststream",
        remark="no exactly-once: a transactional id, but no transaction; fastavro decoder, to dicts",
    ),
    Contestant(
        name="faust-streaming",
        guarantee=EXACTLY_ONCE,
        driver="faust_driver",
        environment="faust",
        tasks=("consume", "react", "latency"),
        remark="transactions within agents only, so none for producing from outside; Avro codec, to dicts",
    ),
    Contestant(
        name="faust-streaming",
        guarantee=AT_LEAST_ONCE,
        driver="faust_driver",
        environment="faust",
        remark="reads uncommitted records: no setting changes that",
    ),
)


def prepare(name: str, say: Callable[[str], None]) -> None:
    """Make a peer's environment, unless it is there with these requirements. Raises RuntimeError where pip fails."""
    requirements = HERE / f"{name}.txt"
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    home = CACHE / name
    ready = home / ".ready"
    if ready.is_file() and ready.read_text() == digest:
        return
    say(f"making {home} (once)")
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "-r", str(requirements)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"pip could not install {requirements.name} into {home}: {done.stderr[-2000:]}")
    ready.write_text(digest)
