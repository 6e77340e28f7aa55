"""Records and artefacts as documents that the leakage checks read: trees of names and texts, and the digests beside them.

Left out are fixed forms that no fingerprint can meet: ids of 32 hex digits, times, numbers. Digests of 64 hex digits are
kept apart: each may name a held-out file, and an artefact of the training plane.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pydantic import BaseModel

from bat_events.audit.search.unpack import Cut, texts
from bat_events.codec import Fact
from bat_events.events.envelope import Cost, parse_cut, parse_time
from bat_events.log.interface import Record
from bat_events.log.topics import BY_NAME

_ID = re.compile(r"(?:[0-9a-f]{32}|\d{1,19}|[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})\Z")
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})\Z")
_KINDS = {"state": "state", "evidence": "rollout", "corpus": "corpus"}
_TOKENS = frozenset({"prompt_ids", "response_ids"})  # read as text elsewhere: see transcripts


@dataclass(kw_only=True)
class Document:
    """`kind`: record, state, rollout, corpus, checkpoint or artefact. `digests` come with the name of their field."""

    kind: str
    where: str
    tree: dict[str, object] = field(default_factory=dict)
    digests: list[tuple[str, str]] = field(default_factory=list)


def record_document(record: Record, fact: Fact | None, cut: Cut) -> Document:
    """A record's key, headers and body. Where it is no event, its bytes are read as whatever they are."""
    made = Document(kind="record", where=f"{record.topic}[{record.partition}]@{record.offset}")
    key = record.key.decode("utf-8", "backslashreplace")
    _put(made, made.tree, "key", key)
    headers: dict[str, object] = {}
    for name, raw in record.headers:
        value = raw.decode("utf-8", "backslashreplace")
        if not (fact is not None and _in_form(name, value)):
            _put(made, headers, f"{name} again" if name in headers else name, value)
    if headers:
        made.tree["headers"] = headers
    if fact is None:
        made.tree["value"] = [text for _, text in texts(record.value, cut)]
        return made
    body = _plain(fact.written, made, "", cut)
    if body is not None:
        made.tree["body"] = body
    return made


def _in_form(name: str, value: str) -> bool:
    """Whether a header's value is of a form that says nothing: then it need not be read."""
    try:
        if name == "ce_time":
            parse_time(value)
            return True
        if name == "bat_cut":
            return set(parse_cut(value)) <= set(BY_NAME)
        if name == "bat_cost":
            return Cost.model_validate_json(value).model_dump_json(exclude_none=True) == value
    except ValueError:
        return False
    return name in ("bat_digest", "ce_dataschema") and _DIGEST.match(value) is not None


def _put(made: Document, place: dict[str, object], name: str, value: str) -> None:
    digest = _DIGEST.match(value)
    if digest is not None:
        made.digests.append((name, digest[1]))
    elif not _ID.match(value):
        place[name] = value


def _plain(value: Any, made: Document, name: str, cut: Cut) -> object | None:
    """The texts of an event's body; None where there are none."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        found: dict[str, object] = {}
        _put(made, found, name, value)
        return found.get(name)
    if isinstance(value, BaseModel):
        parts = {key: _plain(part, made, key, cut) for key, part in value.__dict__.items()}
        return {key: part for key, part in parts.items() if part is not None} or None
    if isinstance(value, tuple | list):
        return [kept for part in value if (kept := _plain(part, made, name, cut)) is not None] or None
    if isinstance(value, bytes) and name not in _TOKENS:
        return [text for how, text in texts(value, cut) if how != "file" and not _is_packed(text)] or None
    return None


def _is_packed(text: str) -> bool:
    """Masks and other packed numbers that decode as text of control characters."""
    return not any(character.isprintable() for character in text)


def artefact_documents(digest: str, content: bytes, cut_of: Callable[[str], Cut]) -> Iterator[Document]:
    """What an artefact holds, read by its kind: state, evidence, corpus, or anything. `cut_of` gives each kind its `cut`."""
    where = f"artefact {digest}"
    data: Any = None
    if content[:1] in (b"{", b"["):
        try:
            data = json.loads(content)
        except (ValueError, RecursionError):
            data = None
    kind = _KINDS.get(str(data.get("kind")), "artefact") if isinstance(data, dict) else "artefact"
    cut = cut_of(kind)
    if kind == "corpus" and isinstance(data.get("rows"), list):
        for number, row in enumerate(data["rows"]):
            yield _json_document("corpus", f"{where} row {number}", row, cut)
        data = {name: value for name, value in data.items() if name != "rows"}
    if data is not None:
        yield _json_document(kind, where, data, cut)
    else:
        yield Document(kind=kind, where=where, tree={"content": [text for _, text in texts(content, cut)]})


def file_document(where: str, name: str, content: bytes, cut: Cut) -> Document:
    """A file of a checkpoint, with what it is called."""
    return Document(kind="checkpoint", where=where, tree={"file": {name: [text for _, text in texts(content, cut)]}})


def _json_document(kind: str, where: str, data: object, cut: Cut) -> Document:
    made = Document(kind=kind, where=where)
    made.tree["content"] = _json(data, made, "", cut)
    return made


def _json(value: Any, made: Document, name: str, cut: Cut) -> object:
    if isinstance(value, dict):
        files = name in ("inputs", "files")
        return {
            key: _file(part, made, key, cut) if files else _json(part, made, key, cut) for key, part in value.items()
        }
    if isinstance(value, list):
        return [_json(part, made, name, cut) for part in value]
    if isinstance(value, str):
        digest = _DIGEST.match(value)
        if digest is not None:
            made.digests.append((name, digest[1]))
            return None
        return None if _ID.match(value) else value
    return None  # numbers and flags say nothing that the checks read


def _file(value: Any, made: Document, name: str, cut: Cut) -> object:
    """A file of a workspace, which stands in base64; anything else is read as it stands."""
    if isinstance(value, str):
        try:
            content = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return value
        found: Sequence[str] = [text for _, text in texts(content, cut)]
        return found[0] if len(found) == 1 else list(found)
    return _json(value, made, name, cut)


def manifest(content: bytes) -> Mapping[str, str] | None:
    """path -> digest of a stored folder; None of anything else."""
    if not content.startswith(b"{"):
        return None
    try:
        data = json.loads(content)
        if data.get("kind") != "folder":
            return None
        return {str(path): str(entry["sha256"]) for path, entry in data["files"].items()}
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return None
