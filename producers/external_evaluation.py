"""Evaluations from an outside harness: the evaluator service measures by this where `evaluation.command` is set.

The harness is a command that gets a checkpoint, a request and a place for its reply (docs/external.md). It works in the
held-out plane's space, and so do its log and its reply. What it could not measure is failed, never zero: when a run ends
badly it is tried again, and after the last attempt every cell is on the log as failed, no report is made, and the service
halts until somebody has looked. What this module says to other planes holds no text of the harness's.
"""

import json
import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from bat_events.artifacts import ArtifactStore
from bat_events.benchmark.harness import GRACE_S, HarnessNotStarted, HarnessRun, Progress, fill, run_harness
from bat_events.codec import Fact
from bat_events.deciders.interface import Draft
from bat_events.domain.external import (
    REPLY_SCHEMA,
    REQUEST_SCHEMA,
    Asked,
    MeasuredCell,
    OutsideCell,
    ReplyRefused,
    parse_reply,
)
from bat_events.domain.external_reply import read_reply
from bat_events.domain.minimum import TooFewCells, check_report
from bat_events.domain.vocabulary import Stage
from bat_events.events.envelope import Cost
from bat_events.events.heldout import CellStage, EvaluationCellFailed, EvaluationCellScored
from bat_events.events.rounds import EvaluationRequested
from bat_events.producers.harness_attempts import (
    FAILED,
    MEASURED,
    REFUSED,
    STOPPED,
    Attempt,
    Attempts,
    Outcome,
    StillRunning,
    UnreadableReply,
    request_folder,
)
from bat_events.service.context import Context
from bat_events.service.runtime import GivenUp, Retryable

UNKNOWN_TASK = "unknown"  # the harness names its tasks; one that never answered has named none
END = "external"

CellEvent = EvaluationCellScored | EvaluationCellFailed


class OutsideHarness:
    """Measures a request's cells by the command of the settings. One request at a time."""

    def __init__(self, context: Context, *, grace_s: float = GRACE_S) -> None:
        command = context.settings.evaluation.command
        if command is None:
            raise ValueError("there is no outside harness without evaluation.command")
        self._context, self._command, self._grace_s = context, command, grace_s
        self._stop = threading.Event()
        self._idle = threading.Event()
        self._idle.set()

    def close(self) -> None:
        """Stop a run in flight, with everything it started; returns when that is done."""
        self._stop.set()
        self._idle.wait(self._grace_s + 5.0)

    def measure(self, fact: Fact) -> list[tuple[CellEvent, Cost]]:
        """A cell event per track and repeat, in that order.

        Raises Retryable after a run that may be tried again, GivenUp with the failed cells after the last one.
        """
        self._idle.clear()
        try:
            return _Evaluation(self._context, self._command, self._stop, self._grace_s, fact).measure()
        except StillRunning as error:
            raise Retryable(f"another evaluator is at this request: {error}") from error
        finally:
            self._idle.set()


