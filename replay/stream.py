"""Replay in one pass: partitions are merged by cause and cut, and let go of as they pass.

  1. every partition has a cursor with its next record at hand
  2. a decision passes once all inputs before its cut have passed, and with it everything else decided at that cut
  3. a fact passes once its cause has passed, and preferably not before some decider needs it
So a fact finds what it names in a window of what lately passed, and a decider holds little that it may not fold yet. Memory
depends on how far the bank works ahead and on the size of a round, not on the length of the log; per event there
remains its id. A log that any of this cannot follow is read again, in memory, by replayer.py: it says what is wrong.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from bat_events.codec import Codec, Fact
from bat_events.deciders.interface import Draft
from bat_events.deciders.versions import NEWEST, pinned_version
from bat_events.domain.compact import IdSet
from bat_events.domain.lineage import is_fork
from bat_events.errors import BadEnvelope
from bat_events.events.base import Event
from bat_events.events.campaign import CampaignStarted
from bat_events.events.ids import ROOT_CAUSE
from bat_events.log.interface import Partition
from bat_events.replay.imported import Imported
from bat_events.replay.index import LETTERS, started_among
from bat_events.replay.line_facts import decoded
from bat_events.replay.lines import OTHER, Line, Positions, lines_of, order_of
from bat_events.replay.registry import DECIDERS
from bat_events.replay.result import NotRecomputed
from bat_events.replay.scores import ScoreOf, Scores
from bat_events.replay.source import Source
from bat_events.replay.stream_ahead import Ahead, Read
from bat_events.replay.stream_checks import Checks, Window
from bat_events.replay.stream_walk import Mismatch, StreamWalker

_RUN = 64  # records that one partition gives before the next has its turn

_ENDLESS = 1 << 63

Judge = Callable[[Line], bool] | None
"""Whether a record is compared; once it is not, none after it in its partition is. None: all are."""


@dataclass(slots=True)
class _Cursor:
    """One partition: what passed, what comes next, and who reads it."""

    where: Partition
    lines: Iterator[Read]
    readers: list[StreamWalker] = field(default_factory=list)
    owner: str = ""  # name of the decider that writes here
    head: Line | None = None
    fact: Fact | None = None  # that of the head
    made: bool = False
    passed: int = 0
    judged: bool = True


@dataclass(kw_only=True)
class Streamed:
    """What one pass found of a log without a difference."""

    campaign: str
    started: Fact
    outcome: str | None
    events: int
    duplicates: int
    ends: dict[str, dict[str, int]]
    decisions: dict[str, int]
    checks: dict[str, int]
    signers: dict[str, int]
    pending: list[tuple[str, Draft]]
    counts: Counter[str]
    rounds: set[int]
    lacking: list[NotRecomputed]


def stream(
    source: Source, campaign: str | None, round_: int | None, judge: Judge, score_of: ScoreOf | None = None
) -> Streamed:
    """Replay in one pass. Raises Mismatch where anything differs, and what replay_campaign raises."""
    codec = Codec()
    for text in source.schemas():
        codec.learn(text)
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 1000)  # what passes is freed by reference counts; looking for cycles finds none
    try:
        return _Stream(source, campaign, round_, judge, codec, score_of).run()
    finally:
        gc.set_threshold(*before)


class _Stream:
    def __init__(
        self,
        source: Source,
        campaign: str | None,
        round_: int | None,
        judge: Judge,
        codec: Codec,
        score_of: ScoreOf | None,
    ) -> None:
        self._codec, self._judge, self._round = codec, judge, round_
        self._positions = Positions()
        self._seen = IdSet()
        streams = lines_of(source)
        if any(next(lines, None) is not None for (topic, _), lines in streams.items() if topic == LETTERS):
            raise Mismatch("dead letters say what was left out: that is told in memory")
        control = [w for w in streams if w[0] == "campaign"]
        begun = {where: list(streams[where]) for where in control}
        self.campaign, started = self._find(source.name, campaign, [line for where in control for line in begun[where]])
        self._ahead = Ahead(codec, self.campaign)
        if is_fork(self.campaign):
            raise Mismatch("copies are compared apart from what followed them")
        if Imported(codec.decode(record) for record in source.imports()).holds(self.campaign):
            raise Mismatch("its offsets are not those that its cuts name")
        self._window = Window(self.campaign, started)
        self._checks = Checks(self._window, Scores(score_of, started))
        self._walkers = self._make_walkers(started)
        self._by_name = {walker.kind.name: walker for walker in self._walkers}
        owners = {topic: kind.name for kind in DECIDERS.values() for topic in kind.outputs}
        self._cursors = [
            _Cursor(
                where,
                self._ahead.read(
                    iter(begun[where]) if where in begun else streams[where], facts=where[0] not in owners
                ),
                [walker for walker in self._walkers if where[0] in walker.kind.inputs],
                owners.get(where[0], ""),
            )
            for where in sorted(streams)
        ]
        self._outputs = {
            walker.logic: [c for c in self._cursors if c.where[0] in walker.kind.outputs] for walker in self._walkers
        }
        self._by_where = {cursor.where: cursor for cursor in self._cursors}
        self._duplicates = 0
        self._later: list[str] = []
        self._counts: dict[type[Event], int] = {}
        self._all: set[int] = set()
        self._decisions: Counter[str] = Counter()

    def _find(self, name: str, campaign: str | None, lines: list[Line]) -> tuple[str, Fact]:
        begun = [
            decoded(self._codec, line)
            for line in lines
            if line.type.startswith("bat.CampaignStarted.") and campaign in (None, line.campaign)
        ]
        return started_among(begun, {line.campaign for line in lines}, campaign, name)

    def _make_walkers(self, started: Fact) -> list[StreamWalker]:
        event = started.event
        assert isinstance(event, CampaignStarted)
        logics = sorted(f"{k.name}/{pinned_version(event, k.name) or k.version}" for k in NEWEST)
        if any(logic not in DECIDERS for logic in logics):
            raise Mismatch("a decider version is not here")
        return [StreamWalker(DECIDERS[logic], self.campaign, event) for logic in logics]

    def run(self) -> Streamed:
        """See the module."""
        for cursor in self._cursors:
            self._advance(cursor)
        for walker in self._walkers:
            self._look(walker)
        while self._sweep(hurried=False) or self._sweep(hurried=True):
            self._checks.steps()
        if any(cursor.head is not None for cursor in self._cursors):
            raise Mismatch("what is left waits for what never comes")
        if any(cause not in self._seen for cause in self._later):
            raise Mismatch("a cause is not on the log")
        self._checks.steps(all_=True)
        rest = [(w.logic, draft) for w in self._walkers for draft in w.rest() if draft.id not in self._seen]
        return self._result(rest)

    def _sweep(self, *, hurried: bool) -> bool:
        moved = False
        for walker in self._walkers:
            while self._decide(walker):
                moved = True
        for cursor in self._cursors:
            if cursor.head is not None and not (cursor.owner and cursor.judged):
                run, end = (1, _ENDLESS) if hurried else (_RUN, self._end(cursor))
                moved = self._let_pass(cursor, run, end) or moved
        return moved

    def _let_pass(self, cursor: _Cursor, run: int, end: int) -> bool:
        """Facts of one partition, at most so many, whose causes have passed; whether there was one."""
        left, facts, seen = run, self._window.facts, self._seen
        while left and (line := cursor.head) is not None and line.offset < end:
            cause = line.cause
            if cause not in facts and cause not in seen and cause != ROOT_CAUSE:
                break
            if cursor.owner and cursor.judged:
                break
            self._pass(cursor, line)
            left -= 1
        return left < run

    def _end(self, cursor: _Cursor) -> int:
        """Up to which offset some decider needs this partition next."""
        if not cursor.readers:
            return _ENDLESS
        limits = [walker.limit(cursor.where) for walker in cursor.readers]
        return max(_ENDLESS if limit is None else limit for limit in limits)

    def _caused(self, line: Line) -> bool:
        """Whether what it names as its cause has passed."""
        cause = line.cause
        return cause in self._window.facts or cause in self._seen or cause == ROOT_CAUSE

    def _decide(self, walker: StreamWalker) -> bool:
        """Let the decisions of the next cut pass, if all before it has passed."""
        cut = walker.next_cut
        if cut is None:
            return False
        for where, offset in cut.items():
            cursor = self._by_where.get(where)
            if cursor is None:
                raise Mismatch("a cut names what is not there")
            if cursor.passed < offset:
                if cursor.head is None:
                    raise Mismatch("a cut lies beyond the end")
                return False
        walker.ask()
        passed: list[Line] = []
        text: str | None = None  # of a cut that was found to be this one
        for cursor in self._outputs[walker.logic]:
            while (line := cursor.head) is not None and cursor.judged:
                if line.cut_text is not text or text is None:
                    if not self._is_at(line, cut):
                        break
                    text = line.cut_text
                self._pass_decision(walker, cursor, line)
                passed.append(line)
        walker.settle()
        for line in passed:  # now that all of them are there: one may be another's cause
            if not self._caused(line):
                self._later.append(line.cause)  # a decision that is newer than what is compared
            if self._wants(line):
                self._checks.decision(line)
        self._look(walker)
        return True

    def _is_at(self, line: Line, cut: Mapping[Partition, int]) -> bool:
        found = self._cut_of(line)
        return found is cut or found == cut

    def _cut_of(self, line: Line) -> dict[Partition, int]:
        if line.cut_text is None:
            raise Mismatch("a decision without a cut")
        try:
            return self._positions.of(line.cut_text)
        except ValueError as error:
            raise BadEnvelope(f"header bat_cut: {error}", **line.where) from None

    def _look(self, walker: StreamWalker) -> None:
        """Find the walker's next cut: the earliest among the next decisions of its partitions."""
        heads = [c.head for c in self._outputs[walker.logic] if c.head is not None and c.judged]
        cuts = [self._cut_of(line) for line in heads]
        walker.move(min(cuts, key=order_of, default=None))

    def _pass_decision(self, walker: StreamWalker, cursor: _Cursor, line: Line) -> None:
        fact = walker.decided(line, self._ahead.fact)
        if self._round is None or line.round == self._round:
            self._decisions[line.logic] += 1
        self._note(cursor, line, fact)

    def _pass(self, cursor: _Cursor, line: Line) -> None:
        """A fact, or a decision that is newer than what is compared."""
        fact, made = cursor.fact, cursor.made
        if fact is None:
            fact = self._ahead.fact(line)
            made = self._ahead.is_made(line, fact.event.type_name())
        if cursor.judged and (self._round is None or line.round == self._round):
            self._checks.identity(line, made=made)
            self._checks.fact(fact)
        elif cursor.owner:
            self._by_name[cursor.owner].seen_later.add(line.id)
        self._note(cursor, line, fact)

    def _note(self, cursor: _Cursor, line: Line, fact: Fact) -> None:
        self._seen.add(line.id)
        round_ = line.round
        if round_ is not None:
            self._all.add(round_)
        if self._round is None or round_ == self._round:
            kind = type(fact.event)
            self._counts[kind] = self._counts.get(kind, 0) + 1
        self._window.take(fact)
        cursor.passed = line.offset + 1
        for walker in cursor.readers:
            walker.take(cursor.where, line, fact)
        self._advance(cursor)

    def _advance(self, cursor: _Cursor) -> None:
        """To the next record that is the campaign's and whose id is new."""
        for line, fact, made in cursor.lines:
            if line.campaign != self.campaign:
                if line.campaign == OTHER or line.campaign:
                    cursor.passed = line.offset + 1
                    for walker in cursor.readers:
                        walker.take(cursor.where, line, None)
                    continue
            elif line.id not in self._seen:
                if self._judge is not None:
                    cursor.judged = cursor.judged and self._judge(line)
                cursor.head, cursor.fact, cursor.made = line, fact, made
                return
            else:
                self._duplicates += 1
                cursor.passed = line.offset + 1
                for walker in cursor.readers:
                    walker.take(cursor.where, line, None, again=True)
        cursor.head = None

    def _wants(self, line: Line) -> bool:
        return self._round is None or line.round == self._round

    def _result(self, rest: list[tuple[str, Draft]]) -> Streamed:
        logics = sorted({walker.logic for walker in self._walkers} | set(self._decisions))
        ends: dict[str, dict[str, int]] = {}
        for cursor in self._cursors:
            if cursor.passed:
                ends.setdefault(cursor.where[0], {})[str(cursor.where[1])] = cursor.passed
        return Streamed(
            campaign=self.campaign,
            started=self._window.started,
            outcome=self._window.outcome,
            events=len(self._seen),
            duplicates=self._duplicates,
            ends=ends,
            decisions={logic: self._decisions[logic] for logic in logics},
            checks=dict(sorted(self._checks.counts.items())),
            signers=dict(sorted(self._checks.signers.items())),
            pending=rest,
            counts=Counter({kind.type_name(): count for kind, count in self._counts.items()}),
            rounds=self._all,
            lacking=self._checks.scores.lacking(),
        )
