"""The search of all training-side bytes for held-out fingerprints and canaries: unpack, transcripts, documents, result, searcher.

It runs as a command with the auditor's rights on the log and on the artefact store, because bytes are not rows: SQL never sees
a body, a transcript or a file. See docs/audit.md.
"""

from bat_events.audit.search.result import Finding, SearchResult, Unread
from bat_events.audit.search.searcher import Searcher

__all__ = ["Finding", "SearchResult", "Searcher", "Unread"]
