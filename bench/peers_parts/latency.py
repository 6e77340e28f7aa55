"""Event to reaction: one event at a time, from the call that produces it to the moment at which its answer is read."""

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer

from .driving import Row
from .scene import Scene, decoded

WARM_UP = 30
EVERY_S = 0.07  # a transaction takes some 20 ms: events must not queue, for that is no latency of the loop


@dataclass(frozen=True)
class Latency:
    """Seconds of every measured event."""

    seconds: Sequence[float]

    @property
    def p50(self) -> float:
        """Median, in milliseconds."""
        return 1000 * statistics.median(self.seconds)

    @property
    def p99(self) -> float:
        """99th percentile, in milliseconds."""
        return 1000 * statistics.quantiles(self.seconds, n=100)[98]


class _Answers(threading.Thread):
    """Reads reactions, committed ones only, and remembers when each first came."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(daemon=True)
        self.at: dict[bytes, float] = {}
        self.stop = threading.Event()
        self._reader = Consumer(
            {
                "bootstrap.servers": scene.bootstrap,
                "group.id": f"{scene.namespace}-answers",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
            }
        )
        self._reader.subscribe([scene.topics["reaction"]])

    def run(self) -> None:
        while not self.stop.is_set():
            message = self._reader.poll(0.1)
            if message is not None and message.error() is None:
                self.at.setdefault(decoded("reward", message.value() or b"")["rollout"], time.perf_counter())
        self._reader.close()

    def wait(self, count: int, timeout_s: float, alive: Callable[[], bool]) -> bool:
        """Whether so many answers came."""
        deadline = time.monotonic() + timeout_s
        while len(self.at) < count and time.monotonic() < deadline and alive():
            time.sleep(0.005)
        return len(self.at) >= count


def measure_latency(scene: Scene, rows: Sequence[Row], alive: Callable[[], bool]) -> Latency:
    """Feeds the rollouts: some to warm up, the rest evenly in time. Raises RuntimeError where answers do not come."""
    answers = _Answers(scene)
    answers.start()
    out = Producer({"bootstrap.servers": scene.bootstrap, "enable.idempotence": True, "linger.ms": 0})
    sent: dict[bytes, float] = {}
    names = [decoded("rollout", row[2])["rollout"] for row in rows]

    def send(number: int) -> None:
        _, key, value, headers = rows[number]
        sent[names[number]] = time.perf_counter()
        out.produce(scene.topics["rollout"], value=value, key=key, headers=list(headers))
        out.poll(0)

    try:
        for number in range(WARM_UP):
            send(number)
            time.sleep(EVERY_S)
        if not answers.wait(WARM_UP, 60.0, alive):
            raise RuntimeError(f"{len(answers.at)} of {WARM_UP} events were answered")
        begun = time.perf_counter()
        for number in range(WARM_UP, len(rows)):
            time.sleep(max(0.0, begun + (number - WARM_UP) * EVERY_S - time.perf_counter()))
            send(number)
        if not answers.wait(len(rows), 30.0, lambda: True):
            raise RuntimeError(f"{len(answers.at)} of {len(rows)} events were answered")
    finally:
        out.flush(10.0)
        answers.stop.set()
        answers.join()
    return Latency([answers.at[name] - sent[name] for name in names[WARM_UP:]])
