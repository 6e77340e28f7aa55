"""Practises: GroupRequested -> K x (RolloutCompleted | RolloutFailed), and IsolationBreached. A group is sampled as one batch.

Receipts are issued here, outside the sandboxes: chained per rollout and signed with a key that only this worker reads.
"""

import struct
from collections.abc import Sequence

from bat_events.benchmark.body import evidence_body, task_from_body, workspace_json
from bat_events.codec import Fact
from bat_events.deciders.interface import Draft
from bat_events.domain.canonical import digest
from bat_events.domain.grouping import rollout_id
from bat_events.domain.receipts import chain_start
from bat_events.domain.rubric import MAX_BREACHES
from bat_events.events.envelope import Cost
from bat_events.events.rollouts import IsolationBreached, RolloutCompleted, RolloutFailed
from bat_events.events.rounds import GroupRequested
from bat_events.policy.episode import Episode, EpisodeFault, run_episodes
from bat_events.sandbox.interface import SandboxUnavailable
from bat_events.sandbox.receipts import sign_receipts
from bat_events.service.context import Context
from bat_events.service.engines import Engines
from bat_events.service.measure import stopwatch
from bat_events.signing import RECEIPT_KEY, SigningKey


class Rollout:
    """See the module."""

    name = "rollout"
    version = 2  # 1 issued no receipts on the log
    topic = "group"
    outputs: tuple[str, ...] = ("rollout",)

    def __init__(self, context: Context, engines: Engines) -> None:
        self._context, self._engines = context, engines
        self._key = SigningKey(context.secret(RECEIPT_KEY))

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, GroupRequested)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """Sample the group, run its tool calls, store the evidence."""
        request: GroupRequested = fact.event  # type: ignore[assignment]
        campaign = fact.envelope.campaign
        plan = self._context.campaign(campaign).plan
        self._context.status.say(
            f"round {request.round} step {request.step} slot {request.slot}: {request.pool} {request.focus} {request.track}"
        )
        task = task_from_body(self._context.store.get_json(request.body))
        watch = stopwatch()
        actor, pool = self._engines.actor(plan, request.weights), self._engines.pool(plan)
        results: Sequence[Episode | EpisodeFault]
        try:
            results = run_episodes(
                tasks=[task] * request.size,
                actor=actor,
                pool=pool,
                limits=plan.limits,
                temperature=plan.sampling.temperature,
                seed=request.seed,
                parallel=self._context.settings.sandbox.parallel,
                names=[rollout_id(request.group, index) for index in range(request.size)],
            )
        except SandboxUnavailable:
            raise
        except (RuntimeError, MemoryError) as error:  # the engine broke: these rollouts are missing, not zero
            results = [EpisodeFault(reason="engine", detail=f"{type(error).__name__}: {error}")] * request.size
        share = watch() / request.size
        workspace = digest(workspace_json(task))
        drafts = []
        for index, result in enumerate(results):
            event = self._event(request, index, result, workspace)
            drafts.append(
                Draft(
                    event=event,
                    campaign=campaign,
                    cause=fact.id,
                    ordinal=index,
                    key=request.group,
                    round=request.round,
                    cost=_cost(result, share),
                )
            )
            if isinstance(event, RolloutCompleted):
                drafts += _breaches(event, campaign, fact.id)
        return drafts

    def _event(
        self, request: GroupRequested, index: int, result: Episode | EpisodeFault, workspace: str
    ) -> RolloutCompleted | RolloutFailed:
        rollout = rollout_id(request.group, index)
        if isinstance(result, EpisodeFault):
            return RolloutFailed(
                group=request.group,
                rollout=rollout,
                index=index,
                round=request.round,
                step=request.step,
                slot=request.slot,
                reason=result.reason,
                detail=result.detail,
            )
        isolations = {receipt.isolation or receipt.engine for receipt in result.evidence.receipts}
        evidence = self._context.store.put(evidence_body(result.evidence, result.codes))
        signed = sign_receipts(
            result.evidence.receipts,
            start=chain_start(group=request.group, rollout=rollout, body=request.body, workspace=workspace),
            evidence=evidence,
            end=result.evidence.end,
            key=self._key,
        )
        return RolloutCompleted(
            group=request.group,
            rollout=rollout,
            index=index,
            round=request.round,
            step=request.step,
            slot=request.slot,
            pool=request.pool,
            focus=request.focus,
            state=request.state,
            body=request.body,
            weights=request.weights,
            end=result.evidence.end,
            turns=result.turns,
            valid_actions=result.valid_actions,
            prompt_tokens=len(result.prompt_ids),
            response_tokens=len(result.response_ids),
            prompt_ids=pack_ids(result.prompt_ids),
            response_ids=pack_ids(result.response_ids),
            response_mask=bytes(result.response_mask),
            logprobs=struct.pack(f"<{len(result.logprobs)}f", *result.logprobs),
            evidence=evidence,
            sandbox=", ".join(sorted(isolations)) or "none",
            receipts=signed.receipts,
            signer=signed.signer,
            seal=signed.seal,
        )


def _breaches(event: RolloutCompleted, campaign: str, cause: str) -> list[Draft]:
    """An event for each breach of a rollout: the first is blocked, the second ends it."""
    found = [receipt.ordinal for receipt in event.receipts or () if receipt.end == "breach"]
    return [
        Draft(
            event=IsolationBreached(
                group=event.group,
                rollout=event.rollout,
                index=event.index,
                round=event.round,
                step=event.step,
                slot=event.slot,
                receipt=ordinal,
                breach=number,
                ended=number == MAX_BREACHES,
            ),
            campaign=campaign,
            cause=cause,
            ordinal=event.index * MAX_BREACHES + number - 1,
            key=event.group,
            round=event.round,
        )
        for number, ordinal in enumerate(found, start=1)
    ]


def pack_ids(ids: Sequence[int]) -> bytes:
    """Token ids as little-endian int32."""
    return struct.pack(f"<{len(ids)}i", *ids)


def _cost(result: Episode | EpisodeFault, wall_s: float) -> Cost:
    if isinstance(result, EpisodeFault):
        return Cost(wall_s=wall_s)
    return Cost(
        wall_s=wall_s,
        sandbox_s=result.sandbox_s,
        call_s=tuple(receipt.wall_s for receipt in result.evidence.receipts),
        tokens_in=len(result.prompt_ids),
        tokens_out=sum(result.response_mask),
    )
