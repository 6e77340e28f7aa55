"""One consumer group's dead letters: it reads its plane's topic, knows what is parked and what waits, and drafts new ones.

What a group parked is known from the log alone, so it survives a death and goes with a partition to its next owner.
"""

import hashlib
from collections.abc import Collection, Sequence
from enum import StrEnum

from bat_events.codec import Codec, Fact
from bat_events.deciders.dead_letters import BEHIND, DeadLetters, Letter, Reference
from bat_events.deciders.interface import Draft
from bat_events.domain.canonical import seed63
from bat_events.errors import BadBody, BadEnvelope, DecodeError, LogError, TooLarge, UnknownSchema
from bat_events.events.dead_letters import MAXIMUM_TEXT, DeadLettered, DeadLetterSettled
from bat_events.events.ids import ROOT_CAUSE
from bat_events.log.interface import LogReader, Partition, Record
from bat_events.log.topics import DEAD_LETTERS

LOGIC = "dead-letters/1"
_LONGEST_NAME = 200
_READ_S = 30.0
_WAIT_S = 0.2


class Cause(StrEnum):
    """Why a record is a dead letter. The set is closed in code; on the wire it is a string, so that it may grow."""

    BAD_ENVELOPE = "bad_envelope"
    UNKNOWN_SCHEMA = "unknown_schema"
    BAD_BODY = "bad_body"
    TOO_LARGE = "too_large"
    IMPOSSIBLE = "impossible"  # its ids are not those of its campaign
    UNFOUNDED = "unfounded"  # what it rests on is not on the log
    RETRIES_EXHAUSTED = "retries_exhausted"
    HANDLER_FAILED = "handler_failed"
    KILLS_CONSUMER = "kills_consumer"
    BEHIND = BEHIND


_DECODING = {
    BadEnvelope: Cause.BAD_ENVELOPE,
    UnknownSchema: Cause.UNKNOWN_SCHEMA,
    BadBody: Cause.BAD_BODY,
    TooLarge: Cause.TOO_LARGE,
}


def cause_of(error: DecodeError) -> Cause:
    """The cause that a decoding error is."""
    return _DECODING[type(error)]


def header(record: Record, name: str) -> str | None:
    """A header's text where it stands there once, is UTF-8, and is no longer than a name."""
    found = [raw for key, raw in record.headers if key == name]
    return name_of(found[0]) if len(found) == 1 else None


def name_of(raw: bytes) -> str | None:
    """Bytes as the name that they are, if they are one."""
    if len(raw) > _LONGEST_NAME:
        return None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def key_of(record: Record) -> str:
    """A record's key, as letters carry it: the key itself, or its digest where it is no name."""
    known = name_of(record.key)
    return known if known is not None else f"sha256 {hashlib.sha256(record.key).hexdigest()}"


def short(text: str) -> str:
    """A text that fits into an event."""
    return text if len(text) <= MAXIMUM_TEXT else text[: MAXIMUM_TEXT - 1] + "…"


