"""A person's word about dead letters: tried again, or discarded. Each is an event on the plane's dead-letter topic."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from bat_events.deciders.dead_letters import BEHIND, DeadLetters, Letter, LetterState
from bat_events.deciders.interface import Draft
from bat_events.errors import DecodeError, LogError
from bat_events.events.dead_letters import Discarded, Redriven
from bat_events.log.kafka import KafkaReader, KafkaWriter
from bat_events.log.topics import DEAD_LETTERS
from bat_events.service.context import Context
from bat_events.service.dead_letters import short
from bat_events.service.emit import outgoing

Plane = Literal["training", "heldout"]
OPERATORS: dict[Plane, str] = {"training": "dlq", "heldout": "heldout-dlq"}
"""The principal that reads and writes a plane's dead letters for people."""

_PLACE = re.compile(r"^(?P<topic>[a-z.-]+)\[(?P<partition>\d+)\]@(?P<offset>\d+)$", re.ASCII)


def read_letters(context: Context, plane: Plane) -> DeadLetters:
    """What stands on a plane's dead-letter topic now."""
    fold = DeadLetters()
    topic = DEAD_LETTERS[plane]
    reader = KafkaReader(bootstrap=context.bootstrap, namespace=context.settings.namespace, topics=[topic], group="dlq")
    try:
        while not reader.caught_up():
            for record in reader.poll(500, 0.2):
                try:
                    fact = context.codec.decode(record)
                except DecodeError:  # services pass it over too
                    continue
                fold.apply(fact.id, fact.event, key=fact.envelope.subject, campaign=fact.envelope.campaign)
    finally:
        reader.close()
    return fold


def chosen(fold: DeadLetters, what: str) -> list[Letter]:
    """The letters that a person means: by the beginning of an id, or by the place of the record, for every service there.

    Raises LogError where it is none, or more than one that are not of one record.
    """
    place = _PLACE.match(what)
    if place is not None:
        where = (place["topic"], int(place["partition"]), int(place["offset"]))
        found = [x for x in fold.all() if (x.event.topic, x.event.partition, x.event.offset) == where]
    else:
        found = [x for x in fold.all() if len(what) >= 4 and x.id.startswith(what)]
        if len(found) > 1:
            raise LogError(f"{what} is the beginning of {len(found)} dead letters: give more of the id")
    if not found:
        raise LogError(
            f"no dead letter {what}: `bat-events dlq list --all` shows ids and places (topic[partition]@offset)"
        )
    return found


def redrive(context: Context, plane: Plane, what: str, reason: str) -> list[Letter]:
    """Let services try again; returns the letters that they will. Raises LogError where that makes no sense."""
    return _say(context, plane, what, reason, Redriven)


def discard(context: Context, plane: Plane, what: str, reason: str) -> list[Letter]:
    """Give up for good; returns the letters. Raises LogError where that makes no sense."""
    return _say(context, plane, what, reason, Discarded)


def _say(
    context: Context, plane: Plane, what: str, reason: str, kind: type[Redriven] | type[Discarded]
) -> list[Letter]:
    fold = read_letters(context, plane)
    found = chosen(fold, what)
    fit = [letter for letter in found if letter.state is LetterState.PARKED]
    if not fit:
        raise LogError(f"{what} is {found[0].state.value} already: nothing is left to decide")
    for letter in fit:
        _check(fold, letter, kind)
    _publish(context, plane, fit, reason, kind)
    return fit


def _check(fold: DeadLetters, letter: Letter, kind: type[Redriven] | type[Discarded]) -> None:
    if kind is Discarded:
        return
    if not letter.event.waits:
        raise LogError(
            f"{letter.place} is ignored by rule ({letter.event.cause}) and counts by itself once what it lacks is on the log: "
            "there is nothing to try again; discard it to close it"
        )
    if letter.event.cause == BEHIND:
        head = fold.lane(letter.lane)[0]
        raise LogError(f"{letter.place} only waits: decide about {head.id[:12]} ({head.place}), which it is behind")


def _publish(
    context: Context, plane: Plane, letters: Sequence[Letter], reason: str, kind: type[Redriven] | type[Discarded]
) -> None:
    name = OPERATORS[plane]
    records = []
    for letter in letters:
        event = kind(
            dead_letter=letter.id,
            service=letter.event.service,
            topic=letter.event.topic,
            partition=letter.event.partition,
            offset=letter.event.offset,
            reason=short(reason),
        )
        draft = Draft(
            event=event,
            campaign=letter.campaign,
            cause=letter.id,
            ordinal=0,
            key=letter.key,
            topic=DEAD_LETTERS[plane],
        )
        records.append(
            outgoing(
                draft,
                source=f"bat/{name}",
                logic=f"{name}/1",
                time=datetime.now(UTC),
                partitions=context.partitions,
            )
        )
    KafkaWriter(bootstrap=context.bootstrap, namespace=context.settings.namespace, name=name).publish(records)
