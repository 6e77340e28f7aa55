"""The tracks of the built-in mini benchmark."""

from collections.abc import Mapping
from types import MappingProxyType

from bat_events.benchmark.tracks.enhancement import ENHANCEMENT
from bat_events.benchmark.tracks.rules import TrackRules
from bat_events.benchmark.tracks.segmentation import SEGMENTATION
from bat_events.domain.vocabulary import Track

TRACKS: Mapping[Track, TrackRules] = MappingProxyType({rules.track: rules for rules in (SEGMENTATION, ENHANCEMENT)})

__all__ = ["TRACKS", "TrackRules"]
