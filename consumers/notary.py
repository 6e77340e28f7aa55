"""Seals the log: when a round is over, Merkle roots over what stands on each partition, chained (docs/archive.md).

It reads raw records of all its topics from the start and decodes none but the few that end a round or a campaign; it reads no
artefact. A seal is due when RoundCompleted or CampaignFinished was read; it is made once everything that stood on the log at
that moment was read as well. The head goes into a file outside the broker after the seal is on the log.

There are two: the notary seals the open topics, the held-out notary those of its plane, with a salt.
"""

import dataclasses
import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from bat_events.codec import Codec, Fact
from bat_events.consumers.seal_state import Ending, Seal, SealState, seal_type
from bat_events.deciders.interface import Draft
from bat_events.domain.sealing import content_bytes
from bat_events.errors import DecodeError, LogError
from bat_events.events.ids import event_id
from bat_events.events.rounds import CampaignFinished, RoundCompleted
from bat_events.events.seals import HeldoutRoundSealed, RoundSealed
from bat_events.log.access import HELDOUT_TOPICS, OPEN_TOPICS
from bat_events.log.heads import Head, append_heads, heads_path, keep_leaves, leaves_path, now_text, read_heads
from bat_events.log.interface import CrashPoint, LogReader, Outgoing, Partition, Record
from bat_events.log.kafka import KafkaReactorLog
from bat_events.log.topics import IMPORT_TOPIC
from bat_events.service.context import Context
from bat_events.service.emit import outgoing
from bat_events.service.metrics_log import metered
from bat_events.service.runtime import Clock, Status, SystemClock, no_crash
from bat_events.service.services import Service

BATCH = 2000
VERSION = 1
SEALED: tuple[str, ...] = tuple(topic for topic in OPEN_TOPICS if topic != IMPORT_TOPIC)
"""The topics of the notary's seals; its own is among them, so a seal covers the record of the one before."""

_ENDS = (b"bat.RoundCompleted.", b"bat.CampaignFinished.")


class SealingLog(LogReader, Protocol):
    """All partitions of some topics, and a fenced writer."""

    positions: dict[Partition, int]

    def end_offsets(self) -> Mapping[Partition, int]: ...

    def commit(self, outputs: Sequence[Outgoing], offsets: Mapping[Partition, int], crash: CrashPoint) -> None: ...


