"""Writing to the log on Apache Kafka: every write is one transaction, of outputs and consumed offsets where there are any."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from bat_events.errors import AccessDenied, FencedError, LogError, Rebalanced
from bat_events.log.bounded import Bounded, Unanswered
from bat_events.log.cluster import CLIENT_LOGGER, Address, check_access, client_settings, kafka_error
from bat_events.log.interface import MAXIMUM_BYTES, CrashPoint, Outgoing
from bat_events.log.kafka_reader import CALL_S, LOOK_S
from bat_events.log.topics import broker_name

_TRANSACTION_TIMEOUT_MS = 10_000  # a killed transaction holds the last stable offset this long
_ENDING_S = 10.0  # for one call inside a transaction: the broker has given the transaction up by then
_BACK_S = 2.0  # after that the client has come back, or it never will
_NO_MEMBER = frozenset(
    (
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError._STATE,  # the client itself knows that it is no member just now
    )
)
"""Answers to the offsets of a member that the group has given up, or that has not heard of its newest epoch yet."""


def no_crash(_: str) -> None:
    """No crash point: nothing is struck."""


def writer_settings(bootstrap: Address, *, transactional_id: str | None) -> dict[str, Any]:
    """What every writer is configured with; without a transactional id it is idempotent only (benchmarks compare the two)."""
    settings = {
        **client_settings(bootstrap),
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 2,
        "message.max.bytes": MAXIMUM_BYTES,
        "compression.type": "lz4",
        "delivery.report.only.error": True,  # what arrived is known from the commit
    }
    if transactional_id is None:
        return settings
    return {**settings, "transactional.id": transactional_id, "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS}


class Writing:
    """One transaction at a time: outputs, then offsets, then commit."""

    def __init__(
        self, *, bootstrap: Address, namespace: str, transactional_id: str, queue: Mapping[str, int] | None = None
    ) -> None:
        self._cluster, self._namespace_out = bootstrap, namespace
        self._doing = f"write as transactional id {namespace}.{transactional_id}"
        self._failures: list[tuple[str, KafkaError]] = []
        self._bounded = Bounded(self._doing)
        settings = writer_settings(bootstrap, transactional_id=f"{namespace}.{transactional_id}")
        self._producer = Producer({**settings, **(queue or {})}, logger=CLIENT_LOGGER)

    def begin_service(self) -> None:
        """Fence every earlier instance and wait until its open transaction is ended."""
        self._guard(lambda: self._producer.init_transactions(LOOK_S))  # may be called again until it is done

    def write(
        self,
        outputs: Sequence[Outgoing],
        offsets: list[TopicPartition],
        group: Any,
        crash: CrashPoint,
    ) -> None:
        """The transaction. Raises FencedError, AccessDenied, Rebalanced or LogError; after each of them nothing was kept.

        Raises Unanswered, a LogError, where Kafka's client never came back: it is unknown whether anything was kept.
        """
        self._failures.clear()
        self._guard(self._producer.begin_transaction)
        try:
            crash("begun")
            for out in outputs:
                self._produce(out)
            crash("produced")
            if offsets:
                self._end(lambda: self._send_offsets(offsets, group))
            crash("offsets-sent")
            self._end(lambda: self._producer.commit_transaction(_ENDING_S))
            if self._failures:
                raise LogError(f"delivery failed: {self._failures[0][1].str()}")
        except (FencedError, Unanswered):
            raise
        except AccessDenied:
            with contextlib.suppress(KafkaException, Unanswered):  # nothing open may hold readers back
                self._abort()
            raise
        except (LogError, KafkaException) as error:
            try:
                self._abort()
            except (KafkaException, Unanswered) as abort:
                raise LogError(f"{error}; and the transaction could not be aborted: {abort}") from error
            kind = Rebalanced if isinstance(error, Rebalanced) else LogError
            raise kind(f"transaction aborted, nothing was kept: {error}") from error
        crash("committed")

    def _send_offsets(self, offsets: list[TopicPartition], group: Any) -> None:
        try:
            self._producer.send_offsets_to_transaction(offsets, group, _ENDING_S)
        except KafkaException as error:
            self._producer.poll(0)  # brings what failed before, which comes first
            if kafka_error(error).code() in _NO_MEMBER and not self._failures:
                raise Rebalanced(f"the group refuses offsets of this member: {kafka_error(error).str()}") from error
            raise

    def _produce(self, out: Outgoing) -> None:
        name = broker_name(self._namespace_out, out.topic)
        deadline = time.monotonic() + CALL_S
        while True:
            try:
                self._producer.produce(
                    name,
                    value=out.value,
                    key=out.key,
                    partition=out.partition,
                    headers=list(out.headers),
                    timestamp=out.timestamp_ms or 0,  # 0 is the client's word for now
                    on_delivery=self._delivered,
                )
                return
            except BufferError as error:  # the queue is full: slow down, lose nothing
                if time.monotonic() > deadline:
                    raise LogError(
                        f"no place for {len(out.value):,} bytes in the writer's queue for {CALL_S:g} s: Kafka takes "
                        "nothing, or queue.buffering.max.kbytes is below one record"
                    ) from error
                self._producer.poll(0.1)
            except KafkaException as error:  # the client knows by then that the topic is forbidden
                check_access(self._cluster, kafka_error(error), f"write topic {name}")
                raise

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append((message.topic() or "", error))

    def _end(self, call: Any) -> None:
        self._guard(lambda: self._bounded(call, _ENDING_S + _BACK_S))

    def _abort(self) -> None:
        self._bounded(lambda: self._producer.abort_transaction(_ENDING_S), _ENDING_S + _BACK_S)

    def _guard(self, call: Any) -> None:
        """Retry what Kafka calls retriable, and tell a fenced producer and a forbidden one from other errors."""
        deadline = time.monotonic() + 2 * CALL_S
        while True:
            try:
                call()
                return
            except KafkaException as error:
                cause = error.args[0]
                for topic, failure in self._failures:  # what made the transaction fail, before what that led to
                    check_access(self._cluster, failure, f"write topic {topic}")
                check_access(self._cluster, cause, f"{self._doing}: {cause.str()}")
                with contextlib.suppress(KafkaException):
                    self._producer.poll(0)  # a refused login comes out of here
                fenced = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
                if cause.code() in fenced:
                    raise FencedError(f"a newer instance of this service took over: {cause.str()}") from error
                if cause.retriable() and time.monotonic() < deadline:
                    time.sleep(0.1)
                    continue
                raise LogError(cause.str()) from error


class KafkaWriter(Writing):
    """A writer without inputs, for producers: one transaction per call. `queue` sets limits of the client's queue."""

    def __init__(
        self, *, bootstrap: Address, namespace: str, name: str, queue: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(bootstrap=bootstrap, namespace=namespace, transactional_id=name, queue=queue)
        self.begin_service()

    def publish(self, outputs: Sequence[Outgoing]) -> None:
        """Write all or nothing. Raises LogError or FencedError."""
        self.write(outputs, [], None, no_crash)
