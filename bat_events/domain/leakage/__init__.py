"""The leakage gate's rules: fingerprints of held-out text, and ordered checks of what wants to enter training.

Modules in reading order: text, keyed, stream, views, patterns, fingerprints, sketch, document, reading, checks.
"""

from bat_events.domain.leakage.checks import CHECKS, CheckResult, Scanner, cleared, run_checks
from bat_events.domain.leakage.fingerprints import RULE, Fingerprints, fingerprint, make_fingerprints
from bat_events.domain.leakage.text import normalise

__all__ = [
    "CHECKS",
    "RULE",
    "CheckResult",
    "Fingerprints",
    "Scanner",
    "cleared",
    "fingerprint",
    "make_fingerprints",
    "normalise",
    "run_checks",
]
