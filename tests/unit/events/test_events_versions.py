"""An event of an earlier version is read as it was written and seen by everybody in the newest one."""

import dataclasses
import hashlib
import io
from pathlib import Path
from typing import Any, ClassVar

import fastavro
import pytest

from bat_events.codec import Codec, schema_folder, schema_for
from bat_events.errors import BadBody
from bat_events.events import base
from bat_events.events.avro import from_avro
from bat_events.events.base import Event, OldEvent, event_type, event_types, event_versions, newest
from bat_events.events.boundary import EvaluationReported
from bat_events.events.old.boundary import EvaluationReportedV1
from bat_events.events.types import NonNegative
from bat_events.log.interface import Record
from bat_events.log.topics import topics_of_events
from bat_events.replay import ArchiveSource
from bat_events.service.emit import outgoing
from tests.replay.memory import falsify
from tests.support.samples import NOW, PARTITIONS, as_record, draft, sample, written

CODEC = Codec()
GOLDEN = Path(__file__).parents[2] / "golden"
OLD = [cls for cls in event_versions() if issubclass(cls, OldEvent)]


def recorded(event: OldEvent) -> Record:
    """The record that a writer of that version left."""
    return falsify(as_record(written(newest(event)), offset=7), event=event)


@pytest.fixture
def empty_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Event classes that a test defines do not stay."""
    monkeypatch.setattr(base, "_TYPES", {})


@pytest.mark.parametrize("cls", OLD, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("salt", range(3))
def test_bytes_of_an_earlier_version_are_seen_in_the_newest(cls: type[OldEvent], salt: int) -> None:
    event = sample(cls, salt)
    record = recorded(event)
    fact = CODEC.decode(record)
    assert fact.event == newest(event)
    assert type(fact.event) in set(event_types())
    assert fact.written == event


def test_the_envelope_of_an_earlier_version_stays_as_it_was_recorded() -> None:
    event = sample(EvaluationReportedV1)
    record = recorded(event)
    envelope = CODEC.decode(record).envelope
    assert envelope.type == "bat.EvaluationReported.v1"
    assert envelope.schema_digest == schema_for(EvaluationReportedV1).digest != schema_for(EvaluationReported).digest
    assert envelope.body_digest == hashlib.sha256(record.value).hexdigest()


def test_a_report_of_version_1_says_that_failures_were_not_recorded() -> None:
    event = sample(EvaluationReportedV1)
    seen = CODEC.decode(recorded(event)).event
    assert isinstance(seen, EvaluationReported)
    assert seen.failures is None
    assert seen.model_dump(exclude={"failures"}) == event.model_dump()


@pytest.mark.parametrize("failures", [None, ()])
def test_none_recorded_and_none_fired_are_two_things_on_the_wire(failures: Any) -> None:
    event = sample(EvaluationReported).model_copy(update={"failures": failures})
    assert CODEC.decode(as_record(written(event))).event == event


def test_avros_own_rules_read_version_1_as_its_upcast_does() -> None:
    event = sample(EvaluationReportedV1, 1)
    read = fastavro.schemaless_reader(
        io.BytesIO(Codec.encode_body(event)),
        schema_for(EvaluationReportedV1).parsed,
        schema_for(EvaluationReported).parsed,
    )
    from_avro(EvaluationReported)(read)  # type: ignore[arg-type]
    assert EvaluationReported.model_validate(read) == event.upcast()


def test_reports_of_the_golden_log_are_of_version_1_and_seen_in_version_2() -> None:
    source = ArchiveSource(GOLDEN / "mini-scripted-two-rounds")
    facts = [CODEC.decode(record) for record in source.records() if record.topic == "boundary.report"]
    assert len(facts) >= 3
    for fact in facts:
        assert fact.envelope.type == "bat.EvaluationReported.v1"
        assert isinstance(fact.event, EvaluationReported)
        assert fact.event.failures is None


def test_versions_of_a_type_share_name_topic_and_ids() -> None:
    old, new = draft(sample(EvaluationReportedV1)), draft(sample(EvaluationReported))
    assert EvaluationReportedV1.type_name() == EvaluationReported.type_name() == "EvaluationReported"
    assert EvaluationReportedV1.TOPIC == EvaluationReported.TOPIC
    assert old.id == new.id


def test_only_the_newest_version_is_written() -> None:
    assert as_record(written(sample(EvaluationReported))).headers != ()
    with pytest.raises(TypeError, match=r"EvaluationReported\.v1 is only read: write bat\.EvaluationReported\.v2"):
        outgoing(draft(sample(EvaluationReportedV1)), source="s", logic="l/1", time=NOW, partitions=PARTITIONS)


@pytest.mark.parametrize("claimed", [b"bat.EvaluationReported.v1", b"bat.EvaluationReported.v2"])
def test_a_version_is_never_read_with_the_schema_of_another(claimed: bytes) -> None:
    """By Avro's rules the newer body would be read, and what it has more would be dropped without a word."""
    new = as_record(written(sample(EvaluationReported)))
    record = new if claimed.endswith(b"v1") else recorded(sample(EvaluationReportedV1))
    headers = [(name, claimed if name == "ce_type" else value) for name, value in record.headers]
    with pytest.raises(BadBody, match=r"is not that of bat\.EvaluationReported"):
        CODEC.decode(dataclasses.replace(record, headers=tuple(headers)))


