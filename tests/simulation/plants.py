"""Planted bugs: small mutations of the real machines and rules, each of which the simulation must catch by name. Test-only."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from bat_events.codec import Fact
from bat_events.deciders.groups import GroupOutcomes
from bat_events.deciders.interface import Draft
from bat_events.errors import DecodeError
from bat_events.events.training import CheckpointProduced, TrainingStepCompleted
from bat_events.log.interface import Outgoing, Partition, Record
from bat_events.service.dead_letters import DeadLetterBox
from bat_events.service.reactor import ReactorMachine
from bat_events.service.worker import WorkerMachine
from tests.simulation.invariants import CAUSE, MISSING, OFFSETS, ORDER, SAME, TRAINED, UNDONE, VERDICT
from tests.simulation.processes import Parts


@dataclass(frozen=True)
class Plant:
    """A bug, the invariants one of which must name it, and within how many seeds from 0 on."""

    parts: Parts
    caught_by: tuple[str, ...]
    within: int


class CommitsFirst(WorkerMachine):
    """Commits what it consumed, and then, in another transaction, what came of it."""

    def _write(self, outputs: list[Outgoing], offsets: Mapping[Partition, int], more: Mapping[Partition, int]) -> None:
        super()._write([], offsets, more)
        super()._write(outputs, {}, {})


class CountsOneTooMany(WorkerMachine):
    """Commits the offset after the next one."""

    def _write(self, outputs: list[Outgoing], offsets: Mapping[Partition, int], more: Mapping[Partition, int]) -> None:
        super()._write(outputs, {where: offset + 1 for where, offset in offsets.items()}, more)


class CountsOneTooFew(WorkerMachine):
    """Commits the offset of what it has done, so that the next owner does it again."""

    def _write(self, outputs: list[Outgoing], offsets: Mapping[Partition, int], more: Mapping[Partition, int]) -> None:
        super()._write(outputs, {where: max(0, offset - 1) for where, offset in offsets.items()}, more)


class DrawsItsIds(WorkerMachine):
    """Gives each answer another ordinal, as a uuid would."""

    def _outgoing(self, draft: Draft, fact: Fact | None, *, logic: str | None = None) -> Outgoing:
        drawn = replace(draft, ordinal=draft.ordinal + 1 + secrets.randbelow(1 << 30))
        return super()._outgoing(drawn, fact, logic=logic)


class ForgetsWhatItTrained(ReactorMachine):
    """Does not learn from its own topic what it has trained, so what is delivered again is trained again."""

    def _exists(self, record: Record) -> None:
        try:
            event = self._codec.decode(record).event
        except DecodeError:
            return
        if not isinstance(event, TrainingStepCompleted | CheckpointProduced) or event.round == 0:
            super()._exists(record)


def _zeros(self: GroupOutcomes, group: str, size: int) -> list[float] | None:
    found = self._rewards.get(group, {})
    return None if len(found) < size else [found[index] or 0.0 for index in range(size)]


def _nothing_waits(self: DeadLetterBox, record: Record) -> bool:  # noqa: ARG001
    return False


def _patched(target: Any, name: str, with_: Callable[..., Any]) -> Sequence[Callable[[], Any]]:
    return (lambda: patch.object(target, name, with_),)


PLANTS: dict[str, Plant] = {
    "commit-before-produce": Plant(Parts(worker=CommitsFirst), (OFFSETS,), 1),
    "offset-one-too-many": Plant(Parts(worker=CountsOneTooMany), (OFFSETS,), 1),
    "offset-one-too-few": Plant(Parts(worker=CountsOneTooFew), (OFFSETS, UNDONE), 30),
    "non-deterministic-id": Plant(Parts(worker=DrawsItsIds), (CAUSE, SAME, VERDICT), 1),
    "zero-for-missing": Plant(Parts(patches=_patched(GroupOutcomes, "rewards", _zeros)), (MISSING,), 10),
    "lost-park-order": Plant(Parts(patches=_patched(DeadLetterBox, "blocked", _nothing_waits)), (ORDER,), 300),
    "double-train-on-redelivery": Plant(Parts(reactor=ForgetsWhatItTrained), (TRAINED,), 200),
}
