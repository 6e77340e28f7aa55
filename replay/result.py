"""What a replay found, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass

from bat_events.replay.differences import Difference, Pending


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
    """What was taken as recorded, and why it cannot be recomputed here."""

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
    not_recomputed: tuple[NotRecomputed, ...]
    signers: Mapping[
        str, int
    ]  # public keys of receipts -> how many rollouts each signed; compare them with the workers'
    unknown_logic: Mapping[str, int]  # decider versions that are not here -> how many decisions they made
    incomplete: int = 0  # events that were to be recomputed from held-out cells, and whose cells are not there

    @property
    def decisions(self) -> int:
        """Decisions that were compared."""
        return sum(part.decisions for part in self.deciders)

    @property
    def first(self) -> Difference | None:
        """The earliest difference."""
        return self.differences[0] if self.differences else None

    @property
    def exit_code(self) -> int:
        """0: every recorded decision is reproduced. 1: something differs. 2: a decider's version is not here.

        3: nothing differs, and something that was to be recomputed could not be.
        """
        if self.differences:
            return 1
        if self.unknown_logic:
            return 2
        return 3 if self.incomplete else 0
