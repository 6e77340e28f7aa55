"""Handlers and rules that go wrong as a seed says, around the real ones. Test-only."""

from collections.abc import Callable, Sequence
from typing import Any

from bat_events.codec import Fact
from bat_events.deciders.interface import Draft
from bat_events.service.runtime import Retryable, RetryPolicy
from tests.simulation.chaos import Chaos, Trouble

_TRIES = len(RetryPolicy().waits_s) + 1
_DEATHS = RetryPolicy().deaths


class Death(BaseException):
    """The process ends here, without a word."""


class Injected(Exception):
    """A bug that the seed put there."""


class Troubles:
    """Which record is in trouble at which service: the n-th distinct one that the service meets."""

    def __init__(self, chaos: Chaos, say: Callable[[str], None]) -> None:
        self._chaos, self._say = chaos, say
        self._met: dict[str, dict[str, int]] = {}
        self._mended: set[str] = set()
        self._told: set[tuple[str, int]] = set()

    def meet(self, group: str, fact: Fact) -> None:
        """Perhaps raise what this record makes its service do."""
        planned = self._chaos.troubles.get(group)
        if planned is None:
            return
        met = self._met.setdefault(group, {})
        number = met.setdefault(fact.id, len(met))
        trouble = planned.get(number)
        if trouble is None or group in self._mended or (not trouble.until_mended and trouble.left <= 0):
            return
        trouble.left -= 1
        self._raise(group, number, trouble)

    def fold(self, group: str, fact: Fact) -> None:
        """The same for rules that fold a fact."""
        planned = self._chaos.troubles.get(group)
        if planned is None or group in self._mended:
            return
        met = self._met.setdefault(group, {})
        if planned.get(met.setdefault(fact.id, len(met))) is not None:
            self._chaos.tell("rules break on a fact")
            self._say(f"the rules of {group} break on {fact.event.type_name()} {fact.id[:8]}")
            raise Injected(f"the rules of {group} are wrong")

    def mend(self, group: str) -> None:
        """An operator mends a service."""
        if group in self._chaos.troubles and group not in self._mended:
            self._mended.add(group)
            self._say(f"{group} is mended")

    def _raise(self, group: str, number: int, trouble: Trouble) -> None:
        limit = "above" if trouble.until_mended else "below"
        said = {
            "fails": f"handler fails, {limit} the limit",
            "breaks": f"handler breaks, {limit} the limit",
            "kills": f"record kills its service, {limit} the limit",
        }[trouble.fault]
        if (group, number) not in self._told:
            self._told.add((group, number))
            self._chaos.tell(said)
        self._say(f"record {number} of {group}: {said}")
        if trouble.fault == "fails":
            raise Retryable("the disk is away")
        if trouble.fault == "breaks":
            raise Injected("a bug")
        raise Death


class FaultyHandler:
    """A Handler around a real one."""

    def __init__(self, handler: Any, group: str, troubles: Troubles) -> None:
        self._handler, self._group, self._troubles = handler, group, troubles
        self.name, self.version, self.topic = handler.name, handler.version, handler.topic
        self.outputs: tuple[str, ...] = handler.outputs
        self.wants: Callable[[Fact], bool] = handler.wants

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """See Handler."""
        self._troubles.meet(self._group, fact)
        drafts: Sequence[Draft] = self._handler.handle(fact)
        return drafts


class FaultyRules:
    """Rules around real ones. A decider's may break when they fold; an effect, the trainer's, may fail."""

    def __init__(self, rules: Any, group: str, troubles: Troubles) -> None:
        self._rules, self._group, self._troubles = rules, group, troubles
        for name in ("version_of", "existing", "emitted", "next_work", "refused", "held"):
            setattr(self, name, getattr(rules, name))
        self.name, self.inputs, self.outputs = rules.name, rules.inputs, rules.outputs
        self.is_decision: bool = rules.is_decision

    def apply(self, fact: Fact) -> None:
        """See Rules."""
        self._troubles.fold(self._group, fact)
        self._rules.apply(fact)
