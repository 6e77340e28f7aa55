"""The rubric of S1 to S5, common to all tracks: from what a rollout's evidence shows to items, failures and stages reached.

A stage's product gives its fitness (instance.Scale); the checks around it count in proportion.
"""

from collections.abc import Sequence

from bat_events.benchmark.card import Choice, choices
from bat_events.benchmark.formats import DECLARED, REPAIRED
from bat_events.benchmark.hardened import HardenedInspection
from bat_events.benchmark.inspection import REPAIR_BAR, Inspection
from bat_events.benchmark.instance import Instance, restored_quality
from bat_events.benchmark.interface import ItemScore
from bat_events.domain.vocabulary import Focus, Outcome, Stage

FLOOR = 0.1  # of a check whose stage's product is unfit


def stage_items(inspection: Inspection, stage: Stage) -> list[ItemScore]:
    """The rubric items of one stage, without those of the outcome. Under rubric 2 each that scores cites its receipt."""
    fitness = inspection.fitness(stage)
    worth = max(FLOOR, fitness)
    hardened = isinstance(inspection, HardenedInspection)
    proof = inspection.pilot_first if stage is Stage.S3 and not hardened else inspection.made(stage)
    items = []
    for item, held in inspection.checks(stage).items():
        executed = hardened or item.endswith(("_made", "_first"))
        items.append(
            ItemScore(item=item, stage=stage, score=worth if held else 0.0, proof=proof if held and executed else None)
        )
    product, _, _ = items[0].item.rpartition("_")
    made = inspection.checks(stage)[items[0].item]
    items.append(
        ItemScore(
            item=f"{product}_choice",
            stage=stage,
            score=fitness if made else 0.0,
            proof=proof if made and hardened else None,
        )
    )
    return items


def outcome_items(inspection: Inspection, worth: float) -> list[ItemScore]:
    """The items that only a recovery or a failure state has; not applicable otherwise."""
    key = inspection.instance.key
    stage = key.focus.stages[0]
    recovery, failure = key.outcome is Outcome.RECOVERY, key.outcome is Outcome.FAILURE
    mended = recovery and inspection.mended(key.focus)
    declared = failure and inspection.declared_exactly
    return [
        ItemScore(
            item=REPAIRED[key.focus][0],
            stage=stage,
            score=worth if mended else 0.0,
            applicable=recovery,
            proof=inspection.mended_by(key.focus) if mended else None,
        ),
        ItemScore(
            item=DECLARED[0],
            stage=stage,
            score=worth if declared else 0.0,
            applicable=failure,
            proof=inspection.declared_by if declared else None,
        ),
    ]


def void(inspection: Inspection) -> str | None:
    """Why nothing of a rollout counts; None where it does."""
    if not inspection.evidence.inputs_intact:
        return "inputs were changed"
    if inspection.evidence.end == "breach":
        return "breach"
    return "artefacts of earlier stages are gone" if inspection.earlier_gone else None


def items(inspection: Inspection) -> tuple[ItemScore, ...]:
    """All items of a rollout; all 0 where `void` says why."""
    key = inspection.instance.key
    scored = [item for stage in key.focus.stages for item in stage_items(inspection, stage)]
    scored += outcome_items(inspection, max(FLOOR, inspection.fitness(key.focus.stages[0])))
    note = void(inspection)
    if note is None:
        return tuple(scored)
    return tuple(
        ItemScore(item=item.item, stage=item.stage, score=0.0, applicable=item.applicable, note=note) for item in scored
    )


def reached(inspection: Inspection, start: Sequence[str]) -> tuple[Stage, ...]:
    """The stages that some call could act in: what they need was there before it."""
    focus = inspection.instance.key.focus
    if focus is not Focus.E2E:
        return focus.stages
    needs = {
        Stage.S2: ("plan/plan.json",),
        Stage.S3: ("plan/plan.json", "setup/setup.json"),
        Stage.S4: ("plan/plan.json", "setup/setup.json", "validation/pilot.npy"),
        Stage.S5: ("outputs/run.json",),
    }
    there, seen = set(start), {Stage.S1}
    for receipt in inspection.evidence.receipts:
        seen |= {stage for stage, paths in needs.items() if there.issuperset(paths)}
        there |= {change.path for change in receipt.changes if change.after is not None}
        there -= {change.path for change in receipt.changes if change.after is None}
    return tuple(stage for stage in Stage if stage in seen)


def failures(inspection: Inspection, scored: Sequence[ItemScore]) -> tuple[str, ...]:
    """One closed category (facts: E1 to E5) for each stage that lost something, in the order of stages.

    E1 a resource that does not exist, E2 time or resources, E3 wrong work or none, E4 an exception, E5 a wrong format.
    """
    receipts = inspection.evidence.receipts
    cut_short = any(receipt.end != "exited" for receipt in receipts)
    imagined = ("ModuleNotFoundError", "AttributeError: module", "FileNotFoundError")
    hallucinated = any(name in receipt.stderr for receipt in receipts if receipt.exit_code for name in imagined)
    crashed = any(receipt.exit_code not in (0, None) for receipt in receipts)
    out = []
    for stage in inspection.instance.key.focus.stages:
        mine = [item for item in scored if item.stage is stage and item.applicable]
        if all(item.score >= REPAIR_BAR for item in mine):
            continue
        if inspection.made(stage) is None:
            code = "E2" if cut_short else "E1" if hallucinated else "E4" if crashed else "E3"
        else:
            code = "E3" if inspection.checks(stage)[mine[0].item] else "E5"
        out.append(f"{stage}:{code}")
    return tuple(out)


def best_choice(instance: Instance, stage: Stage) -> Choice:
    """The choice of S1 to S3 that measures best, all else right: what the protocol must agree with."""
    right = {s: instance.right(s) for s in Stage}

    def quality(candidate: Choice) -> float:
        chosen = {**right, stage: candidate}
        return restored_quality(instance, chosen[Stage.S1], chosen[Stage.S2], chosen[Stage.S3], stage is Stage.S3)

    return max(choices(stage), key=quality)
