"""What the local broker needs from the machine: Java, and Kafka's jars, which Maven fetches once.

The jars are shared by every BAT_HOME of a user. They lie in `$BAT_KAFKA_JARS`, or in
`~/.cache/bat-events/kafka-<version>-<digest of the pom>`, so that a changed pom is never served by old jars. A folder
of jars is either complete or absent: it is filled under another name, then renamed. Maven is needed only for that.

Every lack raises `BrokerUnavailable` with one line that says what to install.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from bat_events.errors import LogError

Progress = Callable[[str], None]

MINIMUM_JAVA = 17  # Kafka 4's brokers refuse older ones
POM = Path(__file__).resolve().parents[2] / "compose" / "kafka" / "pom.xml"
INSTALL_JAVA = "apt-get install -y --no-install-recommends default-jre-headless"
INSTALL_MAVEN = "apt-get install -y --no-install-recommends maven"

_POM_NAMESPACE = {"m": "http://maven.apache.org/POM/4.0.0"}
_BROKER_JAR = "kafka_2.13-*.jar"


class BrokerError(LogError):
    """Something is wrong with the local broker; the message says what, where, and what to do."""


class BrokerUnavailable(BrokerError):
    """This machine lacks what the local broker needs; the message is one line that says what to install."""


class BrokerBusy(BrokerError):
    """Another process holds the broker's lock for longer than we wait."""


@dataclass(frozen=True, kw_only=True)
class Java:
    """A Java that can run the broker."""

    path: Path
    version: int  # feature release: 17, 21, ...


def quiet(_line: str) -> None:
    """A `Progress` that says nothing."""


