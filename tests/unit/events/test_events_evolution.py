"""BACKWARD_TRANSITIVE: the newest schema of a type reads what every committed version of it wrote.

Apache's own checker of Avro's resolution rules judges; that it does is shown by planted changes.
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import avro.schema
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

from bat_events.codec import schema_folder
from bat_events.events.avro import schema_of
from bat_events.events.base import event_types
from bat_events.events.boundary import EvaluationReported

FILES = sorted(schema_folder().glob("*.avsc"))
NEWEST = {cls.type_name(): cls for cls in event_types()}


def unreadable(reader: dict[str, Any], writer: dict[str, Any]) -> list[str]:
    """Why a reader's schema does not read all that a writer's writes; empty where it does."""
    schemas = [avro.schema.parse(json.dumps(schema)) for schema in (reader, writer)]
    result = ReaderWriterCompatibilityChecker().get_compatibility(*schemas)
    if result.compatibility is SchemaCompatibilityType.compatible:
        return []
    where = ", ".join(sorted(result.locations))
    return [f"{kind.value} at {where}: {'; '.join(sorted(result.messages))}" for kind in result.incompatibilities]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_newest_version_reads_every_committed_one(path: Path) -> None:
    newest = NEWEST[path.stem.partition(".")[0]]
    assert unreadable(schema_of(newest), json.loads(path.read_text())) == []


def test_some_type_has_more_than_one_version_so_that_the_check_has_something_to_find() -> None:
    names = [path.stem.partition(".")[0] for path in FILES]
    assert len(names) > len(set(names))


def _field(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return next(field for field in schema["fields"] if field["name"] == name)


def _without_default(new: dict[str, Any]) -> None:
    del _field(new, "failures")["default"]


def _required(new: dict[str, Any]) -> None:
    new["fields"].append({"name": "more", "type": "long"})


def _renamed(new: dict[str, Any]) -> None:
    _field(new, "overall")["name"] = "score"


def _narrowed(new: dict[str, Any]) -> None:
    _field(new, "overall")["type"] = "long"


def _other_type(new: dict[str, Any]) -> None:
    _field(new, "round")["type"] = "string"


def _shorter_id(new: dict[str, Any]) -> None:
    _field(new, "checkpoint")["type"]["size"] = 16


def _symbol_removed(new: dict[str, Any]) -> None:
    _field(_field(new, "tracks")["type"]["items"], "track")["type"]["symbols"].remove("vqa")


def _no_longer_missing(new: dict[str, Any]) -> None:
    _field(_field(new, "stages")["type"]["items"], "reached_mean")["type"] = "double"


def _branch_removed(new: dict[str, Any]) -> None:
    _field(_field(new, "stages")["type"]["items"], "reached_mean")["type"] = ["null", "string"]


def _deep(new: dict[str, Any]) -> None:
    effect = _field(_field(new, "comparators")["type"]["items"], "overall")["type"]
    effect["fields"].append({"name": "p", "type": "double"})


def _not_a_list(new: dict[str, Any]) -> None:
    _field(new, "tracks")["type"] = _field(new, "tracks")["type"]["items"]


def _other_record(new: dict[str, Any]) -> None:
    _field(new, "tracks")["type"]["items"]["name"] = "PerTrack"


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (_without_default, "reader_field_missing_default_value at /fields/10"),
        (_required, "reader_field_missing_default_value"),
        (_renamed, "reader_field_missing_default_value"),
        (_narrowed, "type_mismatch"),
        (_other_type, "type_mismatch"),
        (_shorter_id, "fixed_size_mismatch"),
        (_symbol_removed, "missing_enum_symbols"),
        (_no_longer_missing, "type_mismatch"),
        (_branch_removed, "missing_union_branch"),
        (_deep, "reader_field_missing_default_value"),
        (_not_a_list, "type_mismatch"),
        (_other_record, "name_mismatch"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_incompatible_change_is_found_and_named(change: Callable[[dict[str, Any]], None], kind: str) -> None:
    old = json.loads((schema_folder() / "EvaluationReported.v1.avsc").read_text())
    new = copy.deepcopy(schema_of(EvaluationReported))
    assert unreadable(new, old) == []
    change(new)
    found = unreadable(new, old)
    assert found
    assert {text.startswith(kind) for text in found} == {True}, found


def _symbol_added(new: dict[str, Any]) -> None:
    _field(_field(new, "stages")["type"]["items"], "stage")["type"]["symbols"].append("S6")


def _left_out(new: dict[str, Any]) -> None:
    new["fields"] = [field for field in new["fields"] if field["name"] != "missing"]


def _widened(new: dict[str, Any]) -> None:
    _field(new, "round")["type"] = "double"


@pytest.mark.parametrize("change", [_symbol_added, _left_out, _widened])
def test_what_avros_rules_allow_is_allowed(change: Callable[[dict[str, Any]], None]) -> None:
    new = copy.deepcopy(schema_of(EvaluationReported))
    change(new)
    assert unreadable(new, json.loads((schema_folder() / "EvaluationReported.v1.avsc").read_text())) == []
