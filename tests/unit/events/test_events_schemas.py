"""The committed schemas are the events' own, and what crosses the boundary is only what may cross."""

import json
from typing import Any

import fastavro
import pytest

from bat_events.codec import make_schema, schema_file, schema_folder
from bat_events.events.avro import schema_of
from bat_events.events.base import Event, event_types, event_versions
from bat_events.events.boundary import EvaluationReported
from bat_events.events.schema_files import render, write
from bat_events.log.topics import BY_NAME, TOPICS


@pytest.mark.parametrize("cls", event_versions(), ids=lambda cls: cls.__name__)
def test_the_committed_schema_is_the_event(cls: type[Event]) -> None:
    path = schema_folder() / schema_file(cls)
    assert path.exists(), "run `make schemas`"
    assert path.read_text() == render(schema_of(cls)), (
        "give the event a new VERSION: a committed schema is never edited"
    )


def test_every_committed_schema_parses_and_has_a_digest_of_its_own() -> None:
    files = sorted(schema_folder().glob("*.avsc"))
    digests = {make_schema(json.loads(path.read_text())).digest for path in files}
    assert len(digests) == len(files) == len(list(event_versions())) > 30


@pytest.mark.parametrize("cls", event_types(), ids=lambda cls: cls.__name__)
def test_every_event_has_a_topic_with_one_writer(cls: type[Event]) -> None:
    assert cls.TOPIC in BY_NAME
    assert len({spec.writer for spec in TOPICS if spec.name == cls.TOPIC}) == 1


def test_writing_schemas_never_changes_a_file(tmp_path: Any) -> None:
    assert write(tmp_path) == []
    changed = tmp_path / "RoundPlanned.v1.avsc"
    changed.write_text("{}\n")
    assert write(tmp_path) == ["RoundPlanned.v1.avsc"]
    assert changed.read_text() == "{}\n"


def _types(schema: Any) -> set[str]:
    if isinstance(schema, str):
        return {schema}
    if isinstance(schema, list):
        return set().union(*(_types(part) for part in schema))
    if schema["type"] == "record":
        return set().union(*(_types(field["type"]) for field in schema["fields"]))
    if schema["type"] == "array":
        return {"array"} | _types(schema["items"])
    return {schema["type"]} if isinstance(schema["type"], str) else _types(schema["type"])


def _named(schema: Any) -> set[str]:
    """The names that a schema defines: a reference to one of them adds nothing to what is walked anyway."""
    if isinstance(schema, list):
        return set().union(*(_named(part) for part in schema))
    if not isinstance(schema, dict):
        return set()
    own = {f"{schema['namespace']}.{schema['name']}"} if "namespace" in schema else set()
    inner = [field["type"] for field in schema.get("fields", ())] + [schema.get("items")]
    return own.union(*(_named(part) for part in inner))


def _may_not_cross(schema: Any) -> set[str]:
    return _types(schema) - {"long", "double", "boolean", "null", "enum", "fixed", "array"} - _named(schema)


BOUNDARY = [cls for cls in event_versions() if cls.TOPIC.startswith("boundary.")]


@pytest.mark.parametrize("cls", BOUNDARY, ids=lambda cls: cls.__name__)
def test_no_string_bytes_or_map_crosses_the_boundary(cls: type[Event]) -> None:
    assert _may_not_cross(schema_of(cls)) == set()


def test_every_version_of_every_boundary_event_is_walked() -> None:
    assert {cls.ce_type() for cls in BOUNDARY} == {
        "bat.EvaluationReported.v1",
        "bat.EvaluationReported.v2",
        "bat.HeldoutFingerprintsPublished.v1",
        "bat.HeldoutMeaningsPublished.v1",
        "bat.HeldoutNgramsPublished.v1",
        "bat.SharedTextDeclared.v1",
    }


@pytest.mark.parametrize(
    ("smuggled", "found"),
    [
        ("string", "string"),
        ("bytes", "bytes"),
        (["null", "string"], "string"),
        ({"type": "map", "values": "long"}, "map"),
        ({"type": "array", "items": {"type": "array", "items": "bytes"}}, "bytes"),
        ("bat.events.Elsewhere", "bat.events.Elsewhere"),
    ],
)
def test_a_field_that_may_not_cross_is_found_however_deep(smuggled: Any, found: str) -> None:
    schema = schema_of(EvaluationReported)
    counts = next(field for field in schema["fields"] if field["name"] == "failures")["type"][1]["items"]
    counts["fields"].append({"name": "note", "type": smuggled})
    assert _may_not_cross(schema) == {found}


def test_reasons_and_failures_are_open_strings_not_enums() -> None:
    for cls in event_types():
        for field in schema_of(cls)["fields"]:
            if field["name"] in ("reason", "outcome", "end", "detail") and field["type"] != "null":
                enum = isinstance(field["type"], dict) and field["type"].get("type") == "enum"
                assert not enum or field["type"]["name"] == "Outcome", f"{cls.__name__}.{field['name']}"


def test_fastavro_takes_every_schema() -> None:
    for cls in event_versions():
        fastavro.parse_schema(schema_of(cls))
