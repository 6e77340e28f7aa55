"""A batch that was read and is not written yet: rows of what was understood side by side, and the records that are left."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bat_events.audit.columnar.scan import Longs
from bat_events.audit.columnar.understand import Understood
from bat_events.audit.rows import EVENTS
from bat_events.events.base import Event
from bat_events.log.interface import Partition, Record


@dataclass(frozen=True, kw_only=True)
class Typed:
    """Rows of one event type's table; `at` are the places of their rows in the batch's `events`."""

    cls: type[Event]
    rows: Any
    at: Longs


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """See the module. `order` is the place in the batch of each row of `events`; `alone` have theirs beside them.

    `reached` is the next offset of each partition. Nothing here holds the bytes that were read.
    """

    records: int
    order: Longs
    events: Any
    typed: tuple[Typed, ...]
    alone: tuple[tuple[int, Record], ...]
    reached: dict[Partition, int]

    def without(self, places: Sequence[int]) -> "Prepared":
        """The batch without these rows of `events`."""
        keep = np.ones(len(self.order), bool)
        keep[list(places)] = False
        typed = [
            Typed(cls=part.cls, rows=part.rows.filter(pa.array(keep[part.at])), at=part.at[keep[part.at]])
            for part in self.typed
        ]
        return Prepared(
            records=self.records,
            order=self.order[keep],
            events=self.events.filter(pa.array(keep)),
            typed=tuple(typed),
            alone=self.alone,
            reached=self.reached,
        )


def prepared(understood: Understood | None, others: Sequence[tuple[int, Record]]) -> Prepared:
    """The batch of what was understood and of other records, each with its place in the batch."""
    reached: dict[Partition, int] = {}
    for _, record in others:
        reached[record.place] = max(record.offset + 1, reached.get(record.place, 0))
    if understood is None:
        return Prepared(
            records=len(others),
            order=np.zeros(0, np.int64),
            events=EVENTS.empty_table(),
            typed=(),
            alone=tuple(others),
            reached=reached,
        )
    columns, good = understood.columns, np.flatnonzero(understood.good)
    for where, offset in _reached(understood):
        reached[where] = max(offset, reached.get(where, 0))
    bad = np.flatnonzero(~understood.good).tolist()
    alone = [*others, *((int(columns.index[row]), columns.record(row)) for row in bad)]
    place = np.cumsum(understood.good) - 1
    return Prepared(
        records=len(columns) + len(others),
        order=columns.index[good],
        events=understood.events(good),
        typed=tuple(Typed(cls=cls, rows=rows, at=place[at]) for cls, rows, at in understood.typed()),
        alone=tuple(sorted(alone, key=lambda entry: entry[0])),
        reached=reached,
    )


def _reached(understood: Understood) -> Iterator[tuple[Partition, int]]:
    columns = understood.columns
    for code, topic in enumerate(columns.topics):
        mine = columns.topic == code
        for partition in np.unique(columns.partition[mine]).tolist():
            yield (topic, partition), int(columns.offset[mine & (columns.partition == partition)].max()) + 1


def merged(parts: Sequence[Prepared]) -> Prepared:
    """Batches one after another as one: each transaction has its price."""
    if len(parts) == 1:
        return parts[0]
    orders, alone = [], []
    typed: dict[type[Event], list[tuple[Any, Longs]]] = {}
    reached: dict[Partition, int] = {}
    base = at = 0
    for part in parts:
        orders.append(part.order + base)
        alone += [(place + base, record) for place, record in part.alone]
        for one in part.typed:
            typed.setdefault(one.cls, []).append((one.rows, one.at + at))
        for where, offset in part.reached.items():
            reached[where] = max(offset, reached.get(where, 0))
        last = [int(part.order.max())] if len(part.order) else []
        base += max([*last, *(place for place, _ in part.alone)], default=-1) + 1
        at += len(part.order)
    return Prepared(
        records=sum(part.records for part in parts),
        order=np.concatenate(orders),
        events=pa.concat_tables([part.events for part in parts]),
        typed=tuple(
            Typed(
                cls=cls,
                rows=pa.concat_tables([rows for rows, _ in found]),
                at=np.concatenate([places for _, places in found]),
            )
            for cls, found in typed.items()
        ),
        alone=tuple(alone),
        reached=reached,
    )
