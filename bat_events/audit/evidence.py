"""Rollouts' evidence -> rows: one per rollout, one per receipt. Texts stay in the artefact; rows hold digests and lengths.

The audit file is derived from the log and from the artefacts that it names by digest. One that cannot be read stops nothing:
its row says `unread` and why, and its receipts are missing, not none.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from bat_events.artifacts import ArtifactError
from bat_events.codec import Fact
from bat_events.events.rollouts import RolloutCompleted

ReadArtefact = Callable[[str], bytes]
"""The bytes of a digest; raises ArtifactError or OSError."""

_TEXT, _LONG, _FLAG = pa.string(), pa.int64(), pa.bool_()
_SAME = [("event", _TEXT), ("campaign", _TEXT), ("rollout", _TEXT)]
ROLLOUT_EVIDENCE = pa.schema(
    [
        *_SAME,
        ("evidence", _TEXT),
        ("status", _TEXT),
        ("detail", _TEXT),
        ("receipts", _LONG),
        ("files", _LONG),
        ("inputs_intact", _FLAG),
    ]
)
RECEIPTS = pa.schema(
    [
        *_SAME,
        ("index", _LONG),
        ("engine", _TEXT),
        ("language", _TEXT),
        ("code_digest", _TEXT),
        ("code_bytes", _LONG),
        ("code_follows", _FLAG),
        ("exit_code", _LONG),
        ("end", _TEXT),
        ("stdout_bytes", _LONG),
        ("stderr_bytes", _LONG),
        ("workspace_before", _TEXT),
        ("workspace_after", _TEXT),
        ("changed_files", _LONG),
    ]
)
_NO_STORE = "this auditor reads no artefacts"


class Evidence(NamedTuple):
    """What a completed rollout says of its evidence."""

    event: str
    campaign: str
    rollout: str
    digest: str


def evidence_of(facts: Iterable[Fact]) -> list[Evidence]:
    """Of the completed rollouts among these facts."""
    return [
        Evidence(fact.id, fact.envelope.campaign, fact.event.rollout, fact.event.evidence)
        for fact in facts
        if isinstance(fact.event, RolloutCompleted)
    ]


def evidence_rows(
    named: Iterable[Evidence], read: ReadArtefact | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(rows of `rollout_evidence`, rows of `receipts`)."""
    rollouts, receipts = [], []
    for one in named:
        same = {"event": one.event, "campaign": one.campaign, "rollout": one.rollout}
        row: dict[str, Any] = {**same, "evidence": one.digest, "status": "unread", "detail": _NO_STORE}
        if read is not None:
            try:
                body = json.loads(read(one.digest))
                found = [_receipt(same, call) for call in body["calls"]]
                files, intact = len(body["files"]), bool(body["inputs_intact"])
            except (ArtifactError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                row["detail"] = f"{type(error).__name__}: {error}"[:500]
            else:
                receipts += found
                row |= {
                    "status": "read",
                    "detail": None,
                    "receipts": len(found),
                    "files": files,
                    "inputs_intact": intact,
                }
        rollouts.append(row)
    return rollouts, receipts


def _receipt(same: Mapping[str, str], call: Mapping[str, Any]) -> dict[str, Any]:
    code = str(call["code"]).encode("utf-8", "surrogatepass")
    return {
        **same,
        "index": int(call["index"]),
        "engine": str(call["engine"]),
        "language": str(call["language"]),
        "code_digest": str(call["code_digest"]),
        "code_bytes": len(code),
        "code_follows": hashlib.sha256(code).hexdigest() == call["code_digest"],
        "exit_code": None if call["exit_code"] is None else int(call["exit_code"]),
        "end": str(call["end"]),
        "stdout_bytes": len(str(call["stdout"]).encode("utf-8", "surrogatepass")),
        "stderr_bytes": len(str(call["stderr"]).encode("utf-8", "surrogatepass")),
        "workspace_before": str(call["workspace_before"]),
        "workspace_after": str(call["workspace_after"]),
        "changed_files": len(call["changes"]),
    }
