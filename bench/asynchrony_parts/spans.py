"""What was done when: the record of one round in either order, and what is read from it."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Span:
    """One piece of work. `lane` is who did it, `step` the training step it belongs to (None for others)."""

    lane: str
    kind: str
    begin: float
    end: float
    step: int | None = None

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.begin


@dataclass
class Round:
    """One round, from the prescription to the report of its candidate. `lags` has one entry for each trained group."""

    begin: float
    end: float
    spans: list[Span]
    samplers: int
    lags: list[int] = field(default_factory=list)
    waited_for_states: float = 0.0

    @property
    def wall(self) -> float:
        """Seconds from begin to end."""
        return self.end - self.begin

    def busy(self, kind: str) -> float:
        """Seconds spent on a kind of work within the round."""
        return sum(
            max(0.0, min(span.end, self.end) - max(span.begin, self.begin)) for span in self.spans if span.kind == kind
        )

    @property
    def trainer_idle(self) -> float:
        """Share of the round in which no step is trained."""
        return 1 - self.busy("train") / self.wall

    @property
    def trained_at(self) -> float:
        """When the last step was done."""
        return max(span.end for span in self.spans if span.kind == "train")

    @property
    def training_idle(self) -> float:
        """Share of the time from begin to the last step in which no step is trained: without the evaluation after it."""
        return 1 - self.busy("train") / (self.trained_at - self.begin)

    @property
    def samplers_busy(self) -> float:
        """Share of the sampling workers' time, from begin to the last step, in which they sample."""
        return self.busy("sample") / (self.samplers * (self.trained_at - self.begin))


def in_order(ready: float, durations: Sequence[float], workers: int) -> list[tuple[float, float, int]]:
    """Begin, end and worker of jobs that are all ready at one time and are taken in order by whoever is free first."""
    free = [ready] * workers
    found = []
    for seconds in durations:
        worker = min(range(workers), key=lambda number: free[number])
        begin = free[worker]
        free[worker] = begin + seconds
        found.append((begin, free[worker], worker))
    return found
