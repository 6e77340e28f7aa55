"""The loop of services that share one topic as a consumer group: one event, one effect, one transaction.

Within a partition events are handled strictly in order, one at a time; concurrency comes from partitions and processes.
While an effect runs, the loop keeps the membership alive without taking records. A handler's infrastructure faults are
retried; when the retries are exhausted the service halts loudly and nothing is skipped.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Protocol

from bat_events.codec import Codec, Fact
from bat_events.deciders.interface import Draft
from bat_events.errors import FencedError, HandlerFailed, LogError
from bat_events.log.interface import CrashPoint, Partition, Record, WorkerLog
from bat_events.service.emit import outgoing
from bat_events.service.runtime import Clock, Executor, GivenUp, Retryable, RetryPolicy, Status, no_crash

_LOOK_S = 0.2  # between two signs of life of a long effect; the group's heartbeats go on by themselves


class Handler(Protocol):
    """What a worker does with one event."""

    name: str
    version: int
    topic: str
    outputs: tuple[str, ...]

    def wants(self, fact: Fact) -> bool:
        """Whether this event is work for this handler; others on its topic are passed over."""
        ...

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """The effect. Raises Retryable for faults that may pass, GivenUp for those that a person must mend."""
        ...


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
    ) -> None:
        self._handler, self._log, self._codec, self._clock = handler, log, codec, clock
        self._executor, self._status, self._crash = executor, status, crash
        self._partitions = partitions
        self._retry = retry or RetryPolicy()
        self._queue: deque[Record] = deque()
        self._passed: dict[Partition, int] = {}
        self._done: dict[Partition, int] = {}  # next offset after what this process committed
        self._fact: Fact | None = None
        self._job: Future[Sequence[Draft]] | None = None
        self._attempt = 0
        self._busy = False

    def step(self, timeout_s: float) -> bool:
        """One pass. Raises the log's errors, DecodeError for poison, HandlerFailed after the last retry."""
        if self._job is not None:
            return self._finish_job()
        if not self._queue:
            self._queue.extend(self._log.poll(1, timeout_s))
            if not self._queue:
                self._status.behind = not self._log.caught_up()
                if self._busy:
                    self._busy = False
                    self._status.say("waiting")
                self._commit_passed()
                return False
        record = self._queue.popleft()
        where = (record.topic, record.partition)
        if where not in self._log.assigned() or record.offset < self._done.get(where, 0):
            return True  # taken away, or taken away and given back while its work was in flight
        fact = self._codec.decode(record)
        self._status.events_in += 1
        if not self._handler.wants(fact):
            self._passed[where] = record.offset + 1
            return True
        self._fact, self._attempt, self._busy = fact, 0, True
        self._job = self._submit(fact)
        return True

    def _submit(self, fact: Fact) -> "Future[Sequence[Draft]]":
        return self._executor.submit(lambda: self._handler.handle(fact))

    def _finish_job(self) -> bool:
        assert self._job is not None
        assert self._fact is not None
        wait([self._job], _LOOK_S)
        if not self._job.done():
            self._log.keep_alive()
            self._status.tell()
            return True
        fact = self._fact
        try:
            drafts = self._job.result()
        except Retryable as error:
            if self._attempt >= len(self._retry.waits_s):
                raise HandlerFailed(
                    f"{self._handler.name}: {fact.topic}[{fact.partition}]@{fact.offset} event {fact.id}: "
                    f"{self._attempt + 1} tries failed, last: {error}"
                ) from error
            self._status.retries += 1
            self._status.say(f"retrying: {error}")
            self._clock.sleep(self._retry.waits_s[self._attempt])
            self._attempt += 1
            self._job = self._submit(fact)
            return True
        except GivenUp as error:
            self._job, self._fact = None, None
            self._emit(fact, error.drafts, handled=False)
            raise HandlerFailed(
                f"{self._handler.name}: {fact.topic}[{fact.partition}]@{fact.offset} event {fact.id}: {error}"
            ) from error
        self._job, self._fact = None, None
        self._emit(fact, drafts)
        return True

    def _emit(self, fact: Fact, drafts: Sequence[Draft], *, handled: bool = True) -> None:
        """Commit the drafts, and that the event was `handled`, unless its partition was taken away meanwhile."""
        where = (fact.topic, fact.partition)
        outputs = [
            outgoing(
                draft,
                source=f"bat/{self._handler.name}",
                logic=f"{self._handler.name}/{self._handler.version}",
                time=self._clock.now(),
                partitions=self._partitions,
                traceparent=fact.envelope.traceparent,
            )
            for draft in drafts
        ]
        if where not in self._log.assigned():  # another member has it now and will do the same work: drop ours
            return
        offsets = {tp: o for tp, o in self._passed.items() if tp in self._log.assigned()}
        if handled:
            offsets[where] = fact.offset + 1
        if outputs or offsets:
            self._log.commit(outputs, offsets, self._crash)
        if handled:
            self._done[where] = fact.offset + 1
        self._passed.clear()
        self._status.events_out += len(outputs)
        self._status.tell()

    def _commit_passed(self) -> None:
        offsets = {tp: o for tp, o in self._passed.items() if tp in self._log.assigned()}
        self._passed.clear()
        if not offsets:
            return
        try:
            self._log.commit([], offsets, self._crash)
        except FencedError:
            raise
        except LogError:  # a rebalance took the partition: its new owner passes these events over again
            return
