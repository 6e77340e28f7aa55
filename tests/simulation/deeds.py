"""What happens between the steps of services: see tests/simulation/chaos.py for how often."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bat_events.log.interface import Outgoing, Record
from tests.simulation.memory_log import MemoryWriter
from tests.simulation.processes import GROUPS, NOTARIES, REACTORS, WORKERS, Process

if TYPE_CHECKING:
    from tests.simulation.world import World


class Deeds:
    """Disturbances of a world, each done to whom its seed draws."""

    def __init__(self, world: "World") -> None:
        self._world = world

    @property
    def all(self) -> Sequence[Callable[[], None]]:
        """What may be drawn."""
        return (self._freeze_one, self._take_one_over, self._join_one, self._leave_one, self._write_again, self._poison)

    def _some(self, groups: Sequence[str]) -> Process | None:
        found = [
            p
            for p in self._world.processes
            if p.group in groups and p.machine is not None and p.thaws_at is None and p is not self._world.acting
        ]
        return self._world.chaos.rng.choice(found) if found else None

    def _freeze_one(self) -> None:
        process = self._some(GROUPS)
        if process is not None:
            seconds = self._world.chaos.freeze_s()
            self._world.chaos.tell("frozen")
            self._world.say(f"{process.name} is stopped for {seconds:g} s")
            self._world.freeze(process, seconds)

    def _take_one_over(self) -> None:
        process = self._some((*REACTORS, *NOTARIES))
        if process is not None:
            self._world.say(f"another {process.group} is started beside {process.name}")
            self._world.take_over(process)

    def _join_one(self) -> None:
        group = self._world.chaos.rng.choice(tuple(WORKERS))
        if sum(p.group == group for p in self._world.processes) < 3:
            self._world.chaos.tell("worker joined")
            self._world.add(group)

    def _leave_one(self) -> None:
        process = self._some(tuple(WORKERS))
        if process is not None:
            self._world.chaos.tell("worker left")
            self._world.say(f"{process.name} is asked to stop")
            self._world.end(process)

    def _write_again(self) -> None:
        """The same event again, as by whoever did not learn that it was committed."""
        record = self._any_record()
        if record is not None:
            self._world.chaos.tell("event written again")
            self._publish(record, record.value)

    def _poison(self) -> None:
        record = self._any_record()
        if record is not None and record.topic in self._world.consumed:
            self._world.chaos.tell("poison")
            self._publish(record, b"\0junk")

    def _any_record(self) -> Record | None:
        places = [where for where, rows in sorted(self._world.broker.records.items()) if rows]
        return (
            self._world.chaos.rng.choice(self._world.broker.records[self._world.chaos.rng.choice(places)])
            if places
            else None
        )

    def _publish(self, like: Record, value: bytes) -> None:
        self._world.say(
            f"{like.topic}[{like.partition}]@{like.offset} is written again{'' if value == like.value else ', spoilt'}"
        )
        out = Outgoing(topic=like.topic, partition=like.partition, key=like.key, value=value, headers=like.headers)
        MemoryWriter(self._world.broker, "somebody").publish([out])
