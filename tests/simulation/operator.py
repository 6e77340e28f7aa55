"""The scripted operator: looks at dead letters now and then, mends what is broken, then redrives or discards. Test-only."""

from typing import TYPE_CHECKING

from bat_events.deciders.dead_letters import BEHIND, DeadLetters, Letter, LetterState
from bat_events.deciders.interface import Draft
from bat_events.events.dead_letters import Discarded, Redriven
from bat_events.log.topics import DEAD_LETTERS
from bat_events.service.emit import outgoing
from tests.simulation.memory_log import MemoryReader, MemoryWriter
from tests.simulation.small_campaign import PARTITIONS

if TYPE_CHECKING:
    from tests.simulation.world import World

_DECODING = ("bad_body", "bad_envelope", "unknown_schema", "too_large")


class Operator:
    """See the module. `due` are the moments at which it will decide about a letter."""

    def __init__(self, world: "World") -> None:
        self._world = world
        topics = list(DEAD_LETTERS.values())
        self._reader = MemoryReader(world.broker, topics)
        self._letters = {topic: DeadLetters() for topic in topics}
        self._decides: dict[str, float] = {}  # letter id -> when
        self._version = -1

    @property
    def due(self) -> list[float]:
        """When there is something to decide."""
        return list(self._decides.values())

    def waiting(self) -> list[Letter]:
        """Letters that are open."""
        self._read()
        return [letter for letters in self._letters.values() for letter in letters.open()]

    def act(self) -> None:
        """Read what is new, and decide what is due."""
        if self._version != self._world.broker.version:
            self._version = self._world.broker.version
            self._read()
        now = self._world.clock.at
        for topic, letters in self._letters.items():
            if not self._decides:
                return
            for letter in letters.open():
                at = self._decides.get(letter.id)
                if at is not None and at <= now:
                    del self._decides[letter.id]
                    self._decide(topic, letter)

    def _read(self) -> None:
        while True:
            records = self._reader.poll(500, 0.0)
            if not records:
                break
            for record in records:
                fact = self._world.codec.decode(record)
                fold = self._letters[record.topic]
                fold.apply(fact.id, fact.event, key=fact.envelope.subject, campaign=fact.envelope.campaign)
        rng = self._world.chaos.rng
        for letters in self._letters.values():
            for letter in letters.open():
                if letter.state is LetterState.PARKED and letter.event.waits and letter.event.cause != BEHIND:
                    self._decides.setdefault(letter.id, self._world.clock.at + rng.uniform(0.5, 20.0))

    def _decide(self, topic: str, letter: Letter) -> None:
        world, event = self._world, letter.event
        if letter.state is not LetterState.PARKED:
            return
        spoilt = event.cause in _DECODING
        kind = Discarded if spoilt else Redriven
        if not spoilt:
            world.troubles.mend(event.service)
        world.chaos.tell("discarded" if spoilt else "redriven")
        world.say(f"the operator lets {event.service}'s {letter.place} ({event.cause}) be {kind.__name__.lower()}")
        word = Draft(
            event=kind(
                dead_letter=letter.id,
                service=event.service,
                topic=event.topic,
                partition=event.partition,
                offset=event.offset,
                reason="mended",
            ),
            campaign=letter.campaign,
            cause=letter.id,
            ordinal=0,
            key=letter.key,
            topic=topic,
        )
        out = outgoing(word, source="bat/dlq", logic="dlq/1", time=world.clock.now(), partitions=PARTITIONS)
        MemoryWriter(world.broker, f"dlq-{topic}").publish([out])
