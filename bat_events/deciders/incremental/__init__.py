"""Deciders that say what is newly required, at the cost of what came since they last said so.

`required()` of a decider lists every event that must exist and is the rule: short, and asked in full it costs as much as the
campaign is long. A follower folds the same facts and gives, at each call of `fresh()`, exactly the drafts that `required()`
has now and had at no earlier call, in its order. It keeps what later decisions need and lets go of the rest. A property test
holds each follower to its decider over interleavings, restarts and golden logs, so it has no version of its own.
"""

from collections.abc import Callable, Collection

from bat_events.deciders.bank import Bank
from bat_events.deciders.incremental.bank import BankFollower, BankFollowerV1
from bat_events.deciders.incremental.breaking import BreakingFollower
from bat_events.deciders.incremental.follower import Follower, PlainFollower
from bat_events.deciders.incremental.forked import ForkedFollower
from bat_events.deciders.incremental.planner import PlannerFollower, PlannerFollowerV1
from bat_events.deciders.incremental.upgraded import NAME, UpgradedPlanner
from bat_events.deciders.interface import Decider
from bat_events.deciders.old.bank import BankV1
from bat_events.deciders.old.planner import PlannerV1, PlannerV2
from bat_events.deciders.planner import Planner
from bat_events.deciders.versions import DECIDERS
from bat_events.domain.lineage import is_fork
from bat_events.errors import ConfigurationError

__all__ = ["Follower", "follow"]

_PLANNERS: dict[type[Decider], Callable[[str], PlannerFollower]] = {
    Planner: BreakingFollower,
    PlannerV2: PlannerFollower,
    PlannerV1: PlannerFollowerV1,
}
_FOLLOWERS: dict[type[Decider], Callable[[str], Follower]] = {Bank: BankFollower, BankV1: BankFollowerV1}


def follow(kind: type[Decider], campaign: str, copied: Collection[str] = ()) -> Follower:
    """A follower of one decider version: its own, or else one that asks the decider and leaves out what it said before.

    `copied` are the ids of what was copied into a fork, known in full before `fresh` is asked. A planner goes over to other
    versions where the campaign does (see upgraded). Raises ConfigurationError, when it meets an upgrade to a version that
    is not here.
    """
    if is_fork(campaign):
        return ForkedFollower(_follow(kind, campaign), campaign, copied)
    return _follow(kind, campaign)


def _follow(kind: type[Decider], campaign: str) -> Follower:
    if kind.name == NAME and DECIDERS.get(f"{NAME}/{kind.version}") is kind:
        return UpgradedPlanner(kind.version, lambda version: _planner(version, campaign))
    own = _PLANNERS.get(kind) or _FOLLOWERS.get(kind)
    return PlainFollower(kind(campaign)) if own is None else own(campaign)


def _planner(version: int, campaign: str) -> PlannerFollower:
    kind = DECIDERS.get(f"{NAME}/{version}")
    if kind is None:
        raise ConfigurationError(
            f"campaign {campaign} goes over to {NAME}/{version}, which is not here: run its services with a newer bat-events"
        )
    return _PLANNERS[kind](campaign)
