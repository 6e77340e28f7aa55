"""Which campaign and which round a record belongs to, by its headers alone: no body is decoded.

A record belongs to the campaign that its first `bat_campaign` header names. One without that header cannot be told from what
it is, so it stays with every campaign of its log: it is archived, counted and sealed, never lost.
"""

import re

Headers = tuple[tuple[str, bytes], ...]

_CAMPAIGN, _ROUND = "bat_campaign", "bat_round"
_DIGITS = re.compile(rb"[0-9]{1,9}")


def campaign_of(headers: Headers) -> bytes | None:
    """The campaign that a record names, or None."""
    for name, value in headers:
        if name == _CAMPAIGN:
            return value
    return None


def belongs(headers: Headers, campaign: bytes) -> bool:
    """Whether a record is one of the campaign's."""
    return campaign_of(headers) in (None, campaign)


def round_of(headers: Headers) -> int | None:
    """The round in whose file a record lies: its first `bat_round` header; None where that is missing or no number."""
    for name, value in headers:
        if name == _ROUND:
            return int(value) if _DIGITS.fullmatch(value) else None
    return None
