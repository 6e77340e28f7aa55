"""What a planner's follower keeps of what is open: states in stock, rounds, groups and what became of them."""

from collections import deque
from dataclasses import dataclass, field

from bat_events.deciders.breaker import Missing
from bat_events.events.bank import StateAdmitted
from bat_events.events.rounds import PlannedSlot, RoundPlanned

Place = tuple[int, int, int, int]
"""Round, step, slot, attempt: the order in which groups are requested."""

Outcomes = dict[int, Missing | None]
"""What became of a group's rollouts by index: why its reward is missing, None where there is one."""


@dataclass(slots=True)
class Stock:
    """A cell's admitted states that no round drew, in order of rank; `ahead` holds those after a gap."""

    next_rank: int = 0
    states: deque[tuple[str, str]] = field(default_factory=deque)  # state, body
    ahead: dict[int, tuple[str, str]] = field(default_factory=dict)

    def admit(self, event: StateAdmitted) -> None:
        if event.rank < self.next_rank:
            return
        self.ahead.setdefault(event.rank, (event.state, event.body))
        while self.next_rank in self.ahead:
            self.states.append(self.ahead.pop(self.next_rank))
            self.next_rank += 1


@dataclass(slots=True)
class Open:
    """A planned round of which steps are still to be requested."""

    plan_id: str
    event: RoundPlanned
    next_step: int = 0
    held: int = 0  # first steps in which the breaker is known to have held


@dataclass(slots=True)
class Requested:
    """A requested group: its place, and with what its replacement is requested."""

    place: Place
    id: str  # of the request
    width: int
    slot: PlannedSlot
    cause: str
    weights: str


def trainable(outcomes: Outcomes) -> bool:
    """Whether a settled group has the two rewards that it takes."""
    return sum(missing is None for missing in outcomes.values()) >= 2
