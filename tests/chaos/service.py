"""A service as `bat-events serve NAME` runs it, but for one thing: at a commit point that an order names it dies or freezes.

Run: python -m tests.chaos.service NAME. An order is a file `BAT_HOME/chaos/NAME.order` with a moment (`begun`, `produced`,
`offsets-sent`, `committed`, …) and `kill` or `stop`; who obeys it takes it away first, so it is obeyed once. A frozen
process leaves `NAME.frozen` with its pid and moment.
"""

import ctypes
import logging
import os
import signal
import sys
import time
from pathlib import Path

from bat_events.cli.common import make_context
from bat_events.consumers.registry import build
from bat_events.service.context import Context
from bat_events.service.run import run_service
from bat_events.service.services import Service
from bat_events.settings import load_settings

_SENT_S = 0.3  # until what was produced has left the client's queue: an open transaction that the broker knows


class Obedient:
    """A crash point that reads its orders from a folder."""

    def __init__(self, folder: Path, service: str) -> None:
        self._order, self._frozen = folder / f"{service}.order", folder / f"{service}.frozen"

    def __call__(self, moment: str) -> None:
        try:
            wanted, act = self._order.read_text().split()
        except FileNotFoundError:
            return
        if wanted != moment:
            return
        time.sleep(_SENT_S)
        try:
            self._order.unlink()
        except FileNotFoundError:  # another instance obeyed
            return
        if act == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        fresh = self._frozen.with_suffix(".new")
        fresh.write_text(f"{os.getpid()} {moment}")
        fresh.replace(self._frozen)
        os.kill(os.getpid(), signal.SIGSTOP)


def obedient(name: str, context: Context) -> Service:
    """The service with its commit points listening."""
    service = build(name, context)
    listen = Obedient(context.settings.home.absolute() / "chaos", name)
    for machine in service.machines:
        assert hasattr(machine, "_crash"), f"{type(machine).__name__} has no commit points"
        machine._crash = listen
    return service


_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """A test that is ended by force leaves none of its services behind."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    end_with_parent()
    service = sys.argv[1]
    code = run_service(service, make_context(load_settings(), service), obedient)
    logging.shutdown()
    os._exit(code)  # as the command does: an effect in flight is abandoned
