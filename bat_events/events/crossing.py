"""What a record may carry across the evaluation boundary beside its body: its key, its headers, each in one fixed form.

The writer refuses to write anything else, the audit reports whatever else is there: both ask here. A cut is not allowed:
it names topics, that is words, and nothing that crosses is a decision.
"""

import re
from collections.abc import Sequence

from pydantic import ValidationError

from bat_events.domain.lineage import ancestors
from bat_events.events.base import event_type
from bat_events.events.envelope import ALLOWED_HEADERS, CONTENT_TYPE, Cost, format_origin, parse_origin, parse_time

OPTIONAL_HEADERS = frozenset({"bat_round", "bat_cost", "traceparent"})
COPY_HEADER = "bat_origin"
"""On copies in a fork, beside the others: it names the campaigns that the fork's own id names, and offsets."""

BOUNDARY_HEADERS = ALLOWED_HEADERS - {"bat_cut", COPY_HEADER}

_DIGITS = re.compile(r"[0-9]{1,19}")
_FORMS: dict[str, re.Pattern[str]] = {
    "content-type": re.compile(re.escape(CONTENT_TYPE)),
    "ce_specversion": re.compile(r"1\.0"),
    "ce_id": re.compile(r"[0-9a-f]{32}"),
    "bat_cause": re.compile(r"[0-9a-f]{32}"),
    "bat_digest": re.compile(r"[0-9a-f]{64}"),
    "ce_dataschema": re.compile(r"sha256:[0-9a-f]{64}"),
    "bat_ordinal": _DIGITS,
    "bat_round": _DIGITS,
    "traceparent": re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"),
}


def crossing_faults(
    key: bytes, headers: Sequence[tuple[str, bytes]], *, topic: str, writer: str, campaign: str
) -> list[str]:
    """Everything about a record's key and headers that may not cross; empty where all is well."""
    names = [name for name, _ in headers]
    faults = [f"header {name} is missing" for name in sorted(BOUNDARY_HEADERS - OPTIONAL_HEADERS - set(names))]
    faults += [f"header {name} stands there twice" for name in sorted({n for n in names if names.count(n) > 1})]
    if key != campaign.encode():
        faults.append("the key is not the campaign")
    for name, raw in headers:
        fault = header_fault(
            name, raw.decode("utf-8", "backslashreplace"), topic=topic, writer=writer, campaign=campaign
        )
        if fault is not None:
            faults.append(f"header {name}: {fault}")
    return faults


def header_fault(name: str, value: str, *, topic: str, writer: str, campaign: str) -> str | None:
    """Why a header may not cross on a topic with that writer, or None."""
    if name == COPY_HEADER:
        return None if _of_lineage(value, campaign) else "not places on logs of campaigns that this one descends from"
    if name not in BOUNDARY_HEADERS:
        return "not an allowed header"
    if name in ("ce_subject", "bat_campaign"):
        return None if value == campaign else "not the campaign"
    return None if _in_form(name, value, topic, writer) else "not in the form of this header"


def _of_lineage(value: str, campaign: str) -> bool:
    """Whether an origin names nothing but ancestors, down to the one that the campaign was forked from, and offsets."""
    try:
        places = parse_origin(value)
    except (ValueError, ValidationError):
        return False
    names = [place.campaign for place in places]
    return names == ancestors(campaign)[-len(names) :] and format_origin(places) == value


def _in_form(name: str, value: str, topic: str, writer: str) -> bool:
    if name in _FORMS:
        return _FORMS[name].fullmatch(value) is not None
    if name == "ce_source":
        return value == f"bat/{writer}"
    if name == "bat_logic":
        service, _, version = value.partition("/")
        return service == writer and re.fullmatch(r"[0-9]{1,6}", version) is not None
    if name == "ce_type":
        known = event_type(value)
        return known is not None and topic == known.TOPIC
    try:
        if name == "ce_time":
            parse_time(value)
            return True
        # Only as this project writes it: no spaces, no order, no digits of another's choice.
        cost = Cost.model_validate_json(value)
        return cost.call_s is None and cost.model_dump_json(exclude_none=True) == value
    except (ValueError, ValidationError):
        return False
