"""Runs several rollouts side by side, of one task or of many.

Turn by turn: sample, run the tool calls in sandboxes, show the observations. Used by rollout workers and by the
evaluator alike, so practice and evaluation cannot differ. A sandbox fault takes one rollout out and leaves the others;
what the policy caused is an end of its rollout.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from bat_events.benchmark.interface import EpisodeEnd, Evidence, Task
from bat_events.domain.rubric import MAX_BREACHES
from bat_events.events.plan import EpisodeLimits
from bat_events.policy.actor import Actor, Turn
from bat_events.policy.interface import ExecuteCode, FinalAnswer
from bat_events.sandbox.interface import Limits, Receipt, Sandbox, SandboxFault, SandboxPool, SandboxUnavailable
from bat_events.sandbox.observation import render_observation


@dataclass(frozen=True, kw_only=True)
class Episode:
    """One finished rollout. `response_*` have one length; the mask is 1 where the policy sampled the token."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    response_mask: Sequence[int]
    logprobs: Sequence[float]
    turns: int
    valid_actions: int
    codes: Sequence[str]
    evidence: Evidence
    sandbox_s: float


@dataclass(frozen=True, kw_only=True)
class EpisodeFault:
    """A rollout that the infrastructure broke: missing, not zero."""

    reason: str
    detail: str


@dataclass
class _Row:
    task: Task
    name: str = ""
    sandbox: Sandbox | None = None
    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    turns: int = 0
    valid: int = 0
    breaches: int = 0
    end: EpisodeEnd | None = None
    fault: EpisodeFault | None = None

    @property
    def active(self) -> bool:
        return self.end is None and self.fault is None


def run_episodes(
    *,
    tasks: Sequence[Task],
    actor: Actor,
    pool: SandboxPool,
    limits: EpisodeLimits,
    temperature: float,
    seed: int,
    parallel: int = 2,
    names: Sequence[str] = (),
) -> list[Episode | EpisodeFault]:
    """One rollout of each task (a group is K times the same). `names` are the rollouts', for people who look at an engine.

    Raises SandboxUnavailable where nothing can be isolated: nothing is ever run bare.
    """
    cast = actor.begin(tasks, temperature=temperature, seed=seed)
    rows = [_Row(task, name) for task, name in zip(tasks, names or [""] * len(tasks), strict=True)]
    with ExitStack() as stack, ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="sandbox") as threads:
        list(threads.map(lambda row: _open(row, pool, limits, stack), rows))
        while active := [number for number, row in enumerate(rows) if row.active]:
            room = min(limits.max_response_tokens - len(rows[number].ids) for number in active)
            contexts = [[*cast.prompts[number], *rows[number].ids] for number in active]
            turns = cast.act(active, contexts, min(limits.max_turn_tokens, max(room, 1)))
            calls = []
            for number, turn in zip(active, turns, strict=True):
                row = rows[number]
                _record(row, turn)
                if isinstance(turn.action, ExecuteCode):
                    calls.append((number, turn.action))
            list(threads.map(lambda call: _execute(rows[call[0]], call[1]), calls))
            for number, _ in calls:
                row = rows[number]
                if not row.active:
                    continue
                shown = cast.observe(number, _observation(row.receipts[-1], limits))
                if row.turns >= min(row.task.max_turns, limits.max_turns):
                    row.end = "turn_limit"
                elif len(row.ids) + len(shown) >= limits.max_response_tokens:
                    row.end = "token_limit"
                else:
                    row.ids += shown
                    row.mask += [0] * len(shown)
                    row.logprobs += [0.0] * len(shown)
        return [_finish(row, prompt) for row, prompt in zip(rows, cast.prompts, strict=True)]


def _open(row: _Row, pool: SandboxPool, limits: EpisodeLimits, stack: ExitStack) -> None:
    try:
        sandbox = pool.open(inputs=row.task.inputs, files=row.task.files, limits=call_limits(limits), rollout=row.name)
        row.sandbox = stack.enter_context(sandbox)
    except SandboxUnavailable:
        raise
    except SandboxFault as error:
        row.fault = EpisodeFault(reason="sandbox", detail=str(error))


def _record(row: _Row, turn: Turn) -> None:
    row.turns += 1
    row.ids += turn.token_ids
    row.mask += [1] * len(turn.token_ids)
    row.logprobs += turn.logprobs
    if isinstance(turn.action, FinalAnswer):
        row.valid += 1
        row.end = "final"
    elif isinstance(turn.action, ExecuteCode):
        row.valid += 1
    else:
        row.end = "token_limit" if turn.finish == "length" else "malformed"


def _execute(row: _Row, action: ExecuteCode) -> None:
    assert row.sandbox is not None
    try:
        receipt = row.sandbox.execute(action.language, action.code)
    except SandboxFault as error:
        row.fault = EpisodeFault(reason="sandbox", detail=str(error))
        return
    row.receipts.append(receipt)
    row.codes.append(action.code)
    if receipt.end == "breach":
        row.breaches += 1
        if row.breaches >= MAX_BREACHES:
            row.end = "breach"


def _observation(receipt: Receipt, limits: EpisodeLimits) -> str:
    return render_observation(
        end=receipt.end,
        exit_code=receipt.exit_code,
        stdout=receipt.stdout,
        stderr=receipt.stderr,
        max_chars=limits.max_observation_chars,
    )


def _finish(row: _Row, prompt_ids: Sequence[int]) -> Episode | EpisodeFault:
    if row.fault is not None:
        return row.fault
    assert row.sandbox is not None
    assert row.end is not None
    try:
        files, intact = row.sandbox.files(), row.sandbox.inputs_intact()
    except SandboxFault as error:
        return EpisodeFault(reason="sandbox", detail=str(error))
    return Episode(
        prompt_ids=prompt_ids,
        response_ids=row.ids,
        response_mask=row.mask,
        logprobs=row.logprobs,
        turns=row.turns,
        valid_actions=row.valid,
        codes=row.codes,
        evidence=Evidence(receipts=tuple(row.receipts), files=files, inputs_intact=intact, end=row.end),
        sandbox_s=sum(receipt.wall_s for receipt in row.receipts),
    )


def call_limits(limits: EpisodeLimits) -> Limits:
    """The sandbox limits of one call."""
    return Limits(
        timeout_s=limits.call_timeout_s,
        cpu_s=limits.call_timeout_s,
        memory_bytes=limits.call_memory_mib << 20,
        processes=limits.call_processes,
        output_bytes=limits.call_output_bytes,
        disk_bytes=limits.workspace_mib << 20,
    )
