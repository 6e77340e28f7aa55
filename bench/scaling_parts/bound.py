"""What the spread of keys over partitions allows: the theory beside which the measured speed-up stands. Pure."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from bat_events.domain.grouping import group_id
from bat_events.log.topics import partition_of


def loads(work_s: Mapping[int, float], owners: Mapping[int, int]) -> dict[int, float]:
    """Seconds of work of each owner. `work_s` is by partition, `owners` gives each partition's worker."""
    found = dict.fromkeys(owners.values(), 0.0)
    for partition, seconds in work_s.items():
        found[owners[partition]] += seconds
    return found


def speed_up(work_s: Mapping[int, float], owners: Mapping[int, int]) -> float:
    """All work over that of the busiest: what no service loop can exceed while nothing moves from worker to worker."""
    return sum(work_s.values()) / max(loads(work_s, owners).values())


def evenly(partitions: int, workers: int) -> dict[int, int]:
    """Partition -> worker, as the group hands them out: as many to each, one more to some where it does not divide."""
    return {partition: partition * workers // partitions for partition in range(partitions)}


def hashed(campaign: str, groups: int, partitions: int) -> Counter[int]:
    """How many of a campaign's first groups (eight a step) fall on each partition, by the hash that the log uses."""
    ids = (group_id(campaign, 1, number // 8, number % 8) for number in range(groups))
    return Counter(partition_of(name.encode(), partitions) for name in ids)


def expected(groups: int, partitions: int, workers: int, *, tries: int = 200) -> float:
    """Mean speed-up over many campaigns whose groups all take the same time."""
    owners = evenly(partitions, workers)
    found = [speed_up(_whole(hashed(f"c{n}", groups, partitions), partitions), owners) for n in range(tries)]
    return sum(found) / tries


def _whole(counts: Counter[int], partitions: int) -> dict[int, float]:
    return {partition: float(counts[partition]) for partition in range(partitions)}


def long_tailed(count: int, mean_s: float, seed: int, *, sigma: float = 1.0) -> Sequence[float]:
    """Durations of a log-normal law with this mean: at sigma 1 one in a hundred takes more than six times the mean."""
    draw = random.Random(seed)
    return [mean_s * draw.lognormvariate(-sigma * sigma / 2, sigma) for _ in range(count)]
