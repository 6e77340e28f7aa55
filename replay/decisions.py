"""Runs the deciders again at the recorded cuts and compares.

Per decider version, in the order of its cuts:
  1. fold the inputs to the cut and ask which events must exist
  2. find the recorded decision among them and compare id, type, cause, key, round and body; its time must be the newest
     folded input's
  3. whatever else must exist at this cut must be on the log, decided at this cut or before
At the end, what was never required is extra, and what is required by the end of the log is pending, or missing where the
campaign has ended. A decision is pure, so a difference means another record, another rule, or a broken decider.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Protocol

from bat_events.codec import Codec, Fact, schema_for
from bat_events.deciders.interface import Decider, Draft
from bat_events.deciders.versions import NEWEST, pinned_version
from bat_events.events.base import Event
from bat_events.events.campaign import CampaignStarted
from bat_events.events.envelope import format_time
from bat_events.log.interface import Partition
from bat_events.replay.cuts import Fold, flaw, position_of, within
from bat_events.replay.differences import Difference, Kind, Pending, first_field, of_draft, of_fact
from bat_events.replay.index import Entry, Index, upgrades
from bat_events.replay.registry import DECIDERS, DECISION_TOPICS

UNFINISHED_AT_THE_END = frozenset({"bank"})
"""Deciders whose work may be open when the campaign is over: states checked too late to be used."""


@dataclass(frozen=True, kw_only=True)
class _Decision:
    """A recorded decision and its cut as a position."""

    fact: Fact
    entry: Entry
    position: dict[Partition, int]


@dataclass(kw_only=True)
class Walk:
    """What walking one decider version gave."""

    logic: str
    decisions: list[Fact] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)


def decisions_of(index: Index) -> dict[str, list[Entry]]:
    """The campaign's own recorded decisions by `bat_logic`, each id once; a fork's copies are another campaign's."""
    found: dict[str, list[Entry]] = {}
    for topic in sorted(DECISION_TOPICS):
        for entry in index.topic(topic):
            assert entry.fact is not None
            if entry.fact.envelope.origin is None:
                found.setdefault(entry.fact.envelope.logic, []).append(entry)
    return {logic: found[logic] for logic in sorted(found)}


def walk_all(index: Index) -> list[Walk]:
    """Every known decider version that decided; one that has decided nothing is still asked what it should have."""
    recorded = decisions_of(index)
    for name in {upgrade.decider for upgrade in upgrades(index)}:  # one walk through all its versions
        base = next(logic for logic in _pinned(index) if logic.partition("/")[0] == name)
        others = [logic for logic in recorded if logic.partition("/")[0] == name and logic != base]
        recorded.setdefault(base, []).extend(entry for logic in others for entry in recorded.pop(logic))
    names = {logic.partition("/")[0] for logic in recorded}
    silent = {kind for kind in _pinned(index) if kind.partition("/")[0] not in names}
    logics = sorted((set(recorded) | silent) & set(DECIDERS))
    return [_Walker(DECIDERS[logic], index, recorded.get(logic, [])).walk() for logic in logics]


def _pinned(index: Index) -> list[str]:
    """The decider versions that the campaign pins; the newest one here of a decider that it does not name."""
    started = index.started.event
    assert isinstance(started, CampaignStarted)
    return [f"{kind.name}/{pinned_version(started, kind.name) or kind.version}" for kind in NEWEST]


def unknown_logic(index: Index) -> dict[str, list[Fact]]:
    """Decisions of decider versions that are not here."""
    return {
        logic: [e.fact for e in entries if e.fact is not None and e.judged]
        for logic, entries in decisions_of(index).items()
        if logic not in DECIDERS
    }


