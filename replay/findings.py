"""Collects what checks of recorded facts find: one count per check, one difference per fact that does not follow."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bat_events.codec import Fact
from bat_events.replay.differences import Difference, Json, Kind, of_fact
from bat_events.replay.result import CheckResult

REPLAY_LOGIC = "replay/1"
"""What recomputes facts; raised when a check changes its verdict on a recorded log."""

Side = tuple[str, Json, Json]
"""(field, recorded, recomputed)."""


@dataclass(kw_only=True)
class Findings:
    """Results of all checks, in the order in which they ran; `round` limits them to one round."""

    round: int | None
    differences: list[Difference] = field(default_factory=list)
    _checked: dict[str, int] = field(default_factory=dict)
    _failed: dict[str, int] = field(default_factory=dict)

    def wants(self, fact: Fact) -> bool:
        """Whether this fact is of the round that is replayed."""
        return self.round is None or fact.envelope.round == self.round

    def check(self, name: str, fact: Fact, sides: Sequence[Side], kind: Kind = Kind.FACT) -> None:
        """Count a fact under `name`; the first side whose two values differ becomes its difference."""
        self._checked[name] = self._checked.get(name, 0) + 1
        wrong = next(((n, left, right) for n, left, right in sides if left != right), None)
        if wrong is None:
            return
        field_name, recorded, recomputed = wrong
        self._failed[name] = self._failed.get(name, 0) + 1
        self.differences.append(
            of_fact(
                fact,
                kind,
                f"{name}: {field_name} does not follow from the log",
                field=field_name,
                recorded=recorded,
                recomputed=recomputed,
                replayed_by=REPLAY_LOGIC,
            )
        )

    def results(self) -> tuple[CheckResult, ...]:
        """One result per check, by name."""
        return tuple(
            CheckResult(name=name, checked=count, holds=count - self._failed.get(name, 0))
            for name, count in sorted(self._checked.items())
        )
