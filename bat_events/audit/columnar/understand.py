"""Columns -> rows of the audit's tables, for every record that is sound in every way that this can see.

What is checked is what the codec checks: the envelope's headers, the body's SHA-256, its type, schema and topic, its Avro and the
limits of its model. `good` says which records passed; the others are read by the codec.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bat_events.audit.columnar import heads
from bat_events.audit.columnar.columns import Columns
from bat_events.audit.columnar.nodes import Fields, Raw
from bat_events.audit.columnar.plan import plan_of
from bat_events.audit.columnar.scan import Longs, Scan, fixed_texts, hex_of
from bat_events.audit.rows import EVENTS, LAST_MS
from bat_events.audit.shape import typed_tables
from bat_events.codec import schema_for
from bat_events.events.base import Event, event_type
from bat_events.events.envelope import CONTENT_TYPE
from bat_events.events.ids import event_id_prefix
from bat_events.log.interface import MAXIMUM_BYTES

_ID, _DIGEST = 32, 64
UNDERSTOOD = frozenset(
    [
        "ce_specversion",
        "content-type",
        "ce_id",
        "ce_source",
        "ce_type",
        "ce_time",
        "ce_subject",
        "ce_dataschema",
        "bat_digest",
        "bat_campaign",
        "bat_cause",
        "bat_ordinal",
        "bat_logic",
        "bat_round",
        "traceparent",
        "bat_cut",
        "bat_cost",
    ]
)
"""The headers that are checked here; a record with another one is the codec's."""


@dataclass(frozen=True)
class _Bodies:
    """The bodies of one type: the columns' rows that they are of, and what was read."""

    cls: type[Event]
    plan: Fields
    rows: Longs
    raw: Raw


