"""State and evidence bodies: the artefacts that events name by digest, as canonical JSON.

A state body is a complete reset point: with it a rollout can be run without the benchmark's code. An evidence body is
everything that a grader needs, so any reward can be recomputed. Durations are left out: equal work has equal bytes.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, cast

from bat_events.benchmark.interface import EpisodeEnd, Evidence, Task, TaskKey
from bat_events.domain.canonical import canonical_json
from bat_events.domain.vocabulary import Focus, Outcome, Split, Track
from bat_events.sandbox.interface import FileChange, Receipt

FORMAT = 1


def encode_files(files: Mapping[str, bytes]) -> dict[str, str]:
    """path -> base64."""
    return {path: base64.b64encode(content).decode() for path, content in sorted(files.items())}


def decode_files(files: Mapping[str, str]) -> dict[str, bytes]:
    """The inverse of `encode_files`."""
    return {path: base64.b64decode(text) for path, text in files.items()}


def key_to_json(key: TaskKey) -> dict[str, Any]:
    """A task key as JSON data."""
    return {
        "track": key.track.value,
        "focus": key.focus.value,
        "outcome": key.outcome.value,
        "seed": key.seed,
        "split": key.split.value,
    }


def key_from_json(data: Mapping[str, Any]) -> TaskKey:
    """The inverse of `key_to_json`; ValueError on unknown words."""
    return TaskKey(
        track=Track(data["track"]),
        focus=Focus(data["focus"]),
        outcome=Outcome(data["outcome"]),
        seed=data["seed"],
        split=Split(data["split"]),
    )


def state_body(task: Task, *, benchmark: str, version: int) -> dict[str, Any]:
    """A task as JSON data."""
    return {
        "kind": "state",
        "format": FORMAT,
        "benchmark": benchmark,
        "benchmark_version": version,
        "key": key_to_json(task.key),
        "system": task.system,
        "prompt": task.prompt,
        "inputs": encode_files(task.inputs),
        "files": encode_files(task.files),
        "max_turns": task.max_turns,
    }


def task_from_body(body: Mapping[str, Any]) -> Task:
    """The inverse of `state_body`. Raises ValueError on something else."""
    if body.get("kind") != "state" or body.get("format") != FORMAT:
        raise ValueError(
            f"not a state body of format {FORMAT}: kind {body.get('kind')!r}, format {body.get('format')!r}"
        )
    return Task(
        key=key_from_json(body["key"]),
        system=body["system"],
        prompt=body["prompt"],
        inputs=decode_files(body["inputs"]),
        files=decode_files(body["files"]),
        max_turns=body["max_turns"],
    )


def workspace_json(task: Task) -> dict[str, Any]:
    """What a workspace's digest is taken of."""
    return {"inputs": encode_files(task.inputs), "files": encode_files(task.files)}


def evidence_body(evidence: Evidence, codes: Sequence[str]) -> bytes:
    """Evidence as canonical JSON bytes; `codes` are the sources of the calls, in the receipts' order."""
    if len(codes) != len(evidence.receipts):
        raise ValueError(f"{len(codes)} sources for {len(evidence.receipts)} receipts")
    calls = [
        {
            **_code(code),
            "index": receipt.index,
            "engine": receipt.engine,
            "language": receipt.language,
            "code_digest": receipt.code_digest,
            "exit_code": receipt.exit_code,
            "end": receipt.end,
            "stdout": receipt.stdout,
            "stderr": receipt.stderr,
            "workspace_before": receipt.workspace_before,
            "workspace_after": receipt.workspace_after,
            "changes": [[change.path, change.before, change.after] for change in receipt.changes],
            # Evidence of before there was a choice has no such key, and keeps its digest when it is written again.
            **({"isolation": receipt.isolation} if receipt.isolation else {}),
        }
        for code, receipt in zip(codes, evidence.receipts, strict=True)
    ]
    return canonical_json(
        {
            "kind": "evidence",
            "format": FORMAT,
            "calls": calls,
            "files": encode_files(evidence.files),
            "inputs_intact": evidence.inputs_intact,
            "end": evidence.end,
        }
    )


def _code(code: str) -> dict[str, str]:
    """A call's source; one that holds lone surrogates is no text and is kept as base64."""
    try:
        code.encode()
    except UnicodeEncodeError:
        return {"code_base64": base64.b64encode(code.encode(errors="surrogatepass")).decode()}
    return {"code": code}


def codes_from_body(body: Mapping[str, Any]) -> list[str]:
    """The sources of the calls of an evidence body, in the receipts' order."""
    return [
        call["code"] if "code" in call else base64.b64decode(call["code_base64"]).decode(errors="surrogatepass")
        for call in body["calls"]
    ]


def evidence_from_body(body: Mapping[str, Any]) -> Evidence:
    """The inverse of `evidence_body`, without durations. Raises ValueError on something else."""
    if body.get("kind") != "evidence" or body.get("format") != FORMAT:
        raise ValueError(f"not an evidence body of format {FORMAT}: kind {body.get('kind')!r}")
    receipts = tuple(
        Receipt(
            index=call["index"],
            engine=call["engine"],
            language=call["language"],
            code_digest=call["code_digest"],
            exit_code=call["exit_code"],
            end=call["end"],
            stdout=call["stdout"],
            stderr=call["stderr"],
            workspace_before=call["workspace_before"],
            workspace_after=call["workspace_after"],
            changes=tuple(FileChange(path=path, before=before, after=after) for path, before, after in call["changes"]),
            wall_s=0.0,
            isolation=call.get("isolation", ""),
        )
        for call in body["calls"]
    )
    return Evidence(
        receipts=receipts,
        files=decode_files(body["files"]),
        inputs_intact=body["inputs_intact"],
        end=cast(EpisodeEnd, body["end"]),
    )
