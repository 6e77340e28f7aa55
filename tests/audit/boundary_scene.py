"""The small campaign again, with artefacts that exist: held-out texts, fingerprints under a key, bodies in a store.

A `Scene` starts sound. A test plants one thing, and asks what the search and the checks on the log say of it.
"""

import base64
import dataclasses
import hashlib
import random
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from audit_log import CANDIDATE, START, campaign, digest, records

from bat_events.artifacts import ArtifactStore
from bat_events.audit.boundary import AccessRules, BoundaryReport, Check, report
from bat_events.audit.denied import DeniedAccesses
from bat_events.audit.file import AuditFile
from bat_events.audit.materialiser import Materialiser
from bat_events.audit.query import QueryLimits, answer
from bat_events.audit.run import list_queries
from bat_events.audit.search import Searcher, SearchResult
from bat_events.codec import Codec
from bat_events.consumers.fingerprints import as_events
from bat_events.consumers.leakage_gate import as_checks
from bat_events.domain.leakage import Fingerprints, Scanner, make_fingerprints
from bat_events.events.bank import LeakageVerdict
from bat_events.events.base import Event
from bat_events.events.corpus import CorpusScanned
from bat_events.events.rollouts import RolloutCompleted
from bat_events.log.interface import Record
from tests.replay.memory import falsify
from tests.support.leakage_texts import clean_state, text

KEY = b"0123456789abcdef0123456789abcdef"
CANARY = "BAT-canary:7f3e-91ac-55d0"
Body = dict[str, Any]
_CODEC = Codec()


@cache
def heldout() -> tuple[str, ...]:
    """Three held-out texts, and a held-out file that is no text."""
    rng = random.Random("boundary scene")
    return tuple(text(rng, 240) for _ in range(3))


IMAGE = bytes(range(128, 256)) * 4


@cache
def known() -> Fingerprints:
    """The fingerprints of the held-out texts and of IMAGE."""
    image = f"sha256 {hashlib.sha256(IMAGE).hexdigest()}"
    shared = [part for number in range(8) for part in _texts(clean_state(random.Random(f"shared {number}")))]
    return make_fingerprints([*heldout(), image], KEY, shared)


def quote(words: int = 40) -> str:
    """Neighbouring words of a held-out text."""
    return " ".join(heldout()[1].split()[20 : 20 + words])


def _texts(state: dict[str, Any]) -> list[str]:
    return [state["system"], state["prompt"], *state["files"], *state["files"].values()]


def files(**named: bytes) -> dict[str, str]:
    """Files as a body carries them."""
    return {path: base64.b64encode(content).decode() for path, content in named.items()}