class _Walker:
    def __init__(self, kind: type[Decider], index: Index, entries: Sequence[Entry]) -> None:
        self._kind, self._index, self._entries = kind, index, entries
        self._logic = f"{kind.name}/{kind.version}"
        self._upgraded = any(upgrade.decider == kind.name for upgrade in upgrades(index))
        self._fold = Fold(kind, index)
        self._unmatched: list[_Decision] = []
        self._done: set[str] = set()  # ids decided at the cuts walked so far, or reported
        self._walk = Walk(logic=self._logic)

    def walk(self) -> Walk:
        """See the module."""
        decisions = list(self._usable())
        decisions.sort(key=lambda d: (sum(d.position.values()), sorted(d.position.items())))
        self._check_output_order(decisions)
        previous: dict[Partition, int] = {}
        for _, group in groupby(decisions, key=lambda d: sorted(d.position.items())):
            batch = list(group)
            if not within(previous, batch[0].position):
                self._differ(
                    batch[0].fact,
                    Kind.CUT,
                    "cuts of one decider only grow, but this one lies neither before nor after that of the decision before",
                    "bat_cut",
                    _cut_json(batch[0].position),
                    _cut_json(previous),
                )
            previous = batch[0].position
            self._at(batch)
        self._finish()
        return self._walk

    def _usable(self) -> Iterator[_Decision]:
        for entry in self._entries:
            assert entry.fact is not None
            if not entry.judged:
                self._done.add(entry.id)  # newer than what is compared: it exists, that is all
                continue
            self._walk.decisions.append(entry.fact)
            cut = entry.fact.envelope.cut
            wrong = "a decision without a cut" if cut is None else flaw(self._kind, position_of(cut), self._index)
            if wrong is not None:
                self._differ(entry.fact, Kind.CUT, wrong, "bat_cut", cut and _json_keys(cut), None)
                self._done.add(entry.id)
            else:
                assert cut is not None
                yield _Decision(fact=entry.fact, entry=entry, position=position_of(cut))

    def _check_output_order(self, decisions: Sequence[_Decision]) -> None:
        """Within one output partition, later decisions have the same cut or a later one."""
        last: dict[Partition, _Decision] = {}
        for decision in sorted(decisions, key=lambda d: (d.fact.topic, d.fact.partition, d.fact.offset)):
            where = (decision.fact.topic, decision.fact.partition)
            before = last.get(where)
            if before is not None and not within(before.position, decision.position):
                self._differ(
                    decision.fact,
                    Kind.CUT,
                    f"its cut lies before that of the decision ahead of it, {before.fact.id} at offset {before.fact.offset}",
                    "bat_cut",
                    _cut_json(decision.position),
                    _cut_json(before.position),
                )
            last[where] = decision

    def _at(self, batch: Sequence[_Decision]) -> None:
        try:
            self._fold.to(batch[0].position)
            required = self._fold.required()
        except Exception as error:  # noqa: BLE001  (a changed fact may lead the rules anywhere)
            for decision in batch:
                self._refused(decision.fact, error)
            return
        for decision in batch:
            self._done.add(decision.fact.id)
            draft = required.get(decision.fact.id)
            instead = None if draft is not None else self._instead(decision.fact, required.values())
            if draft is not None:
                self._compare(decision, draft)
            elif instead is not None:
                self._done.add(instead.id)
                self._differ(
                    decision.fact,
                    Kind.CHANGED,
                    f"the rules make {instead.event.ce_type()} of this cause",
                    "ce_type",
                    _typed(decision.fact.event),
                    _typed(instead.event),
                )
            else:
                self._unmatched.append(decision)
            self._compare_time(decision)
        newest = self._fold.newest or batch[0].fact.envelope.time
        for draft in required.values():
            if draft.id not in self._done:
                self._done.add(draft.id)
                self._not_decided_here(draft, batch[0].fact, newest)

    def _instead(self, fact: Fact, required: Collection[Draft]) -> Draft | None:
        """What should stand in the place of a decision that is not required: of the same cause, and not on the log."""
        for draft in required:
            same = draft.cause == fact.envelope.cause and fact.topic == draft.event.TOPIC
            if same and draft.id not in self._done and self._index.fact(draft.id) is None:
                return draft
        return None

    def _not_decided_here(self, draft: Draft, beside: Fact, newest: datetime) -> None:
        recorded = self._index.fact(draft.id)
        if recorded is None:
            message = f"must exist at the cut of {beside.id} ({beside.envelope.type}) and is not on the log"
            self._walk.differences.append(of_draft(draft, Kind.MISSING, message, replayed_by=self._logic, time=newest))
        elif self._is_own(recorded.envelope.logic):
            message = f"was required at the cut of {beside.id} already, but its own cut is later"
            cut = recorded.envelope.cut
            self._differ(
                recorded, Kind.CUT, message, "bat_cut", cut and _json_keys(cut), _cut_json(self._fold.position)
            )
            self._done.discard(draft.id)  # it is still to be compared at its own cut

    def _is_own(self, logic: str) -> bool:
        return logic.partition("/")[0] == self._kind.name if self._upgraded else logic == self._logic

    def _compare(self, decision: _Decision, draft: Draft) -> None:
        found = _first_difference(decision, draft)
        by = f"{self._kind.name}/{draft.version or self._kind.version}"
        if found is None and decision.fact.envelope.logic != by:
            found = ("bat_logic", decision.fact.envelope.logic, by)
        if found is not None:
            name, recorded, recomputed = found
            self._differ(decision.fact, Kind.CHANGED, f"{name} is not what the rules give", name, recorded, recomputed)

    def _compare_time(self, decision: _Decision) -> None:
        recorded, newest = decision.fact.envelope.time, self._fold.newest
        if newest is not None and recorded != newest:
            self._differ(
                decision.fact,
                Kind.TIME,
                "a decision's time is that of the newest input before its cut",
                "ce_time",
                format_time(recorded),
                format_time(newest),
            )

    def _finish(self) -> None:
        required: dict[str, Draft] = {}
        try:
            self._fold.to_end()
            required = self._fold.required()
        except Exception as error:  # noqa: BLE001  (as above)
            if not self._walk.differences:
                self._refused(self._index.started, error)
        for decision in self._unmatched:
            draft = required.get(decision.fact.id)
            if draft is None:
                message, recomputed = "is required at no cut: these facts do not lead to it", None
                kind = Kind.EXTRA
            else:
                message, recomputed = "is required only later than at its cut", draft.event.model_dump(mode="json")
                kind = Kind.CUT
            body = decision.fact.event.model_dump(mode="json")
            self._differ(decision.fact, kind, message, "", body, recomputed)
        ended = self._index.outcome == "completed" and self._kind.name not in UNFINISHED_AT_THE_END
        for draft in required.values():
            if draft.id in self._done or self._index.fact(draft.id) is not None:
                continue
            if ended:
                message = "must exist by the end of the log, and the campaign has ended without it"
                newest = self._fold.newest or self._index.started.envelope.time
                self._walk.differences.append(
                    of_draft(draft, Kind.MISSING, message, replayed_by=self._logic, time=newest)
                )
            else:
                self._walk.pending.append(
                    Pending(logic=self._logic, type=draft.event.ce_type(), id=draft.id, round=draft.round)
                )

    def _refused(self, fact: Fact, error: Exception) -> None:
        message = f"the rules refuse the recorded facts: {type(error).__name__}: {error}"
        self._differ(fact, Kind.REFUSED, message, "", None, None)

    def _differ(self, fact: Fact, kind: Kind, message: str, name: str, recorded: object, recomputed: object) -> None:
        self._walk.differences.append(
            of_fact(fact, kind, message, field=name, recorded=recorded, recomputed=recomputed, replayed_by=self._logic)
        )


