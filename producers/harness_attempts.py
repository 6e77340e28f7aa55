"""The runs of an outside harness for one request, kept as folders: what was tried, how it ended, what is still running.

REQUEST/attempt-N holds request.json, reply.json, log.txt, run.json (who runs it) and, once it is over, outcome.json. A run
without an outcome was cut short together with its service; it counts as tried, so that a harness that brings its evaluator
down is not started for ever. A run that was stopped as asked does not count.
"""

import contextlib
import json
import os
import shutil
import stat
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bat_events.benchmark.harness import sweep
from bat_events.codec import Fact
from bat_events.service.context import Context

MAX_REPLY_BYTES = 16 << 20

MEASURED, FAILED, REFUSED, STOPPED = "measured", "failed", "refused", "stopped"


def request_folder(context: Context, fact: Fact) -> Path:
    """Where the runs for a request are kept: in the held-out plane's space."""
    return context.settings.home.absolute() / "heldout" / "external" / context.settings.namespace / fact.id


class UnreadableReply(Exception):
    """`reason` is no_output or unreadable."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        super().__init__(detail)


class StillRunning(Exception):
    """Another evaluator of this home is at this request."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended: `outcome` is one of the words above, `reason` an open word, `detail` for people of this plane."""

    outcome: str
    reason: str = ""
    detail: str = ""
    wall_s: float = 0.0


@dataclass(frozen=True)
class Attempt:
    """One run's folder."""

    folder: Path

    @property
    def request(self) -> Path:
        return self.folder / "request.json"

    @property
    def reply(self) -> Path:
        return self.folder / "reply.json"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    @property
    def work(self) -> Path:
        """The command's working folder; it is removed when the run is over."""
        return self.folder / "work"

    @property
    def mark(self) -> str:
        """What every process of this run carries in its environment."""
        return str(_load(self.folder / "run.json")["mark"])

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None while it has not."""
        path = self.folder / "outcome.json"
        return Outcome(**_load(path)) if path.exists() else None

    def owned_elsewhere(self) -> bool:
        """Whether the process that runs it is alive and not this one."""
        owner = _load(self.folder / "run.json")
        try:
            process = psutil.Process(int(owner["pid"]))
            return process.pid != os.getpid() and abs(process.create_time() - float(owner["created"])) < 1.0
        except psutil.Error:
            return False

    def end(self, outcome: Outcome) -> None:
        """Record how it ended and remove what the command left in its working folder."""
        shutil.rmtree(self.work, ignore_errors=True)
        _save(self.folder / "outcome.json", vars(outcome))

    def read_reply(self) -> bytes:
        """The reply's bytes. Raises UnreadableReply where there is no plain file of an acceptable size."""
        try:
            # O_NONBLOCK: a pipe in its place would be waited on for ever.
            descriptor = os.open(self.reply, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            raise UnreadableReply("no_output", "the command ended well but left no reply file") from None
        except OSError as error:
            raise UnreadableReply("unreadable", f"the reply cannot be opened: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise UnreadableReply("unreadable", "the reply is no plain file")
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(MAX_REPLY_BYTES + 1)
        if len(content) > MAX_REPLY_BYTES:
            raise UnreadableReply("unreadable", f"the reply has more than {MAX_REPLY_BYTES} bytes")
        return content


class Attempts:
    """All runs for one request, oldest first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def all(self) -> list[Attempt]:
        """Every run that began."""
        numbered = [(int(path.name.partition("-")[2]), path) for path in self.folder.glob("attempt-*")]
        return [Attempt(path) for _, path in sorted(numbered)]

    def used(self) -> list[tuple[Attempt, Outcome]]:
        """The runs that count as tried."""
        cut_short = Outcome(outcome=FAILED, reason="interrupted", detail="the run was cut short with its evaluator")
        found = [(attempt, attempt.outcome or cut_short) for attempt in self.all()]
        return [(attempt, outcome) for attempt, outcome in found if outcome.outcome in (FAILED, REFUSED)]

    def measured(self) -> tuple[Attempt, Outcome] | None:
        """The run whose reply was good, if there is one."""
        for attempt in self.all():
            outcome = attempt.outcome
            if outcome is not None and outcome.outcome == MEASURED:
                return attempt, outcome
        return None

    def reap(self) -> None:
        """End what a run that was cut short left running. Raises StillRunning where its evaluator is alive."""
        for attempt in self.all():
            if attempt.outcome is None:
                if attempt.owned_elsewhere():
                    raise StillRunning(str(attempt.folder))
                sweep(attempt.mark)
                shutil.rmtree(attempt.work, ignore_errors=True)

    def begin(self) -> Attempt:
        """A new run's folder with an empty working folder."""
        known = self.all()
        number = 1 + (int(known[-1].folder.name.partition("-")[2]) if known else 0)
        # Under another name until it is whole: a folder without its mark could not be cleaned up after.
        making = self.folder / f"making-{uuid.uuid4().hex}"
        making.mkdir(mode=0o700)
        (making / "work" / "tmp").mkdir(parents=True)
        owner = psutil.Process()
        _save(making / "run.json", {"mark": uuid.uuid4().hex, "pid": owner.pid, "created": owner.create_time()})
        target = self.folder / f"attempt-{number}"
        making.rename(target)
        return Attempt(target)

    def drop(self, attempt: Attempt) -> None:
        """Forget a run that never began."""
        shutil.rmtree(attempt.folder, ignore_errors=True)


def _load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _save(path: Path, value: dict[str, Any]) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(value, indent=1))
    with contextlib.suppress(OSError):
        temporary.chmod(0o600)
    temporary.replace(path)
