"""Which partition a record goes to: by turns for what belongs to a group, by its key's hash for everything else.

A round works on the few groups of a step or two at a time. Hashed, two of eight groups often meet on one worker while another
has none; so the groups of a step are spread evenly over the partitions instead. A group's place follows from step and slot alone:
all that is written of it to a topic stands in one partition, in order, whoever writes it and however often.
"""

from math import gcd

from bat_events.events.base import Event
from bat_events.events.rollouts import IsolationBreached, RolloutCompleted, RolloutFailed
from bat_events.events.rounds import GroupAbandoned, GroupRequested
from bat_events.log.topics import partition_of

_OF_GROUPS = (GroupRequested, GroupAbandoned, RolloutCompleted, RolloutFailed, IsolationBreached)
"""All that stands on the topics from which groups are sampled and their rollouts judged."""

_SLOTS = 8  # groups a step in the paper; more or fewer are placed by the same rule, a little less evenly


def place(event: Event, key: bytes, partitions: int) -> int:
    """The partition of an event's record, from 0, on a topic of `partitions` partitions."""
    if isinstance(event, _OF_GROUPS):
        return place_of_group(event.step, event.slot, partitions)
    return partition_of(key, partitions)


def place_of_group(step: int, slot: int, partitions: int) -> int:
    """The partition of a group.

    Consumer groups give a worker neighbouring partitions. So the slots of a step lie as far from each other as they can, the
    first two half the partitions apart, the first four a quarter (van der Corput's sequence). The next step lies between them: it
    is asked for while this one still runs, where the lag allows.
    """
    spread = _reversed(slot % _SLOTS) * partitions // _SLOTS
    return (spread + step * _stride(partitions)) % partitions


def _reversed(slot: int) -> int:
    """A slot's bits in the other order: 0, 4, 2, 6, 1, 5, 3, 7 for eight."""
    width = (_SLOTS - 1).bit_length()
    return int(format(slot, f"0{width}b")[::-1], 2)


def _stride(partitions: int) -> int:
    """How far a step lies from the one before: about 0.38 of the gap between two slots (the golden section: further steps fall
    between too), without a divisor in common with the partitions, so that all of them have their turn."""
    stride = max(1, round(0.382 * partitions / _SLOTS))
    while gcd(stride, partitions) != 1:
        stride += 1
    return stride