def find_java(env: Mapping[str, str]) -> Java:
    """The Java under JAVA_HOME, else the first on PATH; raises BrokerUnavailable where it is missing or too old."""
    advice = f"install it (Debian: {INSTALL_JAVA}) or set BAT_KAFKA_BOOTSTRAP to an existing cluster"
    in_home = Path(env["JAVA_HOME"]) / "bin" / "java" if env.get("JAVA_HOME") else None
    found = str(in_home) if in_home and in_home.is_file() else shutil.which("java", path=env.get("PATH", ""))
    if found is None:
        raise BrokerUnavailable(f"the local Kafka needs Java {MINIMUM_JAVA} or newer and finds none: {advice}")
    try:
        answer = subprocess.run(
            [found, "-version"], capture_output=True, text=True, timeout=30, check=False, env=dict(env)
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrokerUnavailable(f"{found} -version does not run ({error}): {advice}") from error
    version = re.search(r'version "(?:1\.)?(\d+)', answer)
    if version is None or int(version[1]) < MINIMUM_JAVA:
        said = answer.strip().splitlines()[0] if answer.strip() else "nothing"
        raise BrokerUnavailable(
            f"the local Kafka needs Java {MINIMUM_JAVA} or newer; {found} -version says {said}: {advice}"
        )
    return Java(path=Path(found), version=int(version[1]))


def find_maven(env: Mapping[str, str]) -> Path:
    """The first `mvn` on PATH; raises BrokerUnavailable where there is none."""
    found = shutil.which("mvn", path=env.get("PATH", ""))
    if found is None:
        raise BrokerUnavailable(
            f"Kafka's jars are not in {jars_folder(env)} yet and Maven, which fetches them, is missing: install it "
            f"(Debian: {INSTALL_MAVEN}) or set BAT_KAFKA_BOOTSTRAP to an existing cluster"
        )
    return Path(found)


def pinned_version() -> str:
    """Kafka's version in compose/kafka/pom.xml; raises BrokerUnavailable where this is not a checkout."""
    if not POM.is_file():
        raise BrokerUnavailable(
            f"the local Kafka is started from a checkout and {POM} is missing: set BAT_KAFKA_BOOTSTRAP to an existing "
            "cluster, or BAT_KAFKA_JARS to a folder that holds Kafka's jars"
        )
    version = ElementTree.parse(POM).findtext("m:properties/m:kafka.version", namespaces=_POM_NAMESPACE)
    if not version:
        raise BrokerUnavailable(f"{POM} names no kafka.version: restore it")
    return version.strip()


def jars_folder(env: Mapping[str, str]) -> Path:
    """Where Kafka's jars lie, or will."""
    if env.get("BAT_KAFKA_JARS"):
        return Path(env["BAT_KAFKA_JARS"]).absolute()
    cache = Path(env.get("XDG_CACHE_HOME") or Path(env.get("HOME") or Path.home()) / ".cache")
    version = pinned_version()
    return cache / "bat-events" / f"kafka-{version}-{hashlib.sha256(POM.read_bytes()).hexdigest()[:8]}"


def jars_version(folder: Path) -> str | None:
    """The version of the broker in a folder of jars; None where it holds none."""
    jar = next(iter(sorted(folder.glob(_BROKER_JAR))), None)
    return jar.stem.removeprefix("kafka_2.13-") if jar else None


def ensure_jars(env: Mapping[str, str], progress: Progress = quiet) -> Path:
    """The folder of Kafka's jars, filled by Maven if it is not there yet (about 45 MB).

    Raises BrokerUnavailable where Maven is missing or cannot fetch them.
    """
    folder = jars_folder(env)
    if jars_version(folder):
        return folder
    maven = find_maven(env)
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = folder.with_name(f".{folder.name}.lock")
    with locked(lock, timeout_s=900, what="fetches Kafka's jars", progress=progress):
        if jars_version(folder):
            return folder
        filling = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            jars = filling / "jars"
            jars.mkdir()
            _copy_dependencies(maven, jars, env, progress)
            try:
                jars.rename(folder)
            except OSError as error:
                raise BrokerUnavailable(
                    f"{folder} exists and holds no Kafka: empty it, or point BAT_KAFKA_JARS elsewhere"
                ) from error
        finally:
            shutil.rmtree(filling, ignore_errors=True)
    return folder


def _copy_dependencies(maven: Path, target: Path, env: Mapping[str, str], progress: Progress) -> None:
    progress(f"fetching the jars of Apache Kafka {pinned_version()} with Maven")
    command = [str(maven), "-B", "-f", str(POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={target}"]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(env)
    )
    lines: deque[str] = deque(maxlen=200)
    downloaded = 0

    def read() -> None:
        nonlocal downloaded
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            downloaded += "Downloaded from" in line and ".jar " in line

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    began = time.monotonic()
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
                break
            copied = len(list(target.glob("*.jar")))
            progress(f"Kafka's jars: {downloaded} downloaded, {copied} in place, {time.monotonic() - began:.0f} s")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        reader.join(timeout=5)
    if process.returncode != 0 or not jars_version(target):
        errors = [line for line in lines if "[ERROR]" in line] or list(lines)
        reason = errors[0].replace("[ERROR]", "").strip() if errors else f"exit code {process.returncode}"
        raise BrokerUnavailable(f"Maven could not fetch Kafka's jars: {reason} (see `mvn -f {POM} validate`)")
    progress(f"Kafka's jars: {len(list(target.glob('*.jar')))} in place after {time.monotonic() - began:.1f} s")


@contextlib.contextmanager
def locked(path: Path, *, timeout_s: float, what: str, progress: Progress = quiet) -> Iterator[None]:
    """Hold an exclusive lock on `path`, which the kernel frees if we die; raises BrokerBusy after `timeout_s`."""
    with path.open("a") as handle:
        began, told = time.monotonic(), False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - began > timeout_s:
                    raise BrokerBusy(f"another process {what} and holds {path} for {timeout_s:.0f} s: end it") from None
                if not told:
                    progress(f"waiting: another process {what}")
                    told = True
                time.sleep(0.1)
        yield


def main() -> int:
    """Fetch the jars, for set-up: `python -m bat_events.log.local_kafka_parts`."""
    try:
        folder = ensure_jars(os.environ, lambda line: print(line, flush=True))
    except BrokerError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Apache Kafka {jars_version(folder)} in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
