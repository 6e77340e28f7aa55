"""What the local broker keeps between runs beside its data: its ports, and which process was started last.

The state is a convenience: with it lost or stale the broker's process is found by its command line, and a new state is
written at the next start. No data depends on it.
"""

import contextlib
import json
import os
import random
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from bat_events.log.local_kafka_config import HOST
from bat_events.log.local_kafka_parts import BrokerError

# Below Linux's range for outgoing connections (32768 on), so that no client socket sits on the port while we are down.
PORTS = range(20_000, 32_000)


@dataclass(frozen=True, kw_only=True)
class State:
    """The ports of the next start, and the process of the last one."""

    port: int
    controller_port: int
    pid: int | None = None
    started: float | None = None  # the process's creation time, seconds since the epoch
    secured: bool = False  # whether that process asks for logins

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class BrokerStatus:
    """The local broker as it is now. `port` and `bootstrap` are what the next `up` will use when it is down."""

    running: bool
    pid: int | None
    port: int | None
    bootstrap: str | None
    version: str | None  # of the jars that the next start uses; None while there are none
    secured: bool  # whether the running one asks for logins
    data_bytes: int  # on disk, sparse files counted by their blocks
    log: Path


def read_state(path: Path) -> State | None:
    """The state at `path`, None where there is none; raises BrokerError where it is damaged."""
    try:
        return State(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise BrokerError(f"{path} is damaged ({error}): delete it, no data depends on it") from error


def write_state(path: Path, state: State) -> None:
    """Replace the state at `path` in one step."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(json.dumps(asdict(state)) + "\n")
    new.replace(path)


def with_free_ports(state: State | None) -> State:
    """The ports of the last run if both are free, else two new ones; raises BrokerError where none are to be had."""
    if state is not None and port_free(state.port) and port_free(state.controller_port):
        return state
    for _ in range(100):
        port, controller_port = random.sample(PORTS, 2)
        if port_free(port) and port_free(controller_port):
            return State(port=port, controller_port=controller_port)
    raise BrokerError(f"no two free ports on {HOST} between {PORTS.start} and {PORTS.stop}")


def port_free(port: int) -> bool:
    """Whether a server could listen on `port` now."""
    with socket.socket() as probe:
        # As Java does: a port whose last connections linger in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def port_open(port: int) -> bool:
    """Whether somebody listens on `port` now."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def bytes_on_disk(folder: Path) -> int:
    """What a folder takes on disk, sparse files counted by their blocks; 0 where it does not exist."""
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(directory, name)).st_blocks * 512
    return total
