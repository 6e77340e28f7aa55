"""Checks receipts offline: chains, signatures and seals of rollouts, and that rewards cite what proves them.

Needs the log and nothing else: no artefact, no secret, no sandbox. What stands in the artefacts (code, outputs, files) is
bound by the digests that are checked here.
"""

from bat_events.codec import Fact
from bat_events.deciders.in_force import rubric_for
from bat_events.domain.receipts import chain_faults, chain_start
from bat_events.domain.rubric import VERSIONS, Call, execution_cap, proof_fault
from bat_events.events.bank import StateSynthesized
from bat_events.events.campaign import CampaignStarted
from bat_events.events.rollouts import IsolationBreached, RewardScored, RolloutCompleted
from bat_events.replay.findings import Findings, Side
from bat_events.replay.index import Index, Known
from bat_events.signing import verify

CHAINS = "receipts: chains, signatures and seals"
PROOFS = "rewards against the receipts that prove them"
BREACHES = "breaches against receipts"


def check_receipts(index: Index, findings: Findings) -> dict[str, int]:
    """Check every rollout that carries receipts, and its reward; returns public key -> rollouts signed with it."""
    workspaces = {
        event.state: event.workspace_digest
        for fact in index.facts()
        if isinstance(event := fact.event, StateSynthesized)
    }
    rollouts = {event.rollout: event for fact in index.facts() if isinstance(event := fact.event, RolloutCompleted)}
    signers: dict[str, int] = {}
    for topic in ("rollout", "reward"):
        for entry in index.topic(topic):
            fact = entry.fact
            if fact is None or not entry.judged or not findings.wants(fact):
                continue
            event = fact.event
            if isinstance(event, RolloutCompleted) and event.receipts is not None:
                findings.check(CHAINS, fact, chain_sides(event, workspaces.get(event.state)))
                if event.signer is not None:
                    signers[event.signer] = signers.get(event.signer, 0) + 1
            elif isinstance(event, IsolationBreached):
                findings.check(BREACHES, fact, breach_sides(event, rollouts.get(event.rollout)))
            elif isinstance(event, RewardScored):
                rollout = index.fact(fact.envelope.cause)
                sides = proof_sides(event, rollout, index)
                if sides is not None:
                    findings.check(PROOFS, fact, sides)
    return dict(sorted(signers.items()))


def chain_sides(event: RolloutCompleted, workspace: str | None) -> list[Side]:
    """A rollout's chain from its state's workspace (None: not on this log) to its seal."""
    if workspace is None:
        return [("state", event.state, "a state that was synthesized on this log")]
    if event.receipts is None or event.signer is None or event.seal is None:
        return [("signer and seal", "missing", "as the receipts have them")]
    signer = event.signer
    start = chain_start(group=event.group, rollout=event.rollout, body=event.body, workspace=workspace)
    faults = chain_faults(
        event.receipts,
        start=start,
        seal=event.seal,
        evidence=event.evidence,
        end=event.end,
        verify=lambda digest, signature: verify(signer, digest, signature),
    )
    return list(faults)


def _calls(event: RolloutCompleted) -> list[Call]:
    return [Call(exit_code=r.exit_code, end=r.end, changed=r.changed > 0) for r in event.receipts or ()]


def proof_sides(event: RewardScored, rollout: Fact | None, index: Known) -> list[Side] | None:
    """A reward's cap and proofs; None for a rollout from before receipts were on the log, and under a rubric that is not here."""
    if rollout is None or not isinstance(rollout.event, RolloutCompleted) or rollout.event.receipts is None:
        return None
    started = index.started.event
    assert isinstance(started, CampaignStarted)
    version, pinned = event.rubric_version, rubric_for(started, index.forks, event.round)
    if pinned not in VERSIONS:
        return None
    if version != pinned:
        return [("rubric_version", version, pinned)]
    calls = _calls(rollout.event)
    sides: list[Side] = [
        ("cap", event.cap, 0.0 if rollout.event.end == "breach" else execution_cap(version, calls)),
    ]
    for item in event.items:
        fault = proof_fault(version, score=item.score, proof=item.proof, calls=calls)
        if fault is not None:
            sides.append((f"items.{item.item}.proof", fault, "the receipt that proves it"))
    return sides


def breach_sides(event: IsolationBreached, rollout: RolloutCompleted | None) -> list[Side]:
    """The breach that the event names is the rollout's own."""
    if rollout is None:
        return [("rollout", event.rollout, "a rollout on this log")]
    found = [receipt.ordinal for receipt in rollout.receipts or () if receipt.end == "breach"]
    number = found.index(event.receipt) + 1 if event.receipt in found else None
    return [("breach", event.breach, number), ("ended", event.ended, rollout.end == "breach" and number == len(found))]
