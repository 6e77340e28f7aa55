"""The loop of services that share one topic as a consumer group: one event, one effect, one transaction.

Within a partition events are handled strictly in order, one at a time; concurrency comes from partitions and processes.
While an effect runs, the loop keeps the membership alive without taking records.

What cannot be taken further is parked by reference, in the transaction that moves the offset past it: records that are no
events or cannot be true, work that fails however often it is tried, and what kills its process again and again. Later work
of that key waits behind it; every other key goes on. Without a box for dead letters the service halts instead. Copies in a fork
are passed over: what came of them was copied too, or is asked for again (events.campaign.CampaignForked).
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass

from bat_events.codec import Codec, Fact
from bat_events.deciders.dead_letters import Letter
from bat_events.deciders.interface import Draft
from bat_events.deciders.premises import impossible
from bat_events.errors import (
    ConfigurationError,
    DecodeError,
    FencedError,
    HandlerFailed,
    ImpossibleEvent,
    LogError,
    Rebalanced,
    Unable,
)
from bat_events.log.interface import MAXIMUM_BYTES, CrashPoint, Outgoing, Partition, Record, WorkerLog
from bat_events.service.dead_letters import LOGIC, Cause, DeadLetterBox, cause_of
from bat_events.service.emit import outgoing
from bat_events.service.handler import Handler
from bat_events.service.runtime import Clock, Executor, GivenUp, Retryable, RetryPolicy, Status, no_crash
from bat_events.service.standing import Note, Standing

__all__ = ["Handler", "WorkerMachine"]

_LOOK_S = 0.2  # between two signs of life of a long effect; the group's heartbeats go on by themselves


@dataclass(frozen=True, kw_only=True)
class _Work:
    """What is being handled; `letter` where it was parked before."""

    record: Record
    fact: Fact
    letter: Letter | None


class WorkerMachine:
    """See the module. `step` does one pass and returns whether anything happened."""

    def __init__(
        self,
        *,
        handler: Handler,
        log: WorkerLog,
        codec: Codec,
        clock: Clock,
        executor: Executor,
        status: Status,
        partitions: Mapping[str, int],
        retry: RetryPolicy | None = None,
        crash: CrashPoint = no_crash,
        box: DeadLetterBox | None = None,
        possible: Callable[[Fact], str | None] = impossible,
    ) -> None:
        self._handler, self._log, self._codec, self._clock = handler, log, codec, clock
        self._executor, self._status, self._crash = executor, status, crash
        self._partitions = partitions
        self._retry = retry or RetryPolicy()
        self._box, self._possible = box, possible
        self._queue: deque[Record] = deque()
        self._passed: dict[Partition, int] = {}
        self._done: dict[Partition, int] = {}  # next offset after what this process committed
        self._standing = Standing()
        self._work: _Work | None = None
        self._job: Future[Sequence[Draft]] | None = None
        self._attempt = 0
        self._busy = False

    def step(self, timeout_s: float) -> bool:
        """One pass. Raises the log's errors, Unable, HandlerFailed where a person must mend something.

        Without a box: DecodeError for poison, HandlerFailed after the last retry.
        """
        if self._job is not None:
            return self._finish_job()
        if self._box is not None and self._take_up(self._box):
            return True
        if not self._queue:
            self._queue.extend(self._log.poll(1, timeout_s))
            if not self._queue:
                self._idle()
                return False
        record = self._queue.popleft()
        self._gain()  # the record may have come with its partition
        if record.place not in self._log.assigned() or record.offset < self._done.get(record.place, 0):
            return True  # taken away, or taken away and given back while its work was in flight
        self._status.events_in += 1
        if self._box is not None:
            self._receive(record, self._box)
            return True
        fact = self._codec.decode(record)
        if not self._wants(fact):
            self._passed[record.place] = record.offset + 1
        else:
            self._begin(_Work(record=record, fact=fact, letter=None))
        return True

    def _wants(self, fact: Fact) -> bool:
        return fact.envelope.origin is None and self._handler.wants(fact)

    def _idle(self) -> None:
        self._gain()  # what was passed over before a partition went and came back counts no more
        self._status.behind = not self._log.caught_up()
        if self._busy:
            self._busy = False
            self._status.say("waiting" if self._box is None else f"waiting{self._box.remark()}")
        self._pass_markers()
        self._commit_passed()

    def _pass_markers(self) -> None:
        """Nothing is in hand, so all before the positions is done: transaction markers must not look like work to others."""
        for where in self._log.assigned():
            position = self._log.positions.get(where, 0)
            if position > self._position(where):
                self._passed[where] = position

    # -- what comes in

    def _take_up(self, box: DeadLetterBox) -> bool:
        """Begin with a dead letter whose turn has come; whether there was one."""
        self._gain()
        box.poll()
        letter = box.due(self._log.assigned())
        if letter is None:
            return False
        where = (letter.event.topic, letter.event.partition)
        record = self._log.fetch(where, letter.event.offset)
        if self._kills(record, box, letter):
            return True
        try:
            fact = self._codec.decode(record)
        except DecodeError as error:
            self._park(record, cause_of(error), str(error), letter=letter)
            return True
        reason = self._possible(fact)
        if reason is not None:
            self._park(record, Cause.IMPOSSIBLE, reason, fact=fact, letter=letter)
        elif not self._wants(fact):
            self._emit(_Work(record=record, fact=fact, letter=letter), [])
        else:
            self._begin(_Work(record=record, fact=fact, letter=letter))
        return True

    def _gain(self) -> frozenset[Partition]:
        """Learn of newly assigned partitions, which are returned, what their last owner left."""
        gained = self._log.gained()
        for where in sorted(gained):
            offset, note = self._standing.gain(where, *self._log.standing(where))
            self._done[where] = max(offset, self._done.get(where, 0))
            self._passed.pop(where, None)
            if self._box is not None:
                self._box.wait_for(where, note.letters)
        return gained

    def _receive(self, record: Record, box: DeadLetterBox) -> None:
        """Begin with a record, pass it over, or park it."""
        if self._standing.first(record.place) and self._kills(record, box, None):
            return
        try:
            fact = self._codec.decode(record)
        except DecodeError as error:
            self._park(record, cause_of(error), str(error))
            return
        if not self._wants(fact):
            self._passed[record.place] = record.offset + 1
            return
        reason = self._possible(fact)
        if reason is not None:
            self._park(record, Cause.IMPOSSIBLE, reason, fact=fact)
        elif box.blocked(record):
            self._park(record, Cause.BEHIND, "an earlier record of its key waits", fact=fact)
        else:
            self._begin(_Work(record=record, fact=fact, letter=None))

    def _kills(self, record: Record, box: DeadLetterBox, letter: Letter | None) -> bool:
        """Count a try that a death would leave behind; parks what had too many of them."""
        where = record.place
        tries = self._standing.tries(where, record.offset)
        if tries >= self._retry.deaths:
            self._standing.forget(where)
            said = f"its process ended {tries} times while it was handled"
            self._park(record, Cause.KILLS_CONSUMER, said, letter=letter, attempts=tries)
            return True
        note = Note(letters=box.written(where), tried=record.offset, tries=tries + 1)
        self._log.mark(where, self._position(where, record if letter is None else None), str(note))
        return False

    def _position(self, where: Partition, record: Record | None = None) -> int:
        """The offset of the first record of a partition that is neither handled, nor parked, nor passed over."""
        if record is not None:
            return record.offset
        return max(self._passed.get(where, 0), self._done.get(where, 0))

    # -- work

    def _begin(self, work: _Work) -> None:
        self._work, self._attempt, self._busy = work, 0, True
        self._job = self._submit(work.fact)

    def _submit(self, fact: Fact) -> "Future[Sequence[Draft]]":
        return self._executor.submit(lambda: self._handler.handle(fact))

    def _finish_job(self) -> bool:
        assert self._job is not None
        assert self._work is not None
        wait([self._job], _LOOK_S)
        if not self._job.done():
            self._log.keep_alive()
            self._status.tell()
            return True
        work = self._work
        if work.record.place in self._gain():  # it went and came back: others may have done this, and more, meanwhile
            self._job, self._work = None, None
            return True
        try:
            drafts = self._job.result()
        except Retryable as error:
            self._again(work, error, Cause.RETRIES_EXHAUSTED)
            return True
        except GivenUp as error:
            self._job, self._work = None, None
            self._emit(work, error.drafts, handled=False)
            raise HandlerFailed(self._said(work, str(error))) from error
        except ImpossibleEvent as error:
            if self._box is None:
                raise
            self._job, self._work = None, None
            self._park(work.record, Cause.IMPOSSIBLE, str(error), fact=work.fact, letter=work.letter, attempts=1)
            return True
        except (Unable, ConfigurationError, LogError):
            raise  # the service cannot work, whatever the event
        except Exception as error:
            if self._box is None:
                raise
            self._again(work, error, Cause.HANDLER_FAILED)
            return True
        self._job, self._work = None, None
        self._emit(work, drafts)
        return True

    def _again(self, work: _Work, error: Exception, cause: Cause) -> None:
        tries = self._attempt + 1
        said = str(error) if cause is Cause.RETRIES_EXHAUSTED else f"{type(error).__name__}: {error}"
        if self._attempt >= len(self._retry.waits_s):
            if self._box is None:
                raise HandlerFailed(self._said(work, f"{tries} tries failed, last: {said}")) from error
            self._job, self._work = None, None
            self._park(work.record, cause, said, fact=work.fact, letter=work.letter, attempts=tries)
            return
        self._status.retries += 1
        # What the held-out plane's handlers say stays out of the open status files.
        self._status.say("retrying" if self._box is not None and self._box.heldout else f"retrying: {said}")
        self._clock.sleep(self._retry.waits_s[self._attempt])
        self._attempt += 1
        self._job = self._submit(work.fact)

    def _said(self, work: _Work, what: str) -> str:
        fact = work.fact
        return f"{self._handler.name}: {fact.topic}[{fact.partition}]@{fact.offset} event {fact.id}: {what}"

    # -- what goes out

    def _emit(self, work: _Work, drafts: Sequence[Draft], *, handled: bool = True) -> None:
        """Commit the drafts, and that the event was `handled`, unless its partition was taken away meanwhile."""
        if work.letter is None and self._overtaken(work.record):
            return
        outputs = [self._outgoing(draft, work.fact) for draft in drafts]
        largest = max((out for out in outputs), key=lambda out: len(out.value), default=None)
        if self._box is not None and largest is not None and len(largest.value) > MAXIMUM_BYTES:
            said = f"what came of it has {len(largest.value):,} bytes for {largest.topic}: {MAXIMUM_BYTES:,} at most"
            self._park(work.record, Cause.HANDLER_FAILED, said, fact=work.fact, letter=work.letter, attempts=1)
            return
        letters: list[Draft] = []
        if work.letter is not None and handled:
            assert self._box is not None
            letters = [self._box.settle(work.letter)]
        after = None
        if work.letter is not None:
            after = self._position(work.record.place)
        elif handled:
            after = work.record.offset + 1
        if self._commit(work.record.place, after, outputs, letters, work.fact):
            self._status.events_out += len(outputs)
            self._status.tell()

    def _park(
        self,
        record: Record,
        cause: Cause,
        error: str,
        *,
        fact: Fact | None = None,
        letter: Letter | None = None,
        attempts: int = 0,
    ) -> None:
        """Commit that a record waits, and the offset past it."""
        assert self._box is not None
        if letter is None and self._overtaken(record):
            return
        draft = self._box.park(record, cause, error, fact=fact, attempts=attempts)
        after = record.offset + 1 if letter is None else self._position(record.place)
        if self._commit(record.place, after, [], [draft], fact):
            self._busy = True
            self._status.say(f"parked {record.topic}[{record.partition}]@{record.offset}: {cause.value}")

    def _overtaken(self, record: Record) -> bool:
        """Whether its partition went and came back while it was in hand, and another member has committed it meanwhile."""
        self._gain()
        return record.offset < self._done.get(record.place, 0)

    def _commit(
        self, where: Partition, after: int | None, outputs: list[Outgoing], letters: list[Draft], fact: Fact | None
    ) -> bool:
        """One transaction, unless the partition was taken away; `after` is None where its offset stays."""
        outputs = [*outputs, *(self._outgoing(draft, fact, logic=LOGIC) for draft in letters)]
        while True:
            if where not in self._log.assigned():  # another member has it now and will do the same work: drop ours
                return False
            offsets = {tp: o for tp, o in self._passed.items() if tp in self._log.assigned()}
            if after is not None:
                offsets[where] = after
            try:
                if outputs or offsets:
                    self._write(outputs, offsets, {where: len(letters)})
                break
            except Rebalanced:
                anew = self._gain()
                if where in anew:  # it went and came back: whoever had it may have done this, and more
                    return False
                if not anew & set(offsets) and set(offsets) <= self._log.assigned():
                    raise  # nothing was taken away, and still the group does not take it
        self._done.update(offsets)
        self._passed.clear()
        if letters and self._box is not None:
            self._box.wrote(letters)
        return True

    def _write(self, outputs: list[Outgoing], offsets: Mapping[Partition, int], more: Mapping[Partition, int]) -> None:
        if self._box is None:
            self._log.commit(outputs, offsets, self._crash)
            return
        notes = {tp: str(Note(letters=self._box.written(tp) + more.get(tp, 0))) for tp in offsets}
        self._log.commit(outputs, offsets, self._crash, {tp: note for tp, note in notes.items() if note})

    def _outgoing(self, draft: Draft, fact: Fact | None, *, logic: str | None = None) -> Outgoing:
        return outgoing(
            draft,
            source=f"bat/{self._handler.name}",
            logic=logic or f"{self._handler.name}/{self._handler.version}",
            time=self._clock.now(),
            partitions=self._partitions,
            traceparent=None if fact is None else fact.envelope.traceparent,
        )

    def _commit_passed(self) -> None:
        offsets = {tp: o for tp, o in self._passed.items() if tp in self._log.assigned()}
        self._passed.clear()
        if not offsets:
            return
        try:
            self._write([], offsets, {})
            self._done.update(offsets)
        except FencedError:
            raise
        except LogError:  # a rebalance took a partition, whose new owner passes these over again, or a hitch: later
            self._passed = {tp: o for tp, o in offsets.items() if tp in self._log.assigned()}
