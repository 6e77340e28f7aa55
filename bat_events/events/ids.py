"""Event ids: same cause, same event.

The rule is versioned and never edited: an id is the first 16 bytes of SHA-256 over the rule's name, campaign, cause,
type and ordinal, each on its own line. A worker that does its work again after a crash makes the same id, and readers
keep the first committed event of an id.
"""

import hashlib

ROOT_CAUSE = "0" * 32
"""The cause of a campaign's first event."""

_RULE = "bat-event-id/1"


def event_id(*, campaign: str, cause: str, type_name: str, ordinal: int) -> str:
    """The id (32 hex digits) of the `ordinal`-th event of a type that `cause` makes in `campaign`."""
    if "\n" in campaign or "\n" in type_name:
        raise ValueError(f"campaign and type must be single lines, got {campaign!r} and {type_name!r}")
    text = f"{_RULE}\n{campaign}\n{cause}\n{type_name}\n{ordinal}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def event_id_prefix(campaign: str) -> bytes | None:
    """What is hashed for an id up to and with the line of the campaign, for who makes many at once.

    None where a campaign can have no ids because it is not a single line."""
    return None if "\n" in campaign else f"{_RULE}\n{campaign}\n".encode()
