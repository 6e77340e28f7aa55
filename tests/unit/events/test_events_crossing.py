"""What a boundary record carries beside its body: the campaign as key, and the allowed headers in their forms."""

import dataclasses
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from bat_events.codec import Codec
from bat_events.deciders.interface import Draft
from bat_events.errors import LogError
from bat_events.events.boundary import EvaluationReported
from bat_events.events.crossing import BOUNDARY_HEADERS, COPY_HEADER, OPTIONAL_HEADERS, crossing_faults, header_fault
from bat_events.events.envelope import ALLOWED_HEADERS, Cost
from bat_events.log.interface import Outgoing
from bat_events.service.emit import new_traceparent, outgoing
from tests.support.samples import NOW, PARTITIONS, as_record, sample, written

HERE = {"topic": "boundary.report", "writer": "evaluator", "campaign": "c1"}


def record(**changes: Any) -> Outgoing:
    """A report as the evaluator writes it, with every optional header."""
    draft = Draft(
        event=sample(EvaluationReported),
        campaign="c1",
        cause="0" * 32,
        ordinal=0,
        key="c1",
        round=1,
        cost=Cost(wall_s=1.25),
    )
    how: dict[str, Any] = {
        "source": "bat/evaluator",
        "logic": "evaluator/1",
        "time": NOW,
        "partitions": PARTITIONS,
        "traceparent": new_traceparent(),
    }
    fields = {name: changes.pop(name) for name in ("key", "cost", "round") if name in changes}
    return outgoing(dataclasses.replace(draft, **fields), **how | changes)


def faults(made: Outgoing, **headers: str) -> list[str]:
    """The faults of a record with these headers changed or added."""
    known = dict(made.headers) | {name.replace("__", "-"): text.encode() for name, text in headers.items()}
    return crossing_faults(made.key, list(known.items()), **HERE)


def test_a_reports_key_is_its_campaign_and_its_headers_are_the_allowed_ones() -> None:
    made = record()
    assert made.key == b"c1"
    names = [name for name, _ in made.headers]
    assert sorted(names) == sorted(BOUNDARY_HEADERS)
    assert {"bat_cut", COPY_HEADER} == ALLOWED_HEADERS - BOUNDARY_HEADERS
    bare = written(sample(EvaluationReported))
    assert {name for name, _ in bare.headers} >= BOUNDARY_HEADERS - OPTIONAL_HEADERS
    assert crossing_faults(made.key, made.headers, **HERE) == crossing_faults(bare.key, bare.headers, **HERE) == []
    assert Codec().decode(as_record(made)).envelope.campaign == "c1"


FORMS = {
    "content-type": r"application/avro",
    "ce_specversion": r"1\.0",
    "ce_id": r"[0-9a-f]{32}",
    "ce_source": r"bat/evaluator",
    "ce_type": r"bat\.EvaluationReported\.v2",
    "ce_time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z",
    "ce_subject": r"c1",
    "ce_dataschema": r"sha256:[0-9a-f]{64}",
    "bat_digest": r"[0-9a-f]{64}",
    "bat_campaign": r"c1",
    "bat_cause": r"[0-9a-f]{32}",
    "bat_ordinal": r"\d+",
    "bat_logic": r"evaluator/\d+",
    "bat_round": r"\d+",
    "bat_cost": r'\{"wall_s":1\.25\}',
    "traceparent": r"00-[0-9a-f]{32}-[0-9a-f]{16}-01",
}


def test_every_allowed_header_has_a_form_that_holds_no_words() -> None:
    assert set(FORMS) == BOUNDARY_HEADERS
    for name, value in record().headers:
        assert re.fullmatch(FORMS[name], value.decode()), name


SMUGGLED = {
    "x_note": "the gold answer is 3",
    "bat_cut": '{"the gold answer is 3":{"0":1}}',
    "ce_source": "bat/gold-answer-is-three",
    "bat_logic": "gold/3",
    "ce_type": "bat.GoldAnswerIsThree.v1",
    "ce_subject": "cell-17",
    "bat_campaign": "cell-17",
    "ce_id": "gold",
    "bat_cause": "A" * 32,
    "bat_digest": "0" * 63,
    "ce_dataschema": "gold" * 16,
    "ce_time": "2026-01-02T03:04:05.678901+00:00",
    "bat_ordinal": "three",
    "bat_round": "1 ",
    "bat_cost": '{"wall_s": 1.25}',
    "traceparent": "gold",
    "content__type": "application/avro; answer=3",
    "ce_specversion": "1.0.3",
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_a_header_in_any_other_form_is_a_fault(name: str) -> None:
    assert [fault.split()[1].rstrip(":") for fault in faults(record(), **{name: SMUGGLED[name]})] == [
        name.replace("__", "-")
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"wall_s":1.25,"answer":3}',
        '{"wall_s":"1.25"}',
        '{"wall_s":1.250}',
        '{"tokens_in":3,"wall_s":1.0}',
        "[]",
        "{",
        "null",
    ],
)
def test_a_cost_is_only_numbers_as_this_project_writes_them(text: str) -> None:
    assert faults(record(), bat_cost=text)
    assert not faults(record(), bat_cost=Cost(wall_s=0.1, tokens_out=3).model_dump_json(exclude_none=True))
    many = Cost(wall_s=0.1, call_s=(0.25, 0.5))  # a list would hold as many numbers as somebody likes
    assert faults(record(), bat_cost=many.model_dump_json(exclude_none=True))


def test_a_missing_header_and_one_that_stands_there_twice_are_faults() -> None:
    made = record()
    kept = [(name, value) for name, value in made.headers if name != "bat_digest"]
    assert crossing_faults(made.key, kept, **HERE) == ["header bat_digest is missing"]
    assert crossing_faults(made.key, [*made.headers, made.headers[2]], **HERE) == ["header ce_id stands there twice"]


@pytest.mark.parametrize(
    ("text", "campaign", "may"),
    [
        ('[["c1",17]]', "c1~a", True),
        ('[["c1",17],["c1~a",3]]', "c1~a~b", True),
        ('[["c1~a",3]]', "c1~a~b", True),
        ('[["c1",17]]', "c1", False),
        ('[["c1",17]]', "c1~a~b", False),
        ('[["gold",17]]', "c1~a", False),
        ('[["c1", 17]]', "c1~a", False),
        ('[["c1",17,"gold"]]', "c1~a", False),
        ('[["c1",-1]]', "c1~a", False),
        ("[]", "c1~a", False),
    ],
)
def test_a_copy_names_the_campaigns_of_its_forks_id_and_offsets_alone(text: str, campaign: str, may: bool) -> None:
    assert (header_fault("bat_origin", text, **(HERE | {"campaign": campaign})) is None) is may


def test_the_writer_refuses_what_may_not_cross() -> None:
    for changes, words in (
        ({"key": "cell-17"}, "the key is not the campaign; header ce_subject: not the campaign"),
        ({"source": "bat/judge"}, "header ce_source: not in the form"),
        ({"logic": "evaluator/new"}, "header bat_logic: not in the form"),
        ({"cut": {"round": {0: 1}}}, "header bat_cut: not an allowed header"),
    ):
        with pytest.raises(LogError, match=re.escape(words)):
            record(**changes)
    assert record(time=datetime(2026, 1, 1, tzinfo=UTC)).topic == "boundary.report"
