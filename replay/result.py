"""What a replay found, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bat_events.replay.differences import Difference, Pending
from bat_events.replay.verify import Verification

REPORTS = "track, stage and Overall scores against held-out cells"
"""The check of reports that needs a right to held-out cells (heldout.py)."""


@dataclass(frozen=True, kw_only=True)
class DeciderResult:
    """One decider version: how many decisions were compared and how many came out the same."""

    logic: str
    decisions: int
    reproduced: int


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One check of recorded facts against each other: how many were compared and how many hold."""

    name: str
    checked: int
    holds: int


@dataclass(frozen=True, kw_only=True)
class NotRecomputed:
    """What was taken as recorded, and why."""

    what: str
    count: int
    why: str


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """A replay. `differences` are ordered by the time of the decision that they concern, the earliest first."""

    source: str
    campaign: str
    round: int | None
    outcome: str | None  # how the campaign ended; None while it runs
    package_recorded: str
    package_here: str
    events: int
    duplicates: int
    ends: Mapping[str, Mapping[str, int]]  # topic -> partition -> next offset of what was read
    deciders: tuple[DeciderResult, ...]
    checks: tuple[CheckResult, ...]
    differences: tuple[Difference, ...]
    pending: tuple[Pending, ...]
    not_recomputed: tuple[NotRecomputed, ...]  # what replay recomputes where it has the evidence, and could not here
    taken: tuple[NotRecomputed, ...]  # what replay recomputes never: the work of workers, and what was parked
    signers: Mapping[
        str, int
    ]  # public keys of receipts -> how many rollouts each signed; compare them with the workers'
    unknown_logic: Mapping[str, int]  # decider versions that are not here -> how many decisions they made
    log_only: bool = False  # asked to leave out what needs more than the open log
    seals: Verification | None = None  # the record against its seals; None where that was not asked
    origin: "ReplayResult | None" = None  # of a fork: the replay of its copies, as the log that they were copied from

    @property
    def decisions(self) -> int:
        """Decisions that were compared."""
        return sum(part.decisions for part in self.deciders)

    @property
    def first(self) -> Difference | None:
        """The earliest difference; of a fork one of its own events before one of its copies."""
        if not self.differences and self.origin is not None:
            return self.origin.first
        return self.differences[0] if self.differences else None

    @property
    def reproduced(self) -> bool:
        """Whether nothing differs of what was recomputed, and every decider version was here."""
        return not self.differences and not self.unknown_logic

    @property
    def as_sealed(self) -> bool:
        """Whether no seal is broken; True where none was looked at."""
        return self.seals is None or self.seals.ok

    @property
    def exit_code(self) -> int:
        """0: nothing differs, and all was recomputed that can be (with `log_only`: that the log alone gives).

        1: something differs, or a seal is broken. 2: a decider's version is not here. 3: nothing differs, and
        `not_recomputed` is not empty. Of a fork the copies count too.
        """
        codes = {1 if self.differences or not self.as_sealed else 2 if self.unknown_logic else 0}
        codes.add(3 if self.not_recomputed and not self.log_only else 0)
        if self.origin is not None:
            codes.add(replace(self.origin, log_only=self.log_only).exit_code)
        return next((code for code in (1, 2, 3) if code in codes), 0)
