"""What can go wrong between a question and its answer."""

from bat_events.errors import BatError


class AuditError(BatError):
    """The audit file cannot be kept or read as asked."""


class NoAuditFile(AuditError):
    """Nothing was materialised yet."""


class AuditBusy(AuditError):
    """Another process holds the audit file and does not answer."""


class QueryRefused(AuditError):
    """Not a single SELECT, or one that reaches outside the audit's tables."""


class QueryFailed(AuditError):
    """DuckDB could not answer; the message is its own."""


class QueryTimeout(AuditError):
    """The answer took longer than the time limit."""


KINDS: dict[str, type[AuditError]] = {
    cls.__name__: cls for cls in (AuditError, NoAuditFile, AuditBusy, QueryRefused, QueryFailed, QueryTimeout)
}
"""Error classes by the name that travels over the socket."""
