"""Importing this module registers every event type (see events.base)."""

from bat_events.events import (
    bank,
    boundary,
    campaign,
    corpus,
    fingerprints,
    heldout,
    promotion,
    rollouts,
    rounds,
    training,
)

__all__ = [
    "bank",
    "boundary",
    "campaign",
    "corpus",
    "fingerprints",
    "heldout",
    "promotion",
    "rollouts",
    "rounds",
    "training",
]