class DeadLetterBox:
    """See the module. `service` is the consumer group, `topic` its plane's dead-letter topic, which `reader` reads whole."""

    def __init__(self, *, service: str, topic: str, reader: LogReader, codec: Codec) -> None:
        self.service, self.topic = service, topic
        self._reader, self._codec = reader, codec
        self.letters = DeadLetters()
        self.position = 0
        """The next offset of the topic's one partition that was not read."""

    def poll(self, timeout_s: float = 0.0) -> bool:
        """Fold what is new; whether there was anything. A record that is no event says nothing about others: it is skipped."""
        records = self._reader.poll(500, timeout_s)
        for record in records:
            self.position = record.offset + 1
            try:
                fact = self._codec.decode(record)
            except DecodeError:
                continue
            envelope = fact.envelope
            self.letters.apply(fact.id, fact.event, key=envelope.subject, campaign=envelope.campaign)
        return bool(records)

    def catch_up(self) -> None:
        """Fold everything that is there. Raises LogError where the topic cannot be read to its end."""
        quiet_s = 0.0
        while not self._reader.caught_up():
            quiet_s = 0.0 if self.poll(_WAIT_S) else quiet_s + _WAIT_S
            if quiet_s > _READ_S:
                raise LogError(f"{self.topic}: nothing came for {_READ_S:g} s and its end is not reached")

    def wait_for(self, where: Partition, count: int) -> None:
        """Read until `count` events of this service about a partition are known. Raises LogError after a while without.

        Whoever had the partition before committed them, but a reader sees them only when transactions of other services that
        began earlier have ended.
        """
        quiet_s = 0.0
        while self.letters.written(self.service, where) < count:
            quiet_s = 0.0 if self.poll(_WAIT_S) else quiet_s + _WAIT_S
            if quiet_s > _READ_S:
                raise LogError(
                    f"{self.topic}: {count} events about {where[0]}[{where[1]}] were written, not all can be read"
                )

    def written(self, where: Partition) -> int:
        """How many events this service has written about a partition."""
        return self.letters.written(self.service, where)

    @property
    def resolved(self) -> bool:
        """Whether a person ever decided about one of this service's letters: from then on its folds depend on this topic."""
        return bool(self.letters.resolutions.get(self.service))

    def of(self, record: Record) -> Letter | None:
        """What is known of a record."""
        return self.letters.of(self._reference(record))

    def blocked(self, record: Record) -> bool:
        """Whether an earlier record of this key waits."""
        lane = self.letters.lane((self.service, record.topic, record.partition, key_of(record)))
        return any(letter.event.offset < record.offset for letter in lane)

    def due(self, partitions: Collection[Partition]) -> Letter | None:
        """A letter that may be taken further now."""
        return next(self.letters.due(self.service, partitions), None)

    @property
    def heldout(self) -> bool:
        """Whether this is the held-out plane's."""
        return self.topic == DEAD_LETTERS["heldout"]

    def remark(self) -> str:
        """What a service's status says beside what it does: that something is parked, and never what was said of it."""
        parked = [letter for letter in self.open() if letter.event.waits]
        if not parked:
            return ""
        option = " --heldout" if self.heldout else ""
        return f"; {len(parked)} dead letters ({parked[0].place} first), see `bat-events dlq list{option}`"

    def open(self) -> list[Letter]:
        """This service's open letters."""
        return [letter for letter in self.letters.open() if letter.event.service == self.service]

    def park(self, record: Record, cause: Cause, error: str, *, fact: Fact | None = None, attempts: int = 0) -> Draft:
        """A letter about a record that waits."""
        event = DeadLettered(
            service=self.service,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            cause=cause.value,
            error=short(error),
            attempts=attempts,
            value_bytes=len(record.value),
            value_digest=hashlib.sha256(record.value).hexdigest(),
            event=None if fact is None else fact.id,
            event_type=header(record, "ce_type"),
            waits=True,
        )
        campaign = fact.envelope.campaign if fact else header(record, "bat_campaign") or key_of(record)
        return self._draft(event, campaign, key_of(record), fact)

    def ignore(self, fact: Fact, cause: Cause, error: str) -> Draft:
        """A letter about an event that does not count by rule: nothing waits for it."""
        event = DeadLettered(
            service=self.service,
            topic=fact.topic,
            partition=fact.partition,
            offset=fact.offset,
            cause=cause.value,
            error=short(error),
            attempts=0,
            value_bytes=len(Codec.encode_body(fact.written)),
            value_digest=fact.envelope.body_digest,
            event=fact.id,
            event_type=fact.envelope.type,
            waits=False,
        )
        return self._draft(event, fact.envelope.campaign, fact.envelope.subject, fact)

    def _draft(self, event: DeadLettered, campaign: str, key: str, fact: Fact | None) -> Draft:
        """Its cause is the person's word, the letter before it, or the event itself; there may be none."""
        where: Reference = (event.service, event.topic, event.partition, event.offset)
        known = self.letters.of(where)
        cause = ROOT_CAUSE if fact is None else fact.id
        if known is not None:
            cause = known.asked or known.id
        return Draft(
            event=event,
            campaign=campaign,
            cause=cause,
            ordinal=seed63("dead letter", *where),  # so that two services' letters about one event differ in id
            key=key,
            topic=self.topic,
        )

    def settle(self, letter: Letter) -> Draft:
        """What goes into the transaction that takes a letter further."""
        event = DeadLetterSettled(
            dead_letter=letter.id,
            service=self.service,
            topic=letter.event.topic,
            partition=letter.event.partition,
            offset=letter.event.offset,
        )
        return Draft(
            event=event,
            campaign=letter.campaign,
            cause=letter.asked or letter.id,
            ordinal=0,
            key=letter.key,
            topic=self.topic,
        )

    def wrote(self, drafts: Sequence[Draft]) -> None:
        """Learn that these were committed: at once, for the reader brings them later."""
        for draft in drafts:
            self.letters.apply(draft.id, draft.event, key=draft.key, campaign=draft.campaign)

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()

    def _reference(self, record: Record) -> Reference:
        return self.service, record.topic, record.partition, record.offset