def test_every_committed_schema_is_of_a_version_that_can_be_read() -> None:
    for path in schema_folder().glob("*.avsc"):
        assert event_type(f"bat.{path.stem}") is not None, f"{path.name}: its class is gone, so old logs cannot be read"


def test_a_type_is_listed_once_whatever_its_versions() -> None:
    names = [cls.type_name() for cls in event_types()]
    assert len(set(names)) == len(names) == len(list(event_versions())) - len(OLD)
    assert topics_of_events()["boundary.report"] == ["EvaluationReported"]
    assert event_type("bat.EvaluationReported.v1") is EvaluationReportedV1
    assert event_type("bat.EvaluationReported.v2") is EvaluationReported


@pytest.mark.usefixtures("empty_table")
def test_upcasts_of_several_versions_follow_one_another() -> None:
    class Thing(Event):
        TOPIC: ClassVar[str] = "round"
        VERSION: ClassVar[int] = 3
        total: NonNegative
        unit: str | None

    class ThingV2(OldEvent):
        SUCCESSOR: ClassVar[type[Event]] = Thing
        VERSION: ClassVar[int] = 2
        total: NonNegative

        def upcast(self) -> Event:
            return Thing(total=self.total, unit=None)

    class ThingV1(OldEvent):
        SUCCESSOR: ClassVar[type[Event]] = ThingV2
        VERSION: ClassVar[int] = 1
        parts: tuple[NonNegative, ...]

        def upcast(self) -> Event:
            return ThingV2(total=sum(self.parts))

    assert newest(ThingV1(parts=(1, 2))) == Thing(total=3, unit=None)
    assert [cls.ce_type() for cls in event_versions()] == ["bat.Thing.v1", "bat.Thing.v2", "bat.Thing.v3"]
    assert list(event_types()) == [Thing]


@pytest.mark.usefixtures("empty_table")
def test_mistakes_in_a_version_are_named_at_once() -> None:
    class Thing(Event):
        TOPIC: ClassVar[str] = "round"
        VERSION: ClassVar[int] = 2

    with pytest.raises(TypeError, match=r"ThingV2 has VERSION 2, its successor 2: give it less"):

        class ThingV2(OldEvent):
            SUCCESSOR: ClassVar[type[Event]] = Thing
            VERSION: ClassVar[int] = 2

    class ThingV1(OldEvent):
        SUCCESSOR: ClassVar[type[Event]] = Thing

        def upcast(self) -> Event:
            return self

    with pytest.raises(TypeError, match=r"ThingV1\.upcast gives ThingV1: it must give Thing"):
        newest(ThingV1())

    with pytest.raises(TypeError, match=r"bat\.Thing\.v1 is .*ThingV1 already"):

        class Again(OldEvent):
            SUCCESSOR: ClassVar[type[Event]] = Thing
