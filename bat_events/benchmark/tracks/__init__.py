"""The tracks of the built-in mini benchmark."""

from collections.abc import Mapping
from types import MappingProxyType

from bat_events.benchmark.tracks.detection import DETECTION
from bat_events.benchmark.tracks.images import ENHANCEMENT, SYNTHESIS
from bat_events.benchmark.tracks.questions import CLASSIFICATION, REPORT, VQA
from bat_events.benchmark.tracks.rules import Output, Reference, Subject, TrackRules
from bat_events.benchmark.tracks.segmentation import SEGMENTATION
from bat_events.domain.vocabulary import Track

_ALL = (CLASSIFICATION, SYNTHESIS, DETECTION, SEGMENTATION, VQA, REPORT, ENHANCEMENT)
TRACKS: Mapping[Track, TrackRules] = MappingProxyType({rules.track: rules for rules in _ALL})

__all__ = ["TRACKS", "Output", "Reference", "Subject", "TrackRules"]
