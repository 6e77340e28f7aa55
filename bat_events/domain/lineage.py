"""Names of forks: a fork's id is its origin's id, `~`, and a name of its own, so that an id says where it comes from.

Practice states, groups and rollouts are named after the root of a lineage: the same place in two of its campaigns has the same
id, and with it the same seeds. So a fork that decides as its origin did goes on exactly as that did, and what differs
follows from what was changed. Events are named after the campaign that made them.
"""

import re

SEPARATOR = "~"

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")


def root(campaign: str) -> str:
    """The campaign that a lineage began with; a campaign that is no fork is its own."""
    return campaign.partition(SEPARATOR)[0]


def is_fork(campaign: str) -> bool:
    """Whether a campaign holds copies of another one's events."""
    return SEPARATOR in campaign


def ancestors(campaign: str) -> list[str]:
    """The campaigns that a fork descends from, the root first; without itself."""
    names = campaign.split(SEPARATOR)
    return [SEPARATOR.join(names[:count]) for count in range(1, len(names))]


def fork_of(origin: str, name: str) -> str:
    """The id of a fork. Raises ValueError for a name that could not be told from the rest of the id."""
    if not _NAME.match(name):
        raise ValueError(
            f"name {name!r}: use 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"
        )
    return f"{origin}{SEPARATOR}{name}"
