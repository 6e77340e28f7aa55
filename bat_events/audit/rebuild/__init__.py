"""`bat-events audit rebuild`: the audit file made anew from the log, held against the live one, and put in its place."""

from bat_events.audit.rebuild.compare import Comparison, TableComparison
from bat_events.audit.rebuild.rebuilder import Rebuilder, Rebuilt
from bat_events.audit.rebuild.sources import ArchiveRecords, KafkaRecords, RecordSource

__all__ = [
    "ArchiveRecords",
    "Comparison",
    "KafkaRecords",
    "Rebuilder",
    "Rebuilt",
    "RecordSource",
    "TableComparison",
]
