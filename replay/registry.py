"""The deciders that replay has, by name and version.

A new version of a decider is added here and the old one stays: a log is replayed with the version that decided it.
"""

from bat_events.deciders.bank import Bank
from bat_events.deciders.gate import Gate
from bat_events.deciders.interface import Decider
from bat_events.deciders.planner import Planner
from bat_events.deciders.teacher import Teacher

_ALL: tuple[type[Decider], ...] = (Bank, Gate, Planner, Teacher)

DECIDERS: dict[str, type[Decider]] = {f"{kind.name}/{kind.version}": kind for kind in _ALL}
"""As events name them in `bat_logic`, such as `planner/1`."""

DECISION_TOPICS = frozenset(topic for kind in _ALL for topic in kind.outputs)
