"""What every driver shares: its job, its corpus, and the meter. Standard library only; fastavro where a body is decoded.

A driver reads one job (JSON, named on its command line), does one task, and prints one report (JSON) as its last line.
"""

import io
import json
import pickle
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Row = tuple[str, bytes, bytes, tuple[tuple[str, bytes], ...]]
"""(topic without namespace, key, Avro body, headers)."""

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
BATCH = 500
COMMIT_EVERY_S = 5.0
"""How often a consumer that only reads commits its offsets: the default of librdkafka, Quix Streams and FastStream."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One task of one driver. `topics` maps rollout, reward and reaction to names on the broker."""

    task: str
    guarantee: str
    bootstrap: str
    namespace: str
    topics: Mapping[str, str]
    events: int
    folder: str
    run: str
    prompt: bool

    @property
    def exactly_once(self) -> bool:
        """Whether offsets and outputs must be one transaction."""
        return self.guarantee == EXACTLY_ONCE

    def corpus(self) -> list[Row]:
        """The records to produce."""
        rows: list[Row] = pickle.loads((Path(self.folder) / "corpus.pickle").read_bytes())[: self.events]
        return rows

    def schemas(self) -> dict[str, Any]:
        """The Avro schemas of rollout and reward, as JSON data."""
        data: dict[str, Any] = json.loads((Path(self.folder) / "schemas.json").read_text())
        return data

    def reward(self) -> dict[str, Any]:
        """What fastavro makes of one reward: the reaction to a rollout is this one with the rollout's place."""
        data: dict[str, Any] = pickle.loads((Path(self.folder) / "reward.pickle").read_bytes())
        return data


def job() -> Job:
    """The job on the command line."""
    return Job(**json.loads(sys.argv[1]))


def avro_decoder(schema: Any) -> Callable[[bytes], Any]:
    """Bytes -> dict, by fastavro."""
    import fastavro

    parsed = fastavro.parse_schema(schema)
    return lambda body: fastavro.schemaless_reader(io.BytesIO(body), parsed, None)


def avro_encoder(schema: Any) -> Callable[[Any], bytes]:
    """Dict -> bytes, by fastavro."""
    import fastavro

    parsed = fastavro.parse_schema(schema)

    def encode(data: Any) -> bytes:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, data)
        return buffer.getvalue()

    return encode


_PLACE = ("group", "rollout", "index", "round", "step", "slot")


def reaction(template: Mapping[str, Any], rollout: Mapping[str, Any]) -> dict[str, Any]:
    """The reward that answers a decoded rollout."""
    return {**template, **{name: rollout[name] for name in _PLACE}}


def reaction_key(rollout: Mapping[str, Any]) -> bytes:
    """Which rollout a reaction answers: hex, whether fixed bytes were decoded as bytes or as text."""
    value = rollout["rollout"]
    return value.hex().encode() if isinstance(value, bytes) else str(value).encode()


class Meter:
    """Counts what was decoded, and takes wall and CPU seconds once `warm_up` events are done: connections are open by then."""

    def __init__(self, events: int) -> None:
        self._wanted = events
        self.warm_up = min(BATCH, events // 4)
        self.events = 0
        self.check = 0
        self.headers = 0
        self._began: tuple[float, float] | None = None
        self._ended: tuple[float, float] | None = None

    @staticmethod
    def _now() -> tuple[float, float]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return time.perf_counter(), used.ru_utime + used.ru_stime

    def begin(self) -> None:
        """The warm-up is over: the clock starts."""
        self._began = self._now()

    def end(self) -> None:
        """The last of the work is done."""
        self._ended = self._now()

    def take(self, step: int, index: int, headers: int) -> bool:
        """Count one decoded event by two of its fields; whether it was the last one wanted."""
        self.events += 1
        if self.events == self.warm_up:
            self.begin()
        self.check += checked(step, index)
        self.headers += headers
        return self.events >= self._wanted

    def report(self, **more: Any) -> None:
        """Print what the parent reads."""
        assert self._began is not None
        assert self._ended is not None
        wall, cpu = (late - early for early, late in zip(self._began, self._ended, strict=True))
        data = {
            "events": self.events,
            "measured": self.events - self.warm_up,
            "check": self.check,
            "headers": self.headers,
            "wall_s": wall,
            "cpu_s": cpu,
            **more,
        }
        print("\n" + json.dumps(data), flush=True)


def batches(rows: Sequence[T], meter: Meter, settle: Callable[[], object] = lambda: None) -> Iterator[Sequence[T]]:
    """Rows to produce: the warm-up, then BATCH at a time. `settle` waits until the warm-up has arrived."""
    yield rows[: meter.warm_up]
    settle()
    meter.begin()
    for start in range(meter.warm_up, len(rows), BATCH):
        yield rows[start : start + BATCH]
    meter.events = len(rows)


def checked(step: int, index: int) -> int:
    """What one event adds to the sum that shows that all were decoded."""
    return 8 * step + index + 1


def versions(names: Sequence[str]) -> dict[str, str]:
    """The installed versions of packages."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
