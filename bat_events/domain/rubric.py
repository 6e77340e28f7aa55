"""The versions of the rubric: what a campaign pins, and what an item and a call are worth under each (docs/rewards.md).

Version 1 asks of some items that a call which exited 0 made them. Version 2 asks it of every item: what scores cites the
receipt that proves it, and a log can be checked for that without the artefacts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

NAME = "rubric"
"""As CampaignStarted.logic pins it."""

NEWEST = 2
VERSIONS = (1, 2)
MAX_BREACHES = 2
"""The first breach is blocked and shown, the second ends the rollout with zero (facts of AutoMedBench)."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """What is read of a receipt: its exit code (None where the runtime cut it short), its end, whether files changed."""

    exit_code: int | None
    end: str
    changed: bool

    @property
    def succeeded(self) -> bool:
        """Whether it ran to its end and exited 0."""
        return self.end == "exited" and self.exit_code == 0


def check_version(version: int) -> int:
    """The version itself. Raises ValueError for one that is not here."""
    if version not in VERSIONS:
        raise ValueError(f"rubric version {version} is not here: known are {', '.join(map(str, VERSIONS))}")
    return version


def execution_cap(version: int, calls: Sequence[Call]) -> float:
    """1 if the calls did work, else 0; always 0 after a second breach.

    Version 1: some call exited 0 and some call changed the workspace. Version 2: one call did both.
    """
    check_version(version)
    if breached(calls):
        return 0.0
    if version == 1:
        return 1.0 if any(c.succeeded for c in calls) and any(c.changed for c in calls) else 0.0
    return 1.0 if any(c.succeeded and c.changed for c in calls) else 0.0


def breached(calls: Sequence[Call]) -> bool:
    """Whether the rollout breached its isolation as often as ends it."""
    return sum(call.end == "breach" for call in calls) >= MAX_BREACHES


def proof_fault(version: int, *, score: float, proof: int | None, calls: Sequence[Call]) -> str | None:
    """What is wrong with an item's proof, None where it holds.

    A proof names a call that exited 0 and changed the workspace. From version 2 on what scores above 0 must have one.
    """
    check_version(version)
    if proof is None:
        return "scores without a proof" if version >= 2 and score > 0.0 else None
    if proof >= len(calls):
        return f"cites receipt {proof} of {len(calls)}"
    if not (calls[proof].succeeded and calls[proof].changed):
        return (
            f"cites receipt {proof}, which proves nothing: end {calls[proof].end}, exit code {calls[proof].exit_code}"
        )
    return None