class _Evaluation:
    """One request."""

    def __init__(
        self, context: Context, command: Sequence[str], stop: threading.Event, grace_s: float, fact: Fact
    ) -> None:
        self._context, self._command, self._stop, self._grace_s, self._fact = context, command, stop, grace_s, fact
        self._settings = context.settings.evaluation
        self._request: EvaluationRequested = fact.event  # type: ignore[assignment]
        self._attempts = Attempts(request_folder(context, fact))
        here = fact.envelope.campaign
        self._earlier = [f for f in context.read_all("heldout.cell") if f.envelope.campaign == here]
        self._asked = Asked(
            request=fact.id,
            checkpoint=self._request.checkpoint,
            protocol=self._settings.protocol,
            tracks=self._request.tracks,
            repeats=self._request.repeats,
            tasks={
                (f.event.track, f.event.repeat): f.event.task
                for f in reversed(self._earlier)
                if isinstance(f.event, EvaluationCellScored)
            },
        )

    def measure(self) -> list[tuple[CellEvent, Cost]]:
        self._same_protocol()
        self._attempts.reap()
        done = self._attempts.measured()  # measured, but its transaction did not come to be: not again
        if done is not None:
            attempt, outcome = done
            return self._events(attempt, outcome.wall_s)
        used = self._attempts.used()
        if used and (used[-1][1].outcome == REFUSED or len(used) >= self._settings.attempts):
            self._give_up(used[-1][0], used[-1][1], len(used))
        attempt, run = self._run()
        outcome = self._judge(attempt, run)
        attempt.end(outcome)
        if outcome.outcome == MEASURED:
            return self._events(attempt, outcome.wall_s)
        if outcome.outcome == STOPPED:
            raise Retryable("the outside evaluation was stopped; it begins anew")
        tried = len(used) + 1
        if outcome.outcome == REFUSED or tried >= self._settings.attempts:
            self._give_up(attempt, outcome, tried)
        raise Retryable(f"outside evaluation, attempt {tried} of {self._settings.attempts}: {outcome.reason}")

    def _same_protocol(self) -> None:
        """Cells of other measurements cannot be paired with: say so before hours are spent."""
        for checkpoint in self._request.comparators:
            how = self._measured_by(checkpoint)
            if how is not None and how != f"protocol {self._settings.protocol}":
                raise GivenUp(
                    f"checkpoint {checkpoint[:12]} of this campaign was measured by {how}, and evaluation.protocol is "
                    f"{self._settings.protocol}: go on as the campaign began, or begin another"
                )

    def _measured_by(self, checkpoint: str) -> str | None:
        for fact in self._earlier:
            if isinstance(fact.event, EvaluationCellScored) and fact.event.checkpoint == checkpoint:
                if fact.event.end != END:
                    return "the built-in episodes"
                return f"protocol {self._context.heldout_store.get_json(fact.event.evidence)['protocol']}"
        return None

    def _run(self) -> tuple[Attempt, HarnessRun]:
        request, settings = self._request, self._settings
        # A copy of its own: whatever the command does to it, the trainer's weights stay what they are.
        weights = self._attempts.folder / "checkpoint"
        store = ArtifactStore(self._context.settings.artifact_root(), cache=weights)
        try:
            checkpoint = store.get_folder(request.checkpoint)
            attempt = self._attempts.begin()
            attempt.request.write_text(json.dumps(self._request_data(checkpoint), indent=1))
            environment = {name: os.environ[name] for name in settings.environment if name in os.environ}
            try:
                run = run_harness(
                    fill(self._command, checkpoint=checkpoint, request=attempt.request, output=attempt.reply),
                    cwd=attempt.work,
                    environment={"HOME": str(attempt.work), "TMPDIR": str(attempt.work / "tmp"), **environment},
                    mark=attempt.mark,
                    log=attempt.log,
                    timeout_s=settings.timeout_s,
                    stop=self._stop,
                    tell=self._tell,
                    grace_s=self._grace_s,
                )
            except HarnessNotStarted as error:
                self._attempts.drop(attempt)
                raise GivenUp(f"evaluation.command: {error}") from error
            return attempt, run
        finally:
            shutil.rmtree(weights, ignore_errors=True)

    def _request_data(self, checkpoint: Path) -> dict[str, object]:
        request = self._request
        return {
            "schema": REQUEST_SCHEMA,
            "request": self._fact.id,
            "protocol": self._settings.protocol,
            "checkpoint": {"digest": request.checkpoint, "folder": str(checkpoint)},
            "tracks": [track.value for track in request.tracks],
            "repeats": request.repeats,
            "seed": request.seed,
            "temperature": request.temperature,
            "reply": {"schema": REPLY_SCHEMA, "stages": [stage.value for stage in Stage]},
        }

    def _tell(self, elapsed_s: float, progress: Progress | None) -> None:
        minutes, seconds = divmod(int(elapsed_s), 60)
        done = "" if progress is None else f", {progress[0]} of {progress[1]}"
        cells = len(self._request.tracks) * self._request.repeats
        self._context.status.say(
            f"round {self._request.round}: outside harness, {cells} cells, {minutes}:{seconds:02}{done}"
        )

    def _judge(self, attempt: Attempt, run: HarnessRun) -> Outcome:
        """What a run that is over comes to."""

        def ended(outcome: str, reason: str, detail: str) -> Outcome:
            return Outcome(outcome=outcome, reason=reason, detail=detail, wall_s=run.wall_s)

        if run.ended == "stopped":
            return ended(STOPPED, "stopped", "the evaluator was stopped")
        if run.ended == "timed_out":
            return ended(FAILED, "timeout", f"ended after {self._settings.timeout_s:g} s (evaluation.timeout_s)")
        if run.exit_code != 0:
            how = f"signal {-run.exit_code}" if run.exit_code < 0 else f"exit code {run.exit_code}"
            return ended(FAILED, "exit", f"the command ended with {how}")
        try:
            cells = self._read(attempt)
            check_report([c.cell for c in cells if isinstance(c, MeasuredCell)], self._request.tracks)
        except UnreadableReply as error:
            return ended(FAILED, error.reason, str(error))
        except ReplyRefused as error:
            return ended(REFUSED, "refused", str(error))
        except TooFewCells as error:
            return ended(FAILED, "too_few_cells", str(error))
        return ended(MEASURED, "", "")

    def _read(self, attempt: Attempt) -> list[OutsideCell]:
        return read_reply(parse_reply(attempt.read_reply()), self._asked)

    def _events(self, attempt: Attempt, wall_s: float) -> list[tuple[CellEvent, Cost]]:
        cells = self._read(attempt)
        evidence = self._context.heldout_store.put(attempt.read_reply())
        cost = Cost(wall_s=wall_s / len(cells))
        return [(self._event(cell, evidence), cost) for cell in cells]

    def _event(self, outside: OutsideCell, evidence: str) -> CellEvent:
        request = self._request
        if not isinstance(outside, MeasuredCell):
            return EvaluationCellFailed(
                checkpoint=request.checkpoint,
                round=request.round,
                track=outside.track,
                task=outside.task,
                repeat=outside.repeat,
                reason="invalid",
                detail=outside.detail,
            )
        cell = outside.cell
        return EvaluationCellScored(
            checkpoint=request.checkpoint,
            round=request.round,
            track=cell.track,
            task=cell.task,
            repeat=cell.repeat,
            task_score=cell.task_score,
            stages=tuple(
                CellStage(stage=stage, score=cell.stages[stage], reached=stage in cell.reached)
                for stage in Stage
                if stage in cell.stages
            ),
            failures=cell.failures,
            turns=outside.turns or 0,
            end=END,
            evidence=evidence,
        )

    def _give_up(self, attempt: Attempt, outcome: Outcome, tried: int) -> NoReturn:
        request = self._request
        known = {fact.id for fact in self._earlier}
        drafts = [draft for draft in self._failed(outcome) if draft.id not in known]
        raise GivenUp(
            f"round {request.round}: the outside harness measured nothing in {tried} attempt{'s' if tried > 1 else ''}, the "
            f"last: {outcome.reason}. Look into {attempt.folder} (outcome.json, log.txt, reply.json), mend the cause, remove "
            f"{self._attempts.folder} and start the evaluator again",
            drafts,
        )

    def _failed(self, outcome: Outcome) -> list[Draft]:
        """Every cell that was asked for, as failed. A scored one would be taken for part of a report that there is not."""
        request, campaign = self._request, self._fact.envelope.campaign
        return [
            Draft(
                event=EvaluationCellFailed(
                    checkpoint=request.checkpoint,
                    round=request.round,
                    track=track,
                    task=self._asked.tasks.get((track, repeat), UNKNOWN_TASK),
                    repeat=repeat,
                    reason=f"harness_{outcome.reason}",
                    detail=outcome.detail[:1000],
                ),
                campaign=campaign,
                cause=self._fact.id,
                ordinal=place,
                key=campaign,
                round=request.round,
            )
            for place, (track, repeat) in enumerate(self._asked.matrix)
        ]
