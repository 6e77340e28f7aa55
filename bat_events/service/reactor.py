"""The loop of services that work per campaign: deciders, and the trainer (a decider whose decisions need an effect).

A reactor reads all partitions of its inputs, folds them, and makes the events that its state requires and that do not
exist yet. Steps of one pass:
  1. recover: fold the inputs up to the committed offsets and learn from the own output topics which events exist
  2. read a batch, decode it, drop duplicates (the first committed event of an id wins), fold it
  3. ask what is required, leave out what exists, give each decision the cut that was folded
  4. write decisions and consumed offsets in one transaction
With a box for dead letters, records that are no events are parked by reference and what is behind them in their key waits;
events that do not count by rule (deciders.premises) are recorded there, once. Without one such records halt the service.
In a fork copies of own outputs are learnt as they come, and nothing is decided before the whole copy was read (service.forks).
The machine does no I/O of its own: log, clock, executor and crash points are given.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import datetime

from bat_events.codec import Codec, Fact
from bat_events.deciders.interface import Draft
from bat_events.errors import BatError, DecodeError, HandlerFailed
from bat_events.events.envelope import Cut
from bat_events.log.copies import is_copy
from bat_events.log.interface import CrashPoint, Partition, ReactorLog, Record
from bat_events.service.dead_letters import LOGIC, Cause, DeadLetterBox
from bat_events.service.emit import outgoing
from bat_events.service.forks import Copies
from bat_events.service.lanes import Lanes
from bat_events.service.rules import DeciderRules, Rules
from bat_events.service.runtime import Clock, Executor, Retryable, RetryPolicy, Status, no_crash

__all__ = ["DeciderRules", "ReactorMachine", "Rules"]

_BATCH = 500


@dataclass
class _Seen:
    """Folded positions and the newest time among the folded facts."""

    offsets: dict[Partition, int]
    newest: datetime | None = None
    traceparent: str | None = None


class ReactorMachine:
    """See the module. `step` does one pass and returns whether anything happened."""

    def __init__(
        self,
        *,
        rules: Rules,
        log: ReactorLog,
        codec: Codec,
        clock: Clock,
        executor: Executor,
        status: Status,
        partitions: Mapping[str, int],
        retry: RetryPolicy | None = None,
        crash: CrashPoint = no_crash,
        box: DeadLetterBox | None = None,
    ) -> None:
        self._box = box
        self._lanes = None if box is None else Lanes(box, codec)
        self._resolved = 0  # how far the dead-letter topic was read for what is folded; 0 while nobody decided anything
        self._rules, self._log, self._codec, self._clock = rules, log, codec, clock
        self._executor, self._status, self._crash = executor, status, crash
        self._partitions = partitions
        self._retry = retry or RetryPolicy()
        self._input_topics = frozenset(rules.inputs)
        self._copies = Copies((*rules.inputs, *rules.outputs))
        self._seen = _Seen(offsets={})
        self._ids: set[str] = set()
        self._existing: set[str] = set()
        self._late: list[Record] = []
        self._recovered = False
        self._dirty = True
        self._job: Future[Sequence[Draft]] | None = None
        self._call: Callable[[], Sequence[Draft]] | None = None
        self._attempt = 0

    def step(self, timeout_s: float) -> bool:
        """One pass. Raises the log's errors, HandlerFailed after the last retry; without a box DecodeError for poison."""
        if not self._recovered:
            return self._recover(timeout_s)
        if self._job is not None:
            return self._finish_job(timeout_s)
        self._go_on()
        copying = self._copies.waiting_for()
        if copying is None and self._dirty and self._decide():
            return True
        batch = self._take(timeout_s)
        for record in batch:
            self._fold(record)
        if copying is not None:
            self._status.say(copying)
        elif self._lanes is not None and not batch:
            self._report(self._lanes)
            if self._lanes.drafts:
                self._emit([])
                self._say_waiting()
                return True
        self._dirty = bool(batch) or copying is not None
        self._status.behind = self._dirty
        return bool(batch)

    def _take(self, timeout_s: float) -> list[Record]:
        if self._late:
            batch, self._late = self._late[:_BATCH], self._late[_BATCH:]
            return batch
        batch = self._log.poll(_BATCH, timeout_s)
        for record in batch:
            if record.topic not in self._input_topics and is_copy(record):
                self._exists(record)
        return [record for record in batch if record.topic in self._input_topics]

    def _recover(self, timeout_s: float) -> bool:
        if self._box is not None:
            self._box.catch_up()
        committed = self._log.committed()
        for record in self._log.poll(_BATCH, timeout_s):
            if record.topic not in self._input_topics:
                self._exists(record)
            elif record.offset < committed[(record.topic, record.partition)]:
                self._fold(record)
            else:
                self._late.append(record)
        self._status.say(f"recovering: {self._status.events_in:,} events folded")
        if self._log.caught_up():
            self._recovered = True
            self._say_waiting()
        return True

    def _exists(self, record: Record) -> None:
        """Learn of an own output. One that can no longer be read is no event: it is made again where it is still due."""
        try:
            fact = self._codec.decode(record)
        except DecodeError:
            if self._lanes is None:
                raise
            return
        self._copies.take(fact)
        self._existing.add(fact.id)
        self._rules.existing(fact)

    def _fold(self, record: Record) -> None:
        fact = self._codec.decode(record) if self._lanes is None else self._lanes.take(record)
        self._seen.offsets[record.place] = record.offset + 1
        self._status.events_in += 1
        if fact is not None:
            self._copies.take(fact)
            self._apply(fact, record)

    def _apply(self, fact: Fact, record: Record | None) -> None:
        if fact.id in self._ids:
            return
        self._ids.add(fact.id)
        if self._seen.newest is None or fact.envelope.time >= self._seen.newest:
            self._seen.newest = fact.envelope.time
            self._seen.traceparent = fact.envelope.traceparent
        try:
            self._rules.apply(fact)
        except BatError:
            raise
        except Exception as error:
            self._give_up_on(fact, record, error)
            raise

    def _give_up_on(self, fact: Fact, record: Record | None, error: Exception) -> None:
        """The rules broke on a fact and may have folded half of it: park it, so that the next start folds without it."""
        if self._lanes is None or record is None or not self._recovered:
            return
        self._lanes.park(record, Cause.HANDLER_FAILED, f"{type(error).__name__}: {error}", fact=fact)
        if self._log.committed()[record.place] <= record.offset:  # not so where it waited behind another
            self._seen.offsets[record.place] = record.offset
        self._emit([])

    # -- dead letters

    def _go_on(self) -> None:
        """Fold what a person's word lets go on."""
        if self._box is None or self._lanes is None:
            return
        self._box.poll()
        if not self._box.resolved or self._resolved == self._box.position:
            return
        self._resolved = self._box.position
        for fact, record in self._lanes.go_on():
            self._apply(fact, record)
        self._dirty = True

    def _report(self, lanes: Lanes) -> None:
        """Record events that do not count; of those that lack something, once it is sure that it is not on the log."""
        assert self._box is not None
        for fact, reason in self._rules.refused():
            lanes.ignore(fact, Cause.IMPOSSIBLE, reason)
        held = {(f.topic, f.partition, f.offset): (f, lack) for f, lack in self._rules.held()}
        for letter in self._box.open():
            place = (letter.event.topic, letter.event.partition, letter.event.offset)
            if letter.event.cause == Cause.UNFOUNDED and place not in held:
                lanes.settle(letter)
        fresh = [item for place, item in held.items() if self._box.letters.of((self._box.service, *place)) is None]
        if fresh and self._log.settled():
            for fact, lack in fresh:
                lanes.ignore(fact, Cause.UNFOUNDED, lack)

    def _say_waiting(self) -> None:
        self._status.say("waiting" if self._box is None else f"waiting{self._box.remark()}")

    # -- decisions

    def _decide(self) -> bool:
        call = self._rules.next_work(self._existing.__contains__)
        if call is None:
            self._dirty = False
            return False
        self._call, self._attempt = call, 0
        self._job = self._executor.submit(call)
        return self._finish_job(0.0)

    def _finish_job(self, timeout_s: float) -> bool:
        assert self._job is not None
        assert self._call is not None
        wait([self._job], timeout_s)
        if not self._job.done():
            self._status.tell()
            return True
        try:
            drafts = self._job.result()
        except Retryable as error:
            self._again(error)
            return True
        self._job, self._call = None, None
        self._emit(drafts)
        return True

    def _again(self, error: Retryable) -> None:
        if self._attempt >= len(self._retry.waits_s):
            raise HandlerFailed(f"{self._rules.name}: {self._attempt + 1} tries failed, last: {error}") from error
        self._status.retries += 1
        self._status.say(f"retrying: {error}")
        self._clock.sleep(self._retry.waits_s[self._attempt])
        self._attempt += 1
        assert self._call is not None
        self._job = self._executor.submit(self._call)

    def _emit(self, drafts: Sequence[Draft]) -> None:
        fresh = [draft for draft in drafts if draft.id not in self._existing]
        now = self._seen.newest if self._rules.is_decision else None
        outputs = [
            outgoing(
                draft,
                source=f"bat/{self._rules.name}",
                logic=f"{self._rules.name}/{draft.version or self._rules.version_of(draft.campaign)}",
                time=now or self._clock.now(),
                partitions=self._partitions,
                cut=self._cut(),
                traceparent=self._seen.traceparent,
            )
            for draft in fresh
        ]
        letters = [] if self._lanes is None else list(self._lanes.drafts)
        outputs += [
            outgoing(
                draft,
                source=f"bat/{self._rules.name}",
                logic=LOGIC,
                time=self._clock.now(),
                partitions=self._partitions,
            )
            for draft in letters
        ]
        self._log.commit(outputs, dict(self._seen.offsets), self._crash)
        if self._lanes is not None:
            self._lanes.wrote()
        self._existing.update(draft.id for draft in fresh)
        self._rules.emitted(fresh)
        self._status.events_out += len(fresh)
        self._status.tell()

    def _cut(self) -> Cut:
        cut: Cut = {topic: {} for topic in sorted(self._input_topics)}
        for (topic, partition), offset in self._seen.offsets.items():
            cut[topic][partition] = offset
        if self._box is not None and self._resolved:
            cut[self._box.topic] = {0: self._resolved}
        return cut