class Understood:
    """See the module. It holds on to the bytes; what `events` and `typed` give does not."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._bad = columns.sizes > MAXIMUM_BYTES
        for name in columns.header.keys() - UNDERSTOOD:
            self._bad |= columns.header[name][1] >= 0
        self._constants()
        self._id_table = self._hexes("ce_id", _ID)
        self._cause_table = self._hexes("bat_cause", _ID)
        self._digest_table = self._hexes("bat_digest", _DIGEST)
        self._schema_table = self._hexes("ce_dataschema", _DIGEST, b"sha256:")
        self._texts = {name: self._strings(name) for name in ("ce_subject", "traceparent")}
        self._codes = {name: self._coded(name) for name in ("ce_source", "ce_type", "bat_campaign", "bat_logic")}
        self._time, wrong = heads.moments(columns.heads, columns.header["ce_time"])
        self._bad |= wrong
        self._ordinal, wrong = heads.numbers(columns.heads, columns.header["bat_ordinal"])
        self._bad |= wrong
        self._round, wrong = heads.numbers(columns.heads, columns.header["bat_round"])
        self._no_round = columns.header["bat_round"][1] < 0
        self._bad |= wrong & ~self._no_round
        self._cut, wrong = heads.cuts(columns.heads, columns.header["bat_cut"])
        self._bad |= wrong
        self._cost, wrong = heads.costs(columns.heads, columns.header["bat_cost"])
        self._bad |= wrong
        self._classes = [event_type(ce_type) for ce_type in self._codes["ce_type"][1]]
        """The class of each code of a type, None where none is known: no record of it is good."""
        self._bodies = self._read_bodies()
        self.good = ~self._bad
        self.ids = fixed_texts(self._id_table)

    # -- headers

    def _constants(self) -> None:
        for name, value in (("ce_specversion", b"1.0"), ("content-type", CONTENT_TYPE.encode())):
            self._bad |= heads.not_constant(self.columns.heads, self.columns.header[name], value)

    def _hexes(self, name: str, digits: int, prefix: bytes = b"") -> Any:
        table, wrong = heads.hexes(self.columns.heads, self.columns.header[name], digits, prefix)
        self._bad |= wrong
        return np.ascontiguousarray(table)

    def _strings(self, name: str) -> Any:
        array, wrong = heads.strings(self.columns.heads, self.columns.header[name])
        self._bad |= wrong
        return array

    def _coded(self, name: str) -> tuple[Longs, list[str]]:
        codes, values, wrong = heads.coded(self.columns.heads, self.columns.header[name])
        self._bad |= wrong
        return codes, values

    # -- bodies

    def _read_bodies(self) -> list[_Bodies]:
        columns, found = self.columns, []
        codes = self._codes["ce_type"][0]
        known = np.zeros(len(columns), bool)
        for code, cls in enumerate(self._classes):
            plan = None if cls is None else plan_of(cls)
            if cls is None or plan is None:
                continue
            rows = np.flatnonzero((codes == code) & ~self._bad)
            schema = np.frombuffer(schema_for(cls).digest.encode(), np.uint8)
            topics = [number for number, topic in enumerate(columns.topics) if topic in cls.topics()]
            fits = (self._schema_table[rows] == schema).all(axis=1) & np.isin(columns.topic[rows], topics)
            rows = rows[fits]
            if not rows.size:
                continue
            rows = rows[self._unchanged(rows)]
            scan = Scan(columns.bodies, columns.body_start[rows], columns.body_end[rows])
            raw = plan.read(scan, np.arange(len(rows)))
            scan.finish()
            known[rows[~scan.bad]] = True
            found.append(_Bodies(cls, plan, rows, raw))
        self._bad |= ~known
        return found

    def _unchanged(self, rows: Longs) -> Any:
        """Which bodies have the SHA-256 that their envelope says."""
        columns, view = self.columns, memoryview(self.columns.bodies)
        spans = zip(columns.body_start[rows].tolist(), columns.body_end[rows].tolist(), strict=True)
        sha256 = hashlib.sha256
        digests = b"".join([sha256(view[start:end]).digest() for start, end in spans])
        table = hex_of(np.frombuffer(digests, np.uint8).reshape(-1, 32))
        return (table == self._digest_table[rows]).all(axis=1)

    # -- tables

    def events(self, rows: Longs) -> Any:
        """The `events` rows of these records, which must be good."""
        columns, take = self.columns, pa.array(rows)
        type_codes = self._codes["ce_type"][0]
        names = [cls.type_name() if cls else "" for cls in self._classes]
        versions = np.array([cls.VERSION if cls else 0 for cls in self._classes], np.int32)
        stamps = columns.timestamp_ms[rows]
        timed = (stamps > 0) & (stamps <= LAST_MS)
        arrays = {
            "id": self.ids.take(take),
            "type": _by_code(type_codes[rows], names),
            "version": pa.array(versions[type_codes[rows]]),
            "topic": _by_code(columns.topic[rows], list(columns.topics)),
            "partition": pa.array(columns.partition[rows].astype(np.int32)),
            "offset": pa.array(columns.offset[rows]),
            "campaign": self._by_name("bat_campaign", rows),
            "round": pa.array(self._round[rows], mask=self._no_round[rows]),
            "cause": fixed_texts(self._cause_table[rows]),
            "ordinal": pa.array(self._ordinal[rows]),
            "logic": self._by_name("bat_logic", rows),
            "time": self._time.take(take),
            "log_time": pa.array(np.where(timed, stamps * 1000, 0), mask=~timed).cast(pa.timestamp("us")),
            "source": self._by_name("ce_source", rows),
            "subject": self._texts["ce_subject"].take(take),
            "body_digest": fixed_texts(self._digest_table[rows]),
            "schema_digest": fixed_texts(self._schema_table[rows]),
            "traceparent": self._texts["traceparent"].take(take),
            "cut": self._cut.take(take),
            **{name: array.take(take) for name, array in self._cost.items()},
            "body_bytes": pa.array((columns.body_end - columns.body_start)[rows]),
            "id_follows": pa.array(self._id_follows(rows)),
            "maker": self._by_name("bat_campaign", rows),  # a copy has a header that makes it the codec's
            "copied_from": pa.nulls(len(rows), pa.string()),
            "copied_offset": pa.nulls(len(rows), pa.int64()),
        }
        return pa.Table.from_arrays([arrays[name] for name in EVENTS.names], schema=EVENTS)

    def typed(self) -> list[tuple[type[Event], Any, Longs]]:
        """Per event type the rows of its table, of all good records, and the records' rows here."""
        tables = []
        for bodies in self._bodies:
            order = np.flatnonzero(self.good[bodies.rows])
            if not order.size:
                continue
            rows = bodies.rows[order]
            take = pa.array(rows)
            own = [self.ids.take(take), self._by_name("bat_campaign", rows), self._time.take(take)]
            arrays = own + bodies.plan.columns(self.columns.bodies, bodies.plan.take(bodies.raw, order))
            table = typed_tables()[bodies.cls]
            schema = pa.schema([(column.name, column.shape.arrow) for column in table.columns])
            tables.append((bodies.cls, pa.Table.from_arrays(arrays, schema=schema), rows))
        return tables

    def _by_name(self, name: str, rows: Longs) -> Any:
        codes, values = self._codes[name]
        return _by_code(codes[rows], values)

    def _id_follows(self, rows: Longs) -> list[bool]:
        campaigns, types = self._codes["bat_campaign"], self._codes["ce_type"]
        begins = [event_id_prefix(campaign) for campaign in campaigns[1]]
        middles = [f"\n{cls.type_name() if cls else ''}\n".encode() for cls in self._classes]
        causes, ids = self._cause_table[rows].tobytes(), self._id_table[rows].tobytes()
        sha256, follows = hashlib.sha256, []
        places = range(0, _ID * len(rows), _ID)
        for at, campaign, type_, ordinal in zip(
            places, campaigns[0][rows].tolist(), types[0][rows].tolist(), self._ordinal[rows].tolist(), strict=True
        ):
            begin = begins[campaign]
            if begin is None:
                follows.append(False)
                continue
            made = sha256(b"%b%b%b%d" % (begin, causes[at : at + _ID], middles[type_], ordinal)).hexdigest()
            follows.append(made[:_ID].encode() == ids[at : at + _ID])
        return follows


def _by_code(codes: Longs, values: list[str]) -> Any:
    return pa.array(values, pa.string()).take(pa.array(codes))
