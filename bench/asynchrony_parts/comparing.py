"""One condition in both orders."""

from dataclasses import dataclass, field, replace

from bat_events.domain.vocabulary import Track
from bat_events.events.plan import CampaignPlan, EvaluationPlan, PoolSizes

from .durations import Durations
from .reading import Reading
from .spans import Round
from .synchronous import synchronous_round
from .timed import BEGIN, Shape, TimedCampaign


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What is compared. `their_step` is the reference's seconds a step where they are not ours."""

    name: str
    steps: int = 50
    lag: int = 1
    group_size: int = 4
    pools: tuple[int, int, int] = (4, 2, 2)
    tracks: int = 7
    rounds: int = 1
    durations: Durations = field(default_factory=Durations)
    shape: Shape = field(default_factory=Shape)
    made_inline_by: int = 1
    their_step: float | None = None

    def plan(self) -> CampaignPlan:
        """The campaign file."""
        target, mix, whole = self.pools
        return CampaignPlan(
            tracks=tuple(Track)[: self.tracks],
            rounds=self.rounds,
            steps_per_round=self.steps,
            group_size=self.group_size,
            lag=self.lag,
            seed=1,
            pools=PoolSizes(s_target=target, s_mix=mix, e2e=whole),
            evaluation=EvaluationPlan(repeats=10),
        )


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Both orders of one round. `bound` is what the lag allows at most; `waited_s` what a round waited for its states."""

    condition: Condition
    sync_s: float
    ours_s: float
    bound: float
    sync_trainer_idle: float
    trainer_idle: float
    sync_samplers_busy: float
    samplers_busy: float
    sync_waited_s: float
    waited_s: float
    lag_seen: int

    @property
    def ratio(self) -> float:
        """How many times quicker this system is."""
        return self.sync_s / self.ours_s


def rounds_of(condition: Condition) -> tuple[Round, Round]:
    """The last round in the synchronous order and in this system: the same rollouts, each with the same seconds."""
    number = condition.rounds
    campaign = TimedCampaign(condition.plan(), condition.durations, condition.shape)
    reading = Reading(campaign.run(), BEGIN)
    ours = reading.round(number, campaign.spans, condition.shape.samplers)
    theirs = condition.durations
    if condition.their_step is not None:
        theirs = replace(theirs, step=condition.their_step)
    sync = synchronous_round(
        reading.steps(number, condition.group_size),
        theirs,
        samplers=condition.shape.samplers,
        judges=condition.shape.judges,
        synthesizers=condition.made_inline_by,
    )
    return sync, ours


def bound(sync: Round, condition: Condition) -> float:
    """The most that any system with this lag can gain over the synchronous order.

    No group of step s is asked for before step s - 1 - lag is trained. So each of the lag + 1 chains of every (lag + 1)-th
    step is done one after the other, sampling, judging and training, and the longest takes at least its share of all
    steps' time. States can be hidden wholly, the evaluation not at all.
    """
    steps = sync.wall - sync.waited_for_states - condition.durations.evaluation
    return sync.wall / (steps / (condition.lag + 1) + condition.durations.evaluation)


def compare(condition: Condition) -> Compared:
    """Run one condition."""
    sync, ours = rounds_of(condition)
    return Compared(
        condition=condition,
        sync_s=sync.wall,
        ours_s=ours.wall,
        bound=bound(sync, condition),
        sync_trainer_idle=sync.trainer_idle,
        trainer_idle=ours.trainer_idle,
        sync_samplers_busy=sync.samplers_busy,
        samplers_busy=ours.samplers_busy,
        sync_waited_s=sync.waited_for_states,
        waited_s=ours.waited_for_states,
        lag_seen=max(ours.lags),
    )
