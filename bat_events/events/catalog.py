"""Importing this module registers every event type and its earlier versions (see events.base)."""

from bat_events.events import (
    bank,
    boundary,
    campaign,
    corpus,
    dead_letters,
    fingerprints,
    heldout,
    old,
    promotion,
    rollouts,
    rounds,
    seals,
    training,
)

__all__ = [
    "bank",
    "boundary",
    "campaign",
    "corpus",
    "dead_letters",
    "fingerprints",
    "heldout",
    "old",
    "promotion",
    "rollouts",
    "rounds",
    "seals",
    "training",
]
