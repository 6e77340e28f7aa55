"""The container engine of this machine, through the docker SDK: connecting, whose containers are whose, removing them.

Every container carries labels that say who started it. Containers are removed by id; a name is for people only.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import docker.errors
import requests

from bat_events.sandbox.interface import SandboxFault, SandboxUnavailable
from bat_events.sandbox.orphans import owner_is_gone

LABEL = "bat-events.sandbox"
OWNER, MACHINE, POOL = f"{LABEL}.owner", f"{LABEL}.machine", f"{LABEL}.pool"
DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
_CALL_S = 60.0
_GONE_S = 20.0
_STALE_S = 600.0

Fault = docker.errors.DockerException | requests.RequestException | OSError


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A connected engine. `address` is where it answers, `version` its own, `runtimes` what it can start containers with."""

    api: Any
    address: str
    version: str
    runtimes: tuple[str, ...]
    default_runtime: str

    @property
    def socket(self) -> str:
        """The path of its socket."""
        return self.address.removeprefix("unix://")

    def close(self) -> None:
        """Close the connections."""
        self.api.close()


def address_of(address: str | None = None) -> str:
    """`address`, else DOCKER_HOST, else Docker's usual socket."""
    return address or os.environ.get("DOCKER_HOST") or DEFAULT_ADDRESS


def connect(address: str | None = None) -> Engine:
    """Reach the engine; raises SandboxUnavailable where none answers, or one that cannot hold a sandbox."""
    address = address_of(address)
    if not address.startswith("unix://"):
        raise SandboxUnavailable(
            f"the container engine at {address} is not on this machine's socket: files and output of a sandbox pass through one. "
            "Name one that is (sandbox.docker_host: unix:///…), or set sandbox.isolation: bubblewrap"
        )
    with faults(f"no container engine answers at {address}", SandboxUnavailable):
        api = docker.APIClient(base_url=address, version="auto", timeout=_CALL_S, max_pool_size=16)
        about = api.info()
    security = " ".join(about.get("SecurityOptions") or ())
    for word in ("rootless", "userns"):
        if f"name={word}" in security:
            api.close()
            raise SandboxUnavailable(
                f"the container engine at {address} runs with {word}: its users are not this machine's, and some such set-ups "
                "ignore memory limits. Use an engine that runs as root, or set sandbox.isolation: bubblewrap"
            )
    return Engine(
        api=api,
        address=address,
        version=str(about.get("ServerVersion")),
        runtimes=tuple(sorted(about.get("Runtimes") or ())),
        default_runtime=str(about.get("DefaultRuntime")),
    )


@contextlib.contextmanager
def faults(what: str, kind: type[SandboxFault] = SandboxFault) -> Iterator[None]:
    """Whatever the engine, its SDK or the connection raises becomes `kind`, saying what was being done."""
    try:
        yield
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        explanation = getattr(error, "explanation", None) or error
        raise kind(f"{what}: {explanation}") from error


def labels(owner: str, pool: str) -> dict[str, str]:
    """The labels of a container that `owner` (see orphans) starts for `pool`."""
    return {LABEL: "1", OWNER: owner, MACHINE: _machine(), POOL: pool}


def remove(engine: Engine, container: str) -> None:
    """Kill and remove a container by id and wait until the engine knows it no more. Raises SandboxFault when it stays."""
    deadline = time.monotonic() + _GONE_S
    while True:
        try:
            engine.api.remove_container(container, force=True, v=True)
        except docker.errors.NotFound:
            return
        except docker.errors.APIError as error:
            # 409: a removal is going on already; 500: the kernel still holds a mount of it for a moment.
            if error.status_code not in (409, 500) or time.monotonic() > deadline:
                raise SandboxFault(f"container {container[:12]} could not be removed: {error.explanation}") from error
            time.sleep(0.02)
        except (requests.RequestException, OSError) as error:
            raise SandboxFault(f"container {container[:12]} could not be removed: {error}") from error
        else:
            return


def remove_all(engine: Engine, pool: str) -> list[str]:
    """Remove every container of a pool; returns their ids."""
    found = [row["Id"] for row in _listed(engine, f"{POOL}={pool}")]
    for container in found:
        remove(engine, container)
    return found


def reap(engine: Engine) -> list[str]:
    """Remove the containers that dead owners left, on this engine; returns their ids.

    An owner is looked for where its process id means something: on the same boot, in the same process name space. Of owners
    elsewhere only what has long ended is removed: a sandbox ends by itself with its owner.
    """
    gone = []
    for row in _listed(engine, f"{LABEL}=1"):
        known = row["Labels"]
        here = known.get(MACHINE) == _machine()
        ended = row["State"] != "running" and time.time() - row["Created"] > _STALE_S
        if (here and owner_is_gone(known.get(OWNER, ""))) or (not here and ended):
            remove(engine, row["Id"])
            gone.append(row["Id"])
    return gone


def _listed(engine: Engine, label: str) -> list[dict[str, Any]]:
    with faults("the engine's containers cannot be listed"):
        rows: list[dict[str, Any]] = engine.api.containers(all=True, filters={"label": label})
    return rows


def _machine() -> str:
    """Where process ids are comparable: this boot and this process name space."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{Path('/proc/self/ns/pid').readlink()}"
