"""What is a state's own, and when two states are near-copies of each other.

Two states always differ in ids and always share the text that the benchmark publishes; neither counts. A state's own part
is its prompt's lines and its files without what is published, with ids and paths blanked. Two states of one cell are
near-copies when their own prompts, or their own workspaces, are equal. Across cells what is to be found differs, so
states are compared within their cell, and a cell never waits for another one.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bat_events.domain.bank import SourceCell
from bat_events.domain.canonical import digest

RULE = "own-1"
"""Stands in every digest: what is blanked may change only with a new name."""

_LONG_HEX = re.compile(r"\b[0-9a-f]{12,}\b")
_PATH = re.compile(r"\S*/\S*\w\S*")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_WORD = re.compile(r"[\w.]+")


@dataclass(frozen=True, kw_only=True)
class OwnDigests:
    """SHA-256, as 64 hex digits, of a state's own prompt and workspace, and of the condition that it holds.

    None where it has no own line, or no own file: then there is nothing to compare. The condition is the cell and the
    prompt's own lines without numbers: what is asked for, not on which images.
    """

    prompt: str | None
    workspace: str | None
    condition: str


class Original(NamedTuple):
    """The earlier state of the cell that a near-copy repeats, and in what: prompt or workspace."""

    state: str
    part: str


class Originals:
    """The admitted states of one cell, by what is their own."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}

    def admit(self, state: str, *, prompt: str | None, workspace: str | None) -> Original | None:
        """Take the state among the originals, or say which one it copies; unknown digests (None) equal nothing."""
        parts = [(part, own) for part, own in (("prompt", prompt), ("workspace", workspace)) if own is not None]
        for part in parts:
            if part in self._first:
                return Original(self._first[part], part[0])
        self._first.update(dict.fromkeys(parts, state))
        return None


def own_digests(
    cell: SourceCell, prompt: str, inputs: Mapping[str, bytes], files: Mapping[str, bytes], published: Collection[str]
) -> OwnDigests:
    """The digests of a state's own part.

    `published` are the lines that stand in every state of this track and focus. Ids are the names of unpublished input
    files (cases), runs of 12 hex digits or more, and paths.
    """
    own_files = {
        path: content
        for part in (inputs, files)
        for path, content in part.items()
        if not _is_published(content, published)
    }
    ids = {_split(path)[1] for path in own_files if path in inputs}
    lines = [blank_ids(line, ids) for line in prompt.splitlines() if line not in published]
    compared = sorted(_own_file(path, content, ids) for path, content in own_files.items())
    return OwnDigests(
        prompt=digest([RULE, "prompt", lines]) if lines else None,
        workspace=digest([RULE, "workspace", compared]) if compared else None,
        condition=digest([RULE, "condition", *cell, [_NUMBER.sub("0", line) for line in lines]]),
    )


def blank_ids(text: str, ids: Iterable[str]) -> str:
    """The text with every id and path as `#`."""
    text = _LONG_HEX.sub("#", _PATH.sub("#", text))
    names = "|".join(re.escape(name) for name in sorted(ids, key=lambda name: (-len(name), name)))
    return re.sub(rf"\b(?:{names})\b", "#", text) if names else text


def _is_published(content: bytes, published: Collection[str]) -> bool:
    text = _text(content)
    return text is not None and all(not line or line in published for line in text.splitlines())


def _own_file(path: str, content: bytes, ids: Collection[str]) -> list[str]:
    """A file as it is compared: text as a bag of words, since names order its lists; anything else by its bytes."""
    folder, stem, ending = _split(path)
    place = f"{folder}{'#' if stem in ids else stem}{ending}"
    text = _text(content)
    if text is None:
        return [place, hashlib.sha256(content).hexdigest()]
    return [place, digest(sorted(_WORD.findall(blank_ids(text, ids))))]


def _split(path: str) -> tuple[str, str, str]:
    """Folder with its slash, stem, and ending with its dot."""
    folder, slash, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    return (folder + slash, stem, dot + ending) if stem else (folder + slash, name, "")


def _text(content: bytes) -> str | None:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None
