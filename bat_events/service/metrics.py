"""The numbers of one process, for Prometheus: what it did, how long that took, how far it has read, what it holds.

Everything is a number with labels out of closed sets (services, topics, partitions): nothing of an event's content can get in,
so what the held-out plane shows here crosses nothing. Moments are timestamps: they grow old by themselves where their process
stands still. Lag as others see it, without the process's help, is in `metrics_lag`.
"""

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from bat_events.log.interface import Partition
from bat_events.service.runtime import Status

disable_created_metrics()  # type: ignore[no-untyped-call]

_HANDLING_S = (0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)
_COMMIT_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """One process's registry. `service` is the label: a consumer group's name, which is most often its service's."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._places: dict[str, set[Partition]] = {}
        by_service, by_place = ("service",), ("service", "topic", "partition")

        def gauge(name: str, what: str, labels: tuple[str, ...] = by_service) -> Gauge:
            return Gauge(name, what, labels, registry=self.registry)

        self.rebalances = Counter(
            "bat_rebalances", "Times that partitions were given or taken", by_service, registry=self.registry
        )
        self.assigned = gauge("bat_assigned_partitions", "Partitions that this process has now")
        self.in_flight = gauge("bat_in_flight", "Events or decisions that are being worked on now")
        self.letters = gauge("bat_dead_letters_open", "Dead letters of this service that wait for a person")
        self.progress = gauge(
            "bat_last_progress_timestamp_seconds", "When events were last taken or a transaction ended"
        )
        self.in_hand = gauge(
            "bat_oldest_in_hand_timestamp_seconds",
            "When the oldest event was written that is taken and not done; 0: none",
        )
        self.position = gauge("bat_position", "Next offset to read", by_place)
        self.lag = gauge(
            "bat_lag_records", "Offsets from the position to the end, as the client last heard of it", by_place
        )
        self.handling = Histogram(
            "bat_handler_duration_seconds",
            "One event's work, or one decision, failures included",
            by_service,
            buckets=_HANDLING_S,
            registry=self.registry,
        )
        self.committing = Histogram(
            "bat_transaction_duration_seconds",
            "One transaction from its begin to its end",
            by_service,
            buckets=_COMMIT_S,
            registry=self.registry,
        )
        self.failed = Counter(
            "bat_transactions_failed", "Transactions of which nothing was kept", by_service, registry=self.registry
        )

    def follow(self, status: Status) -> None:
        """Export a service's counts as they are whenever somebody asks."""
        self.registry.register(_Counts(status))

    def progressed(self, service: str) -> None:
        """Something was taken or done just now."""
        self.progress.labels(service).set(time.time())

    def places(self, service: str, positions: dict[Partition, int], ends: dict[Partition, int]) -> None:
        """How far the partitions are read that this process has. Those that it had are dropped."""
        for topic, partition in self._places.get(service, set()) - set(positions):
            self.position.remove(service, topic, partition)
            self.lag.remove(service, topic, partition)
        self._places[service] = set(positions)
        for (topic, partition), offset in positions.items():
            self.position.labels(service, topic, partition).set(offset)
            self.lag.labels(service, topic, partition).set(max(ends.get((topic, partition), offset) - offset, 0))

    def text(self) -> bytes:
        """All of it in Prometheus's text format."""
        return generate_latest(self.registry)


class _Counts:
    """A service's Status as metrics."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status
        counts: tuple[tuple[str, str, int], ...] = (
            ("bat_events_in", "Events read", status.events_in),
            ("bat_events_out", "Events written", status.events_out),
            ("bat_retries", "Tries after a fault that may pass", status.retries),
        )
        for name, what, count in counts:
            family = CounterMetricFamily(name, what, labels=["service"])
            family.add_metric([status.service], count)
            yield family
        behind = GaugeMetricFamily("bat_behind", "Whether there is more to read", labels=["service"])
        behind.add_metric([status.service], float(status.behind))
        yield behind