def _first_difference(decision: _Decision, draft: Draft) -> tuple[str, object, object] | None:
    envelope = decision.fact.envelope
    recorded_type = decision.fact.event.ce_type()  # recorded in whatever version
    if recorded_type != draft.event.ce_type():
        return "ce_type", recorded_type, draft.event.ce_type()
    other = same_envelope(envelope, decision.entry.key, draft)
    if other is not None:
        return other
    if type(decision.fact.event) is type(draft.event):
        left, right = decision.fact.event.model_dump(mode="json"), draft.event.model_dump(mode="json")
        found = first_field(left, right)
        if found is not None:
            return found
    if envelope.schema_digest == schema_for(type(draft.event)).digest:
        digest = _body_digest(draft)
        if digest != envelope.body_digest:  # equal values in other bytes
            return "bat_digest", envelope.body_digest, digest
    return None


class _Circumstances(Protocol):
    """What an envelope says of a decision that its rules give too."""

    cause: str
    ordinal: int
    subject: str
    round: int | None
    source: str
    logic: str


def same_envelope(envelope: _Circumstances, key: bytes, draft: Draft) -> tuple[str, object, object] | None:
    """The first field of a recorded decision's envelope that is not the draft's: name, recorded, recomputed."""
    text = key.decode(errors="replace")
    source = f"bat/{envelope.logic.partition('/')[0]}"
    if (
        envelope.cause == draft.cause
        and envelope.ordinal == draft.ordinal
        and text == draft.key == envelope.subject
        and envelope.round == draft.round
        and envelope.source == source
    ):
        return None
    sides = (
        ("bat_cause", envelope.cause, draft.cause),
        ("bat_ordinal", envelope.ordinal, draft.ordinal),
        ("key", text, draft.key),
        ("ce_subject", envelope.subject, draft.key),
        ("bat_round", envelope.round, draft.round),
        ("ce_source", envelope.source, source),
    )
    return next(side for side in sides if side[1] != side[2])


def _typed(event: Event) -> dict[str, object]:
    return {"type": event.ce_type(), "body": event.model_dump(mode="json")}


def _body_digest(draft: Draft) -> str:
    return hashlib.sha256(Codec.encode_body(draft.event)).hexdigest()


def _cut_json(position: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(position.items()):
        found.setdefault(topic, {})[str(number)] = offset
    return found


def _json_keys(cut: Mapping[str, Mapping[int, int]]) -> dict[str, dict[str, int]]:
    return {topic: {str(n): offset for n, offset in sorted(parts.items())} for topic, parts in sorted(cut.items())}
