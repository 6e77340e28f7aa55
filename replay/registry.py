"""The deciders that replay has, by name and version: those of deciders/versions.py, old ones too."""

from bat_events.deciders.versions import DECIDERS

__all__ = ["DECIDERS", "DECISION_TOPICS"]

DECISION_TOPICS = frozenset(topic for kind in DECIDERS.values() for topic in kind.outputs)
