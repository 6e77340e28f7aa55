"""Runs this project's own snippets in process, on a mapping instead of a folder: for starting workspaces, demonstrations
and tests. Never for code that a policy wrote: that runs in a sandbox only."""

from collections.abc import MutableMapping
from dataclasses import dataclass

from bat_events.benchmark.skills import medskills
from bat_events.benchmark.skills.medskills.store import using


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a snippet ended."""

    exit_code: int
    stdout: str
    stderr: str


def run_snippet(code: str, files: MutableMapping[str, bytes]) -> Run:
    """Run a snippet of this project's making; `files` (inputs included) changes as the workspace would."""
    said: list[str] = []
    with using(files, said):
        try:
            exec(compile(code, "snippet", "exec"), {"__name__": "__main__", "m": medskills})
        except SystemExit as stop:
            return Run(exit_code=1, stdout="\n".join(said), stderr=str(stop.code))
    return Run(exit_code=0, stdout="\n".join(said), stderr="")
