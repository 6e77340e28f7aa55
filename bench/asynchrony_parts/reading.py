"""What a campaign's log says of its rounds: when each began and ended, who waited, and how old the trained rollouts were."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from bat_events.codec import Codec, Fact
from bat_events.domain.grouping import rollout_id
from bat_events.events.boundary import EvaluationReported
from bat_events.events.promotion import TargetStagePrescribed
from bat_events.events.rounds import GroupRequested, RoundPlanned
from bat_events.events.training import TrainingStepCompleted
from bat_events.log.interface import Record

from .spans import Round, Span


class Reading:
    """The facts of one log that this benchmark needs."""

    def __init__(self, records: Iterable[Record], origin: datetime) -> None:
        codec = Codec()
        wanted = ("curriculum", "round", "group", "training", "boundary.report")
        self._facts = [codec.decode(record) for record in records if record.topic in wanted]
        self._origin = origin

    def _at(self, fact: Fact) -> float:
        return (fact.envelope.time - self._origin).total_seconds()

    def _time(self, kind: type, number: int) -> float:
        return next(self._at(f) for f in self._facts if isinstance(f.event, kind) and f.envelope.round == number)

    def round(self, number: int, spans: Sequence[Span], samplers: int) -> Round:
        """One round, from the prescription to the report."""
        begin, planned = self._time(TargetStagePrescribed, number), self._time(RoundPlanned, number)
        end = self._time(EvaluationReported, number)
        return Round(
            begin=begin,
            end=end,
            spans=[span for span in spans if span.end > begin and span.begin < end],
            samplers=samplers,
            lags=self.lags(number),
            waited_for_states=planned - begin,
        )

    def steps(self, number: int, size: int) -> list[list[list[str]]]:
        """The rollouts of each trained group of each step: the same work for the other order."""
        return [
            [[rollout_id(g.group, index) for index in range(size)] for g in s.groups] for s in self._trained(number)
        ]

    def lags(self, number: int) -> list[int]:
        """For each trained group: how many steps were trained between its weights and those that it trained."""
        trained = self._trained(number)
        planned = next(f.event for f in self._facts if isinstance(f.event, RoundPlanned) and f.event.round == number)
        assert isinstance(planned, RoundPlanned)
        made = {planned.start_checkpoint: 0, **{step.weights: step.step + 1 for step in trained}}
        asked = {f.event.group: f.event for f in self._facts if isinstance(f.event, GroupRequested)}
        return [step.step - made[asked[group.group].weights] for step in trained for group in step.groups]

    def _trained(self, number: int) -> list[TrainingStepCompleted]:
        steps = [f.event for f in self._facts if isinstance(f.event, TrainingStepCompleted) and f.event.round == number]
        return sorted(steps, key=lambda step: step.step)
