"""What is newly required in a fork: everything that its facts require, but for what was copied.

A decider derives ids from its own campaign, so what it would have decided before the fork has another id here than its copy.
A draft that was copied is known by the id that one of the fork's ancestors gives it. Drafts that name another draft of theirs as
their cause are given that one's real id.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from bat_events.deciders.incremental.follower import Follower
from bat_events.deciders.interface import Draft
from bat_events.domain.lineage import ancestors
from bat_events.events.campaign import CampaignForked
from bat_events.events.fact import Fact
from bat_events.events.ids import event_id


class ForkedFollower:
    """Around a decider's follower; see the module. `copied` may grow until `fresh` is asked for the first time."""

    def __init__(self, follower: Follower, campaign: str, copied: Collection[str]) -> None:
        self._follower, self._copied = follower, copied
        self._ancestors = ancestors(campaign)
        self._reopened: set[str] = set()
        self._real: dict[str, str] = {}  # ids of drafts that have another one on the log

    @property
    def version(self) -> int:
        """See Follower.version."""
        return self._follower.version

    def apply(self, fact: Fact) -> None:
        """See Follower.apply."""
        if isinstance(fact.event, CampaignForked):
            self._reopened.update(fact.event.reopened)
        self._follower.apply(fact)

    def fresh(self) -> Sequence[Draft]:
        """See Follower.fresh."""
        return list(self._not_copied(self._follower.fresh()))

    def _not_copied(self, drafts: Sequence[Draft]) -> Iterator[Draft]:
        for draft in drafts:
            cause = self._real.get(draft.cause, draft.cause)
            real = draft if cause == draft.cause else replace(draft, cause=cause)
            copy = self._copy_of(real)
            if copy is not None or real is not draft:
                self._real[draft.id] = copy or real.id
            if copy is None:
                yield real

    def _copy_of(self, draft: Draft) -> str | None:
        name = draft.event.type_name()
        for maker in self._ancestors:
            id_ = event_id(campaign=maker, cause=draft.cause, type_name=name, ordinal=draft.ordinal)
            if id_ in self._copied and id_ not in self._reopened:
                return id_
        return None