class Scene:
    """See the module. `bodies` are the artefacts by the digest that the small campaign gives them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = ArtifactStore(str(folder / "artifacts"), cache=folder / "cache")
        self.bodies: dict[str, Any] = {digest(number): _state(number) for number in (1, 2, 3)}
        self.bodies |= {
            digest(300 + group * 16 + index): _evidence(group * 16 + index)
            for group in (10, 11, 12)
            for index in (0, 1)
        }
        self.bodies[digest(0xC1)] = {"kind": "corpus", "rows": [_row(number) for number in range(3)]}
        self.weights: dict[str, dict[str, bytes]] = {
            weights: {"scripted.json": b'{"kind": "scripted"}', "vocabulary.txt": weights[-4:].encode()}
            for weights in (START, CANDIDATE)
        }
        self.said = "done"  # what every policy writes last
        self.lost: set[str] = set()  # artefacts that are not in the store
        self.vocabulary: bytes | None = None  # tokenizer.json of a real vocabulary; None: bytes, as the stand-in's
        self.behind = 0  # records that the auditor has not materialised yet
        self.edit: Callable[[list[Record]], list[Record]] = lambda found: found

    def records(self) -> list[Record]:
        """The log, with the digests that the artefacts really have."""
        names = {name: self.store.put_json(body) for name, body in self.bodies.items() if name not in self.lost}
        for name, content in self.weights.items():
            place = self.folder / "weights" / name
            place.mkdir(parents=True, exist_ok=True)
            for path, data in content.items():
                (place / path).write_bytes(data)
            names[name] = self.store.put_folder(place)
        made = {type(event).__name__: event for event in as_events(known(), ["shared"], seed=1, instances=1)}
        scanner = Scanner(known())
        found = []
        for record in records(campaign().out):
            event = _CODEC.decode(record).event
            event = made.get(type(event).__name__) or _renamed(event, names)
            if isinstance(event, LeakageVerdict | CorpusScanned):
                checks = as_checks(scanner.check({"prompt": "nothing"}))
                if not event.cleared:
                    checks = (*event.checks[:2], *checks[2:])
                event = event.model_copy(update={"checks": checks})
            if isinstance(event, RolloutCompleted):
                event = self._spoken(event)
            found.append(falsify(record, event=event))
        return self.edit(found)

    def _spoken(self, event: RolloutCompleted) -> RolloutCompleted:
        """The rollout with token ids that say something: an action, what it showed, the last words."""
        prompt, first, shown, last = (self._ids(part) for part in ("Do it.\n", "act()", "\nok\n", self.said))
        end = self._ids("\n")[0] if self.vocabulary else 256
        response = [*first, end, *shown, *last, end]
        mask = [1] * (len(first) + 1) + [0] * len(shown) + [1] * (len(last) + 1)
        return event.model_copy(
            update={
                "prompt_tokens": len(prompt),
                "response_tokens": len(response),
                "prompt_ids": struct.pack(f"<{len(prompt)}i", *prompt),
                "response_ids": struct.pack(f"<{len(response)}i", *response),
                "response_mask": bytes(mask),
                "logprobs": struct.pack(f"<{len(response)}f", *[-0.5] * len(response)),
            }
        )

    def _ids(self, said: str) -> list[int]:
        if self.vocabulary is None:
            return list(said.encode())
        from tokenizers import Tokenizer

        ids: list[int] = Tokenizer.from_str(self.vocabulary.decode()).encode(said, add_special_tokens=False).ids
        return ids

    def search(self, found: list[Record] | None = None) -> SearchResult:
        """What the search of all bytes says."""
        searcher = Searcher(campaign="c1", known=known(), canaries=[KEY.hex(), CANARY], store=self.store, codec=_CODEC)
        for record in found or self.records():
            searcher.record(record)
        return searcher.result()

    def look(self, *, denials: DeniedAccesses | None = None, rules: AccessRules | str | None = None) -> BoundaryReport:
        """What `audit boundary` says, with a broker that is sound unless told otherwise."""
        found = self.records()
        path = self.folder / "audit.duckdb"
        if not path.exists():
            path.write_bytes(_empty_file(self.folder))
        file = AuditFile(path, "audit")
        try:
            taken = Materialiser(codec=_CODEC, now=lambda: datetime(2026, 3, 2, tzinfo=UTC), artefact=self.store.get)
            taken.take(file.writer, found[: len(found) - self.behind])
            (query,) = [query for query in list_queries() if query.name == "boundary_checks"]
            with file.cursor() as cursor:
                log = answer(cursor, query.sql, {"campaign": None}, QueryLimits(), "file")
        finally:
            file.close()
            path.unlink()
        return report(
            campaign="c1",
            log=log,
            search=self.search(found),
            rules=rules or AccessRules(looked_at=90),
            denials=denials or DeniedAccesses(observable=True),
            namespace="audit",
            since="2026-03-01 12:00:00",
        )


_EMPTY: list[bytes] = []


def _empty_file(folder: Path) -> bytes:
    """An audit file without rows; making its tables takes longer than everything else."""
    if not _EMPTY:
        made = AuditFile(folder / "empty.duckdb", "audit")
        made.writer.execute("CHECKPOINT")
        made.close()
        _EMPTY.append((folder / "empty.duckdb").read_bytes())
    return _EMPTY[0]


def crossed(found: BoundaryReport) -> set[str]:
    """The checks that found a crossing or an attempt."""
    return {check.name for check in found.checks if check.conclusion in ("CROSSING", "ATTEMPT")}


def unseen(found: BoundaryReport) -> set[str]:
    """The checks that could not be made in full."""
    return {check.name for check in found.checks if check.conclusion == "not observable"}


def row(found: BoundaryReport, name: str) -> Check:
    """One check."""
    return next(check for check in found.checks if check.name == name)


def on(topic: str, change: Callable[[Record], Record], *, number: int = 0) -> Callable[[list[Record]], list[Record]]:
    """An edit of the log: the `number`-th record of a topic is changed."""

    def edit(found: list[Record]) -> list[Record]:
        at = [place for place, record in enumerate(found) if record.topic == topic][number]
        return [*found[:at], change(found[at]), *found[at + 1 :]]

    return edit


def header(name: str, value: str) -> Callable[[Record], Record]:
    """A record with another value of a header, or with one more header."""
    return lambda record: dataclasses.replace(
        record, headers=tuple((dict(record.headers) | {name: value.encode()}).items())
    )


def gone(*types: type[Event]) -> Callable[[list[Record]], list[Record]]:
    """An edit of the log: events of these types were never written."""
    return lambda found: [record for record in found if not isinstance(_CODEC.decode(record).event, types)]


def _renamed(event: Event, names: Mapping[str, str]) -> Event:
    def walk(value: Any) -> Any:
        if isinstance(value, str):
            return names.get(value, value)
        if isinstance(value, dict):
            return {key: walk(part) for key, part in value.items()}
        if isinstance(value, tuple | list):
            return tuple(walk(part) for part in value)
        return value

    return type(event).model_validate(walk(event.model_dump()))


def _state(number: int) -> Body:
    made = clean_state(random.Random(f"state {number}"), words=80)
    own = {path: content.encode() for path, content in made["files"].items()}  # type: ignore[attr-defined]
    body = {"kind": "state", "format": 1, "system": made["system"], "prompt": made["prompt"], "max_turns": 4}
    return {**body, "inputs": files(**{"input/image.npy": bytes(range(200, 240))}), "files": files(**own)}


def _evidence(number: int) -> Body:
    code = "act()"
    calls = [
        {
            "code": code if index == 0 else f"{code}\n# again",
            "index": index,
            "engine": "bubblewrap",
            "language": "python",
            "code_digest": hashlib.sha256((code if index == 0 else f"{code}\n# again").encode()).hexdigest(),
            "exit_code": 0,
            "end": "exited",
            "stdout": f"ok {number}\n",
            "stderr": "",
            "workspace_before": digest(0x500 + index),
            "workspace_after": digest(0x501 + index),
            "changes": [["plan/plan.json", None, digest(0x600 + index)]],
        }
        for index in (0, 1)
    ]
    kept = files(**{"plan/plan.json": b'{"level": 1}'})
    return {"kind": "evidence", "format": 1, "calls": calls, "files": kept, "inputs_intact": True, "end": "final"}


def _row(number: int) -> Body:
    made = clean_state(random.Random(f"row {number}"), words=40)
    said = {"actions": ["act()"], "observations": ["ok"], "focus": "S1", "final": "done"}
    return {"system": made["system"], "prompt": made["prompt"], **said}
