"""A record as a fork holds it, and back again: nothing is lost on the way, so a copy can be held against its origin.

A copy has its origin's body, id, cause, times and cut. Where these name the origin campaign, its key, its subject and its
`bat_campaign` name the fork; and `bat_origin` says on which logs it stood before, and where.
"""

from collections.abc import Callable
from dataclasses import replace

from bat_events.domain.sealing import content_bytes
from bat_events.events.envelope import Place, format_origin, parse_origin
from bat_events.log.interface import Record

ORIGIN = "bat_origin"
_NAMING = ("bat_campaign", "ce_subject")

Headers = tuple[tuple[str, bytes], ...]


def is_copy(record: Record) -> bool:
    """Whether a record was copied from another campaign's log."""
    return any(name == ORIGIN for name, _ in record.headers)


def copy_of(record: Record, origin: str, fork: str) -> Record:
    """A record of the origin as its fork holds it. Raises ValueError where its `bat_origin` cannot be read."""
    place = Place(campaign=origin, offset=record.offset)

    def headers(found: Headers) -> Headers:
        if not is_copy(record):
            return (*found, (ORIGIN, format_origin([place]).encode()))
        return _with_origin(found, lambda text: format_origin([*parse_origin(text), place]))

    return _renamed(record, origin, fork, headers, record.offset)


def original_of(record: Record) -> Record:
    """A copy as the log that it was copied from has it, at its offset there. Raises ValueError where it cannot be read."""
    found = next(value.decode() for name, value in record.headers if name == ORIGIN)
    *earlier, last = parse_origin(found)
    fork = next(value.decode() for name, value in record.headers if name == _NAMING[0])

    def headers(renamed: Headers) -> Headers:
        if not earlier:
            return tuple(header for header in renamed if header[0] != ORIGIN)
        return _with_origin(renamed, lambda _: format_origin(earlier))

    return _renamed(record, fork, last.campaign, headers, last.offset)


def content(record: Record) -> bytes:
    """What digests of copies are made over: that of the record as the origin has it."""
    return content_bytes(record.key, record.value, record.headers, record.timestamp_ms)


def _with_origin(headers: Headers, change: Callable[[str], str]) -> Headers:
    return tuple((name, change(value.decode()).encode() if name == ORIGIN else value) for name, value in headers)


def _renamed(record: Record, before: str, after: str, headers: Callable[[Headers], Headers], offset: int) -> Record:
    old, new = before.encode(), after.encode()
    named = tuple((n, new if n in _NAMING and value == old else value) for n, value in record.headers)
    return replace(record, offset=offset, key=new if record.key == old else record.key, headers=headers(named))
