"""Replay: run the deciders of a recorded campaign again and compare, event by event.

Nothing here can produce, train, judge or touch a sandbox: this package imports the deciders, the codec and the reading
half of the log, and a test holds it to that.
"""

from bat_events.replay.archive import ArchiveSource, write_archive
from bat_events.replay.archive_format import ArchiveError
from bat_events.replay.archive_reader import Archived, ArchiveReader
from bat_events.replay.heldout import KafkaHeldout, with_heldout
from bat_events.replay.replayer import replay_campaign
from bat_events.replay.report import render, to_json
from bat_events.replay.result import ReplayResult
from bat_events.replay.scores import Score, ScoreOf
from bat_events.replay.source import KafkaSource, OtherRecord, ReplayError, Source
from bat_events.replay.timeline import Timeline, timeline, timeline_json, timeline_table
from bat_events.replay.until import Until
from bat_events.replay.what_if import WhatIf, what_if
from bat_events.replay.what_if_report import what_if_json, what_if_table

__all__ = [
    "ArchiveError",
    "ArchiveReader",
    "ArchiveSource",
    "Archived",
    "KafkaHeldout",
    "KafkaSource",
    "OtherRecord",
    "ReplayError",
    "ReplayResult",
    "Score",
    "ScoreOf",
    "Source",
    "Timeline",
    "Until",
    "WhatIf",
    "render",
    "replay_campaign",
    "timeline",
    "timeline_json",
    "timeline_table",
    "to_json",
    "what_if",
    "what_if_json",
    "what_if_table",
    "with_heldout",
    "write_archive",
]