class NotaryMachine:
    """See the module. `step` does one pass and returns whether anything happened.

    `seals` are the facts of its own topic so far. Raises LogError where the heads file tells of another log.
    """

    def __init__(
        self,
        *,
        log: SealingLog,
        seals: Sequence[Fact],
        codec: Codec,
        clock: Clock,
        status: Status,
        partitions: Mapping[str, int],
        heads: Path,
        heldout: bool = False,
        salt: Callable[[], bytes] = lambda: secrets.token_bytes(32),
        crash: CrashPoint = no_crash,
    ) -> None:
        self._log, self._codec, self._clock, self._status = log, codec, clock, status
        self._partitions, self._heads, self._crash = partitions, heads, crash
        self._name = "heldout-notary" if heldout else "notary"
        self._plane = "heldout" if heldout else "training"
        self._type = seal_type(heldout=heldout)
        self._sealed = frozenset(HELDOUT_TOPICS if heldout else SEALED)
        known = [(fact.envelope.campaign, fact.event) for fact in seals]
        self._state = SealState(known, salt if heldout else None)  # type: ignore[arg-type]
        self._existing = {fact.id for fact in seals}
        self._seen: dict[Partition, int] = {}
        self._due: list[Ending] = []
        self._ends: Mapping[Partition, int] | None = None
        noted = self._check_heads(seals)
        self._unnoted = {fact.id: fact for fact in seals if fact.id not in noted}

    def step(self, timeout_s: float) -> bool:
        """One pass. Raises the log's errors. A record that is no event ends no round."""
        if self._due and self._everything_read():
            self._make(self._due.pop(0))
            self._ends = None
            return True
        batch = self._log.poll(BATCH, timeout_s)
        for record in batch:
            self._take(record)
        self._status.events_in += len(batch)
        self._status.behind = not self._log.caught_up()
        self._status.doing = f"a seal is due: {self._due[0].campaign}" if self._due else "waiting"
        self._status.tell()
        return bool(batch)

    def _take(self, record: Record) -> None:
        self._seen[(record.topic, record.partition)] = record.offset + 1
        if record.topic in self._sealed:
            self._state.apply(record)
        if record.topic == self._type.TOPIC and self._unnoted:
            self._note_later(record)
        if record.topic == "round" and any(
            name == "ce_type" and value.startswith(_ENDS) for name, value in record.headers
        ):
            fact = self._decoded(record)
            if fact is not None:
                self._end(fact, record.timestamp_ms)

    def _decoded(self, record: Record) -> Fact | None:
        """The event of a record; None for what is no event, whatever its headers say: it is sealed as it is, and ends nothing."""
        try:
            return self._codec.decode(record)
        except DecodeError as error:
            self._status.say(f"passed over: {error}")
            return None

    def _end(self, fact: Fact, timestamp_ms: int) -> None:
        campaign = fact.envelope.campaign
        if isinstance(fact.event, RoundCompleted):
            ending = Ending(campaign=campaign, id=fact.id, round=fact.event.round, until_ms=timestamp_ms)
        elif isinstance(fact.event, CampaignFinished):
            ending = Ending(campaign=campaign, id=fact.id, round=None, until_ms=None)
        else:
            return
        if self._id_of(ending) not in self._existing and ending.id not in {due.id for due in self._due}:
            self._due.append(ending)

    def _id_of(self, ending: Ending) -> str:
        return event_id(campaign=ending.campaign, cause=ending.id, type_name=self._type.type_name(), ordinal=0)

    def _everything_read(self) -> bool:
        if self._ends is None:
            self._ends = self._log.end_offsets()
        return all(self._log.positions.get(where, 0) >= end for where, end in self._ends.items())

    def _make(self, ending: Ending) -> None:
        seal = self._state.seal(ending)
        now = self._clock.now()
        draft = Draft(
            event=seal, campaign=ending.campaign, cause=ending.id, ordinal=0, key=ending.campaign, round=ending.round
        )
        out = outgoing(
            draft,
            source=f"bat/{self._name}",
            logic=f"{self._name}/{VERSION}",
            time=now,
            partitions=self._partitions,
        )
        out = dataclasses.replace(out, timestamp_ms=int(now.timestamp() * 1000))
        self._log.commit([out], dict(self._seen), self._crash)
        self._existing.add(draft.id)
        content = content_bytes(out.key, out.value, out.headers, out.timestamp_ms or 0)
        append_heads(self._heads, [self._head(ending.campaign, draft.id, seal, content, "sealing")])
        self._crash("noted")
        for (topic, partition), first, leaves in self._state.leaves(ending.campaign, seal):
            keep_leaves(leaves_path(self._heads, ending.campaign, topic, partition), first, leaves)
        self._state.made(ending.campaign, seal)
        self._status.events_out += 1
        self._status.say(f"sealed {ending.campaign}, {'its end' if ending.round is None else f'round {ending.round}'}")

    def _head(self, campaign: str, event: str, seal: Seal, content: bytes, noted: str) -> Head:
        return Head.model_validate(
            {
                "campaign": campaign,
                "plane": self._plane,
                "number": seal.number,
                "round": seal.round,
                "head": seal.head,
                "event": event,
                "record": hashlib.sha256(content).hexdigest(),
                "noted": noted,
                "at": now_text(self._clock.now()),
            }
        )

    def _check_heads(self, seals: Sequence[Fact]) -> set[str]:
        """The seals that the heads file knows. Raises LogError where it and the log tell of different seals."""
        if not self._heads.exists():
            return set()
        on_log = {}
        for fact in seals:
            assert isinstance(fact.event, RoundSealed | HeldoutRoundSealed)
            on_log[(fact.envelope.campaign, fact.event.number)] = fact.event.head
        known = set()
        for head in read_heads(self._heads):
            if on_log.get((head.campaign, head.number)) != head.head:
                raise LogError(
                    f"{self._heads} holds head {head.head} of seal {head.number} of campaign {head.campaign}, and the log "
                    f"has {on_log.get((head.campaign, head.number), 'no such seal')}: the log was changed, cut or "
                    "replaced. `bat-events log verify` says where; move the file away only if that was intended"
                )
            known.add(head.event)
        return known

    def _note_later(self, record: Record) -> None:
        """A crash between a seal's transaction and the heads file leaves a seal that is noted now, and says so."""
        fact = self._decoded(record)
        if fact is not None and self._unnoted.pop(fact.id, None) is not None:
            assert isinstance(fact.event, RoundSealed | HeldoutRoundSealed)
            content = content_bytes(record.key, record.value, record.headers, record.timestamp_ms)
            append_heads(self._heads, [self._head(fact.envelope.campaign, fact.id, fact.event, content, "later")])


def build(context: Context, *, heldout: bool = False) -> Service:
    """A notary of a namespace: started twice, the newer one fences the older."""
    name = "heldout-notary" if heldout else "notary"
    topics = ("round", *HELDOUT_TOPICS) if heldout else SEALED
    log = KafkaReactorLog(
        bootstrap=context.bootstrap, namespace=context.settings.namespace, service=name, topics=topics
    )
    machine = NotaryMachine(
        log=metered(log, context.metrics, name),
        seals=context.read_all(seal_type(heldout=heldout).TOPIC),
        codec=context.codec,
        clock=SystemClock(),
        status=context.status,
        partitions=context.partitions,
        heads=heads_path(context.settings.home.absolute(), context.settings.namespace, heldout=heldout),
        heldout=heldout,
    )
    return Service(machines=[machine], closers=[log.close])
