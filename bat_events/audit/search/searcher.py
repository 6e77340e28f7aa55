"""Searches one campaign's records, in the log's order, and each artefact that they name, once.

The checks are the leakage gate's own, with its readings, in a Scanner that keeps what it has read. Of their findings only
those count that meet held-out content: canaries, exact pieces, runs of words, near copies. What cannot be read is named.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace

from bat_events.artifacts import ArtifactError, ArtifactStore
from bat_events.audit.search.documents import Document, artefact_documents, file_document, manifest, record_document
from bat_events.audit.search.result import Finding, SearchResult, Unread
from bat_events.audit.search.transcripts import Unreadable, Vocabularies, transcript
from bat_events.codec import Codec, Fact
from bat_events.domain.leakage import Fingerprints, Scanner
from bat_events.domain.leakage.keyed import Hasher
from bat_events.errors import DecodeError
from bat_events.events.bank import LeakageVerdict, StateAdmitted
from bat_events.events.corpus import CorpusBuilt, CorpusScanned
from bat_events.events.envelope import Cut
from bat_events.events.rollouts import RolloutCompleted
from bat_events.events.rounds import GroupRequested, RoundPlanned
from bat_events.events.training import ColdStartCompleted
from bat_events.log.interface import Record

HELDOUT_CHECKS = ("canaries", "exact_match", "ngram_run", "near_duplicate")
MAXIMUM_FINDINGS = 200  # told of; all are counted
_KEPT = 20_000
MUST_BE_THERE = {"body": "state", "evidence": "rollout", "weights": "checkpoint", "checkpoint": "checkpoint"}
"""Fields that name artefacts of the training plane, and their kind; other digests may or may not be artefacts."""
_TENSORS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_HEAD = 1 << 20  # bytes of a tensor file that are read: its header holds texts
_UNSEARCHED_TOPIC = "boundary.fingerprint"  # its digests are the fingerprints themselves


class Searcher:
    """See the module. Feed it records with `record`, then ask for `result`.

    Raises ValueError on a canary that is too short.
    """

    def __init__(
        self,
        *,
        campaign: str,
        known: Fingerprints,
        canaries: Collection[str],
        store: ArtifactStore,
        codec: Codec,
    ) -> None:
        self._campaign, self._known, self._store, self._codec = campaign, known, store, codec
        self._scanner = Scanner(known, canaries)
        self._hasher = Hasher(known.key)
        self._canaries = len(set(canaries))
        self._vocabularies = Vocabularies(store.get)
        self._looked: Counter[str] = Counter()
        self._size = 0
        self._findings: list[Finding] = []
        self._more = 0
        self._unread: dict[tuple[str, str], tuple[int, str]] = {}
        self._seen: set[str] = set()
        self._used: set[str] = set()
        self._rejected: set[str] = set()
        self._corpora: dict[str, str] = {}
        self._as_of: Cut = {}

    @property
    def artefacts(self) -> int:
        """How many digests were looked up so far."""
        return len(self._seen)

    @property
    def size(self) -> int:
        """Bytes that were read so far."""
        return self._size

    def record(self, record: Record) -> None:
        """Search one record, and the artefacts that it is the first to name. Other campaigns' records are passed over."""
        self._as_of.setdefault(record.topic, {})[record.partition] = record.offset + 1
        try:
            fact = self._codec.decode(record)
        except DecodeError:
            fact = None
        if (fact.envelope.campaign if fact is not None else _campaign(record) or self._campaign) != self._campaign:
            return
        self._size += len(record.key) + len(record.value) + sum(len(n) + len(v) for n, v in record.headers)
        where = f"{record.topic}[{record.partition}]@{record.offset}"
        found = record_document(record, fact, self._cut("record", where))
        if record.topic == _UNSEARCHED_TOPIC:
            found.digests.clear()
        self._scan(found)
        if fact is not None:
            self._note(fact)
            if isinstance(fact.event, RolloutCompleted):
                self._transcript(fact.event, where)
        for name, digest in found.digests:
            kind = MUST_BE_THERE.get(name)
            if name == "body" and fact is not None and isinstance(fact.event, CorpusBuilt | CorpusScanned):
                kind = "corpus"
            self._artefact(name, digest, kind, where)

    def result(self) -> SearchResult:
        """Everything so far. What only rejected states and corpora hold is marked as held back."""
        held = {f"artefact {digest}" for digest in self._rejected - self._used}
        findings = [replace(f, held_back=" ".join(f.where.split()[:2]) in held) for f in self._findings]
        findings.sort(key=lambda finding: finding.held_back)
        told = findings[:MAXIMUM_FINDINGS]
        return SearchResult(
            campaign=self._campaign,
            known={
                "exact fingerprints": len(self._known.exact),
                "runs of 8 words": 0 if self._known.windows is None else len(self._known.windows),
                "sketches": 0 if self._known.sketches is None else len(self._known.sketches),
                "canaries": self._canaries,
            },
            looked_at=dict(self._looked),
            size=self._size,
            findings=tuple(told),
            more=self._more + sum(not finding.held_back for finding in findings[MAXIMUM_FINDINGS:]),
            held_back=sum(finding.held_back for finding in findings),
            unread=tuple(
                Unread(kind=kind, what=what, count=count, first=first)
                for (kind, what), (count, first) in sorted(self._unread.items())
            ),
            as_of=self._as_of,
        )

    def _note(self, fact: Fact) -> None:
        """What became of bodies: rejected, or used in spite of it."""
        event = fact.event
        if isinstance(event, LeakageVerdict) and not event.cleared:
            self._rejected.add(event.body)
        elif isinstance(event, CorpusBuilt):
            self._corpora[event.corpus] = event.body
        elif isinstance(event, CorpusScanned):
            self._corpora[event.corpus] = event.body
            if not event.cleared:
                self._rejected.add(event.body)
        elif isinstance(event, ColdStartCompleted):
            self._used.add(self._corpora.get(event.corpus, ""))
        elif isinstance(event, StateAdmitted | GroupRequested | RolloutCompleted):
            self._used.add(event.body)
        elif isinstance(event, RoundPlanned):
            self._used |= {slot.body for step in event.steps for slot in step.slots}

    def _transcript(self, event: RolloutCompleted, where: str) -> None:
        try:
            decode = self._vocabularies.of(event.weights)
            tree = transcript(event, decode)
        except Unreadable as error:
            self._cut("rollout", where)(f"a transcript: {error}")
            return
        self._scan(Document(kind="rollout", where=f"{where} transcript", tree=tree))

    def _artefact(self, name: str, digest: str, kind: str | None, where: str) -> None:
        if digest in self._seen:
            return
        self._seen.add(digest)
        try:
            if not self._store.has(digest):
                if kind is not None:
                    self._cut(kind, where)(f"an artefact named as {name} is not in the store")
                return
            content = self._store.get(digest)
        except (ArtifactError, OSError, ValueError) as error:
            self._cut(kind or "artefact", where)(f"an artefact cannot be read: {type(error).__name__}")
            return
        files = manifest(content)
        if files is not None:
            for path, part in sorted(files.items()):
                self._file(digest, path, part)
            return
        self._size += len(content)
        for document in artefact_documents(digest, content, lambda known: self._cut(known, f"artefact {digest}")):
            self._scan(document)

    def _file(self, folder: str, path: str, digest: str) -> None:
        """A file of a stored folder; of tensors the head only."""
        if digest in self._seen:
            return
        self._seen.add(digest)
        where = f"artefact {folder} file {path}"
        cut = self._cut("checkpoint", where)
        try:
            content = self._store.get(digest)
        except (ArtifactError, OSError, ValueError) as error:
            cut(f"a file of a checkpoint cannot be read: {type(error).__name__}")
            return
        if path.endswith(_TENSORS):
            content = content[:_HEAD]  # tensors are no text: result.CONCLUDES says so
        self._size += len(content)
        self._scan(file_document(where, path, content, cut))

    def _scan(self, document: Document) -> None:
        self._looked[document.kind] += 1
        try:
            results = self._scanner.check(document.tree)
        except (ValueError, RecursionError) as error:
            self._cut(document.kind, document.where)(f"a document that the checks cannot read: {type(error).__name__}")
            return
        for result in results:
            if result.name in HELDOUT_CHECKS and not result.passed:
                self._add(document, result.name, "; ".join(result.evidence))
        for name, digest in document.digests:
            if self._hasher.exact(f"sha256{digest}") in self._known.exact:
                self._add(document, "exact_match", f"digest of a held-out file as {name}")

    def _add(self, document: Document, check: str, evidence: str) -> None:
        if len(self._findings) >= _KEPT:
            self._more += 1
            return
        self._findings.append(Finding(kind=document.kind, where=document.where, check=check, evidence=evidence))

    def _cut(self, kind: str, where: str) -> Callable[[str], None]:
        def note(what: str) -> None:
            count, first = self._unread.get((kind, what), (0, where))
            self._unread[(kind, what)] = (count + 1, first)

        return note


def _campaign(record: Record) -> str | None:
    """The campaign that a record without an event names, if any."""
    return next((raw.decode("utf-8", "replace") for name, raw in record.headers if name == "bat_campaign"), None)


def fingerprints_missing(known: Fingerprints | None) -> str | None:
    """Why nothing can be searched for, or None."""
    if known is None:
        return "the campaign's held-out fingerprints are not on the log"
    if not known.complete:
        return "the campaign's held-out fingerprints are not complete"
    return None
