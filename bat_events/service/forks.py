"""Whether the copies of a fork are whole: until they are, nothing is decided.

The last transaction of a copy writes CampaignForked, which counts the copies of every partition. A reader meets partitions
in any order, so it has seen the whole copy once it has CampaignForked and as many copies of each of its partitions.
"""

from collections import Counter
from collections.abc import Collection

from bat_events.codec import Fact
from bat_events.events.campaign import CampaignForked
from bat_events.log.interface import Partition


class Copies:
    """What one service has read of copies on its topics."""

    def __init__(self, topics: Collection[str]) -> None:
        self._topics = frozenset(topics)
        self._read: dict[str, Counter[Partition]] = {}
        self._forks: dict[str, CampaignForked] = {}
        self._whole: set[str] = set()

    def take(self, fact: Fact) -> None:
        """Count a record that is a copy, and learn of a copy's end."""
        campaign = fact.envelope.campaign
        if fact.envelope.origin is not None:
            self._read.setdefault(campaign, Counter())[(fact.topic, fact.partition)] += 1
        elif isinstance(fact.event, CampaignForked):
            self._forks.setdefault(campaign, fact.event)

    def waiting_for(self) -> str | None:
        """What is not whole yet, in words; None where nothing is to be waited for."""
        for campaign, read in self._read.items():
            if campaign in self._whole:
                continue
            fork = self._forks.get(campaign)
            if fork is None:
                return f"waiting: the copy of fork {campaign} is not whole; if it was broken off, run `bat-events fork` again"
            short = [c for c in fork.copied if c.topic in self._topics and read[(c.topic, c.partition)] < c.count]
            if short:
                return f"reading the copy of fork {campaign}"
            self._whole.add(campaign)
        return None
