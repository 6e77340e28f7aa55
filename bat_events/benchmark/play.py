"""Plays this project's own snippets in process and issues the receipts that a runtime would: for bounds and tests.

Never for code that a policy wrote: that runs in a sandbox only.
"""

import hashlib
from collections.abc import Mapping, Sequence

from bat_events.benchmark.interface import EpisodeEnd, Evidence, Task
from bat_events.benchmark.runner import run_snippet
from bat_events.sandbox.interface import FileChange, Receipt
from bat_events.sandbox.receipts import workspace_digest


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Rollout:
    """A workspace that calls change, one receipt a call."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._begin(task.inputs, task.files)

    @classmethod
    def on(cls, inputs: Mapping[str, bytes], files: Mapping[str, bytes]) -> "Rollout":
        """A rollout on a workspace whose task is not known; it has no `task`."""
        made = cls.__new__(cls)
        made._begin(inputs, files)
        return made

    def _begin(self, inputs: Mapping[str, bytes], files: Mapping[str, bytes]) -> None:
        self._inputs, self.files = inputs, dict(files)
        self.receipts: list[Receipt] = []
        self.observations: list[str] = []

    def call(self, code: str) -> Receipt:
        everything = {**self._inputs, **self.files}
        ran = run_snippet(code, everything)
        after = {path: content for path, content in everything.items() if not path.startswith("input/")}
        return self.note(code, after, exit_code=ran.exit_code, stdout=ran.stdout, stderr=ran.stderr)

    def note(
        self, code: str, after: Mapping[str, bytes], *, exit_code: int = 0, stdout: str = "", stderr: str = ""
    ) -> Receipt:
        """A receipt for a call that left the workspace as `after`."""
        changes = tuple(
            FileChange(
                path=path,
                before=digest(self.files[path]) if path in self.files else None,
                after=digest(after[path]) if path in after else None,
            )
            for path in sorted(self.files.keys() | after.keys())
            if self.files.get(path) != after.get(path)
        )
        receipt = Receipt(
            index=len(self.receipts),
            engine="in-process",
            language="python",
            code_digest=digest(code.encode()),
            exit_code=exit_code,
            end="exited",
            stdout=stdout,
            stderr=stderr,
            workspace_before=workspace_digest(self.files),
            workspace_after=workspace_digest(after),
            changes=changes,
            wall_s=0.0,
        )
        self.receipts.append(receipt)
        self.files = dict(after)
        return receipt

    def evidence(self, *, intact: bool = True, end: EpisodeEnd = "final") -> Evidence:
        return Evidence(receipts=tuple(self.receipts), files=dict(self.files), inputs_intact=intact, end=end)


def rollout(task: Task, codes: Sequence[str]) -> Rollout:
    """The rollout of a policy that makes these calls."""
    made = Rollout(task)
    for code in codes:
        made.call(code)
    return made
