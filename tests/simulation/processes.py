"""The processes of the simulated services, and which there are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bat_events.consumers.notary import NotaryMachine
from bat_events.deciders.versions import NEWEST
from bat_events.service.reactor import ReactorMachine
from bat_events.service.worker import WorkerMachine
from tests.simulation.chaos import NOTARY_POINTS, POINTS
from tests.simulation.clock import SimulatedExecutor
from tests.simulation.small_campaign import SCRIPTED

DECIDERS = tuple(kind.name for kind in NEWEST)
REACTORS = (*DECIDERS, "trainer")
NOTARIES = ("notary", "heldout-notary")
WORKERS: dict[str, int] = {**dict.fromkeys(SCRIPTED, 1), "evaluator": 1, "rollout": 2, "judge": 2}
"""Consumer group -> processes at the beginning."""
GROUPS = (*REACTORS, *NOTARIES, *WORKERS)


def points_of(group: str) -> tuple[str, ...]:
    """The commit points of a service."""
    return NOTARY_POINTS if group in NOTARIES else POINTS


@dataclass
class Parts:
    """The machines that are run: a planted bug puts another class in a real one's place."""

    worker: type[WorkerMachine] = WorkerMachine
    reactor: type[ReactorMachine] = ReactorMachine
    notary: type[NotaryMachine] = NotaryMachine
    patches: Sequence[Callable[[], Any]] = ()


@dataclass(eq=False)
class Process:
    """One process of a service. `machine` is None while it is down."""

    group: str
    number: int
    machine: Any = None
    log: Any = None
    readers: tuple[Any, ...] = ()
    effect: SimulatedExecutor | None = None
    up_at: float | None = 0.0
    thaws_at: float | None = None
    replaced: bool = False
    slow: bool = False
    again: bool = False  # a step that seems to do nothing is to be followed by another
    idle: bool = False  # nothing to do but what news bring
    starts: int = 0

    @property
    def name(self) -> str:
        """As the trace has it."""
        return f"{self.group}-{self.number}"

    @property
    def working(self) -> bool:
        """Whether an effect is going on, which nobody knows the result of."""
        return self.effect is not None and self.effect.ends is not None

    def ready(self, now: float) -> bool:
        """Whether a step of it may do anything."""
        if self.machine is None or self.thaws_at is not None:
            return False
        if getattr(self.log, "poked", False):
            return True
        if self.effect is not None and self.effect.ends is not None:
            return self.effect.ends <= now
        return not self.idle or any(reader.news for reader in self.readers)

    @property
    def due(self) -> list[float]:
        """When time alone will give it something to do."""
        ends = None if self.effect is None or self.machine is None else self.effect.ends
        return [at for at in (self.up_at, self.thaws_at, ends) if at is not None]
