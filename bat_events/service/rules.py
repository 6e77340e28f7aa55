"""What a reactor runs: the rules of one service over all campaigns of its namespace."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from bat_events.codec import Fact
from bat_events.deciders.incremental import Follower, follow
from bat_events.deciders.interface import Draft
from bat_events.deciders.premises import Premises, pins
from bat_events.deciders.versions import check_versions, pinned_version
from bat_events.errors import ConfigurationError
from bat_events.events.campaign import CampaignStarted


class Rules(Protocol):
    """What one service does, over all campaigns of its namespace."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    is_decision: ClassVar[bool]

    def version_of(self, campaign: str) -> int:
        """The version of the rules that decides this campaign."""
        ...

    def apply(self, fact: Fact) -> None:
        """Fold one input fact."""
        ...

    def existing(self, fact: Fact) -> None:
        """Learn of an own output that the log already holds (at recovery)."""
        ...

    def emitted(self, drafts: Sequence[Draft]) -> None:
        """Learn that these own outputs were committed."""
        ...

    def next_work(self, exists: Callable[[str], bool]) -> Callable[[], Sequence[Draft]] | None:
        """What to do next, as a call whose result is to be emitted; None when nothing is due."""
        ...

    def refused(self) -> Sequence[tuple[Fact, str]]:
        """Facts that never count, each with why."""
        ...

    def held(self) -> Sequence[tuple[Fact, str]]:
        """Facts that do not count yet, each with what it lacks."""
        ...


class DeciderRules:
    """Runs a decider for every campaign of a namespace, each in the version that its CampaignStarted pins.

    Facts that are read before a campaign's start are kept until it says which version folds them.
    """

    is_decision: ClassVar[bool] = True

    def __init__(self, *versions: type[Any]) -> None:
        self._versions = check_versions(versions)
        newest = self._versions[max(self._versions)]
        self.name: str = newest.name
        self.inputs: tuple[str, ...] = newest.inputs
        self.outputs: tuple[str, ...] = newest.outputs
        self._newest = newest
        self._waiting: dict[str, list[Fact]] = {}
        self._campaigns: dict[str, Follower] = {}
        self._premises = Premises(self.inputs)
        self._by_premises: set[str] = set()  # campaigns that pin them
        self._copied: dict[str, set[str]] = {}  # own outputs that were copied into a fork

    def version_of(self, campaign: str) -> int:
        """See Rules.version_of."""
        return self._campaigns[campaign].version

    def apply(self, fact: Fact) -> None:
        """See Rules.apply. Raises ConfigurationError for a campaign that pins a version that is not here."""
        campaign = fact.envelope.campaign
        if campaign not in self._campaigns:
            kind = self._kind(fact)
            if kind is None:
                self._waiting.setdefault(campaign, []).append(fact)
                return
            self._campaigns[campaign] = follow(kind, campaign, self._copied.setdefault(campaign, set()))
            if isinstance(fact.event, CampaignStarted) and pins(fact.event):
                self._by_premises.add(campaign)
            for earlier in self._waiting.pop(campaign, ()):
                self._fold(campaign, earlier)
        self._fold(campaign, fact)

    def _fold(self, campaign: str, fact: Fact) -> None:
        counting = self._premises.take(fact) if campaign in self._by_premises else (fact,)
        for one in counting:
            self._campaigns[campaign].apply(one)

    def refused(self) -> Sequence[tuple[Fact, str]]:
        """See Rules.refused."""
        return self._premises.refused()

    def held(self) -> Sequence[tuple[Fact, str]]:
        """See Rules.held: also whatever belongs to a campaign that did not begin."""
        unbegun = [
            (fact, f"campaign {campaign} did not begin in this namespace")
            for campaign, facts in self._waiting.items()
            for fact in facts
        ]
        return [*self._premises.held(), *unbegun]

    def _kind(self, fact: Fact) -> type[Any] | None:
        """The version that folds this fact's campaign; None where it is not known yet."""
        if not isinstance(fact.event, CampaignStarted):
            return None if "campaign" in self.inputs else self._newest
        version = pinned_version(fact.event, self.name)
        if version is None:
            return self._newest
        if version not in self._versions:
            here = ", ".join(f"{self.name}/{number}" for number in sorted(self._versions))
            raise ConfigurationError(
                f"campaign {fact.envelope.campaign} pins {self.name}/{version}, and here are only {here}: run its services "
                f"with bat-events {fact.event.package_version}"
            )
        return self._versions[version]

    def existing(self, fact: Fact) -> None:
        """A decider needs no memory of its outputs: ids say which exist. In a fork it is told what was copied."""
        if fact.envelope.origin is not None:
            self._copied.setdefault(fact.envelope.campaign, set()).add(fact.id)

    def emitted(self, drafts: Sequence[Draft]) -> None:
        """See `existing`: only copies have other ids than those that a decider gives."""

    def next_work(self, exists: Callable[[str], bool]) -> Callable[[], Sequence[Draft]] | None:
        """See Rules.next_work. Each draft comes up once: what is not committed then is made again after a restart."""
        due = [d for decider in self._campaigns.values() for d in decider.fresh() if not exists(d.id)]
        return (lambda: due) if due else None
