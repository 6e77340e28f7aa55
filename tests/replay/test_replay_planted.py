"""Every planted difference is found and named: the event, the field, both sides."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from bat_events.codec import Fact
from bat_events.domain.vocabulary import Stage
from bat_events.events.bank import LeakageVerdict, StateAdmitted
from bat_events.events.base import Event
from bat_events.events.boundary import EvaluationReported
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted, TargetStagePrescribed
from bat_events.events.rollouts import IsolationBreached, RewardScored, RolloutCompleted
from bat_events.events.rounds import CampaignFinished, EvaluationRequested, GroupRequested, RoundPlanned
from bat_events.events.training import TrainingStepCompleted
from bat_events.log.interface import Record
from bat_events.replay import ReplayResult, render, replay_campaign, to_json
from bat_events.replay.differences import Difference, Kind
from tests.replay.loop import decode
from tests.replay.memory import MemorySource, falsify, made_id, pick, swapped


def find(records: Sequence[Record], kind: type[Event]) -> tuple[int, Fact]:
    return pick(records, lambda fact: isinstance(fact.event, kind))


def replay(records: Sequence[Record]) -> ReplayResult:
    result = replay_campaign(MemorySource(records))
    assert result.exit_code == 1, render(result)
    return result


def of(result: ReplayResult, id_: str, kind: Kind) -> Difference:
    """The one difference of that kind in that event."""
    (found,) = [d for d in result.differences if (d.id, d.kind) == (id_, kind)]
    return found


def test_a_changed_target_stage_is_the_first_difference(records: list[Record]) -> None:
    number, fact = find(records, TargetStagePrescribed)
    was: TargetStagePrescribed = fact.event  # type: ignore[assignment]
    other = next(stage for stage in Stage if stage is not was.target_stage)
    first = replay(swapped(records, number, falsify(records[number], body={"target_stage": other}))).first
    assert first is not None
    assert (first.kind, first.id, first.field) == (Kind.CHANGED, fact.id, "target_stage")
    assert (first.recorded, first.recomputed) == (other.value, was.target_stage.value)
    assert (first.at, first.logic, first.replayed_by) == ("curriculum[0]@0", "teacher/1", "teacher/1")


def test_the_page_shows_both_sides_and_the_versions(records: list[Record]) -> None:
    number, _ = find(records, TargetStagePrescribed)
    result = replay(swapped(records, number, falsify(records[number], body={"reason": "because"})))
    page = render(result)
    for part in ("first difference", "recorded (teacher/1)", "recomputed (teacher/1)", "because", "curriculum[0]@0"):
        assert part in page
    assert '"exit_code":1' in to_json(result)


def test_a_changed_number_of_the_gate_is_found(records: list[Record]) -> None:
    number, fact = find(records, CheckpointHeld)
    result = replay(swapped(records, number, falsify(records[number], body={"best_overall": 0.999})))
    assert of(result, fact.id, Kind.CHANGED).field == "best_overall"


def test_a_held_candidate_recorded_as_promoted_is_shown_beside_what_should_stand(records: list[Record]) -> None:
    number, fact = find(records, CheckpointHeld)
    held: CheckpointHeld = fact.event  # type: ignore[assignment]
    forged = CheckpointPromoted(
        round=held.round,
        checkpoint=held.checkpoint,
        mode=held.mode,
        baseline=False,
        overall=held.overall,
        best_so_far=held.checkpoint,
        best_overall=held.overall,
        checks=(),
        reasons=(),
    )
    id_ = made_id(fact, forged)
    result = replay(swapped(records, number, falsify(records[number], event=forged, id=id_)))
    found = of(result, id_, Kind.CHANGED)
    assert found.field == "ce_type"
    assert found.recorded["type"] == "bat.CheckpointPromoted.v1"
    assert found.recomputed["type"] == "bat.CheckpointHeld.v1"


@pytest.mark.parametrize("kind", [RoundPlanned, GroupRequested, EvaluationRequested, CheckpointPromoted])
def test_a_removed_decision_is_missed(records: list[Record], kind: type[Event]) -> None:
    number, fact = find(records, kind)
    result = replay(swapped(records, number, None))
    assert any(d.id == fact.id and d.kind is Kind.MISSING for d in result.differences) or any(
        d.field == "bat_cause" and d.recorded == fact.id for d in result.differences
    )


def test_a_removed_admission_is_missed(records: list[Record]) -> None:
    number, fact = find(records, StateAdmitted)
    found = of(replay(swapped(records, number, None)), fact.id, Kind.MISSING)
    assert found.at is None
    assert found.recomputed["state"] == fact.event.state  # type: ignore[attr-defined]


def test_a_removed_end_is_missed_beside_what_was_decided_with_it(records: list[Record]) -> None:
    number, fact = find(records, CampaignFinished)
    found = of(replay(swapped(records, number, None)), fact.id, Kind.MISSING)
    assert found.type == "bat.CampaignFinished.v1"


def test_a_log_without_its_last_transaction_is_that_of_a_campaign_still_running(records: list[Record]) -> None:
    number, fact = find(records, CampaignFinished)
    _, before = pick([records[number - 1]], lambda _: True)
    assert before.envelope.cut == fact.envelope.cut
    result = replay_campaign(MemorySource([*records[: number - 1], *records[number + 1 :]]))
    assert (result.reproduced, result.outcome) == (True, None)
    assert [pending.id for pending in result.pending] == [before.id, fact.id]


def test_an_extra_decision_is_found(records: list[Record]) -> None:
    number, fact = pick(records[::-1], lambda f: isinstance(f.event, GroupRequested))
    number = len(records) - 1 - number
    ordinal = 999
    extra = falsify(records[number], id=made_id(fact, fact.event, ordinal=ordinal), ordinal=ordinal)
    place = max(i for i, r in enumerate(records) if (r.topic, r.partition) == (fact.topic, fact.partition))
    extra = Record(**{**extra.__dict__, "offset": records[place].offset + 2})
    result = replay([*records[: place + 1], extra, *records[place + 1 :]])
    (found,) = result.differences
    assert (found.kind, found.at) == (Kind.EXTRA, f"group[{fact.partition}]@{extra.offset}")


def test_a_changed_reward_is_found(records: list[Record]) -> None:
    number, fact = pick(records, lambda f: isinstance(f.event, RewardScored) and f.event.cap == 1.0)
    result = replay(swapped(records, number, falsify(records[number], body={"reward": 0.123})))
    found = of(result, fact.id, Kind.FACT)
    assert (found.field, found.recorded, found.recomputed) == ("reward", 0.123, fact.event.raw)  # type: ignore[attr-defined]
    assert any(d.type == "bat.TrainingStepCompleted.v1" for d in result.differences)


@pytest.mark.parametrize("name", ["raw", "items", "stages"])
def test_a_reward_whose_parts_do_not_add_up_is_found(records: list[Record], name: str) -> None:
    number, fact = pick(records, lambda f: isinstance(f.event, RewardScored) and 0 < f.event.raw < 0.9)
    reward: RewardScored = fact.event  # type: ignore[assignment]
    data = reward.model_dump()
    if name == "raw":
        body: dict[str, Any] = {"raw": 0.95, "reward": min(0.95, reward.cap)}
    elif name == "items":
        worst = next(i for i in data["items"] if i["applicable"] and i["score"] < 1)
        body = {"items": [{**i, "score": 1.0} if i is worst else i for i in data["items"]]}
    else:
        body = {"stages": [{**s, "score": 0.987} for s in data["stages"]]}
    result = replay(swapped(records, number, falsify(records[number], body=body)))
    assert of(result, fact.id, Kind.FACT).field == ("raw" if name == "raw" else "stages")


def test_a_changed_advantage_is_found(records: list[Record]) -> None:
    number, fact = find(records, TrainingStepCompleted)
    data = fact.event.model_dump()
    row = data["groups"][1]["rollouts"][0]
    row["advantage"] += 1e-9
    result = replay(swapped(records, number, falsify(records[number], body={"groups": data["groups"]})))
    assert of(result, fact.id, Kind.FACT).field == "groups[1].rollouts[0].advantage"


def test_a_rollout_left_out_of_training_is_found(records: list[Record]) -> None:
    number, fact = find(records, TrainingStepCompleted)
    data = fact.event.model_dump()
    data["groups"][0]["rollouts"] = data["groups"][0]["rollouts"][1:]
    result = replay(swapped(records, number, falsify(records[number], body={"groups": data["groups"]})))
    assert of(result, fact.id, Kind.FACT).field == "groups[0].rollouts"


def test_a_report_that_contradicts_itself_is_found(records: list[Record]) -> None:
    number, fact = pick(records, lambda f: isinstance(f.event, EvaluationReported) and bool(f.event.comparators))
    report: EvaluationReported = fact.event  # type: ignore[assignment]
    result = replay(swapped(records, number, falsify(records[number], body={"overall": report.overall - 0.001})))
    assert of(result, fact.id, Kind.FACT).field == "overall"
    data = report.model_dump()
    effect = data["comparators"][0]["overall"]
    for name in ("mean", "lower80", "upper80"):
        effect[name] += 0.01
    result = replay(swapped(records, number, falsify(records[number], body={"comparators": data["comparators"]})))
    assert of(result, fact.id, Kind.FACT).field.endswith("overall.mean")


@pytest.mark.parametrize(
    ("failures", "field"),
    [
        ([("S1", "E3", 1000)], "failures.S1:E3.cells"),
        ([("S2", "E1", 1), ("S1", "E3", 1)], "failures"),
        ([("S1", "E3", 1), ("S1", "E3", 1)], "failures"),
    ],
)
def test_failures_that_do_not_fit_the_report_are_found(
    records: list[Record], failures: list[tuple[str, str, int]], field: str
) -> None:
    number, fact = pick(records, lambda f: isinstance(f.event, EvaluationReported))
    counts = [{"stage": stage, "code": code, "cells": cells} for stage, code, cells in failures]
    result = replay(swapped(records, number, falsify(records[number], body={"failures": counts})))
    assert of(result, fact.id, Kind.FACT).field == field


def test_failures_that_were_not_recorded_are_no_difference(records: list[Record]) -> None:
    number, _ = pick(records, lambda f: isinstance(f.event, EvaluationReported))
    older = swapped(records, number, falsify(records[number], body={"failures": None}))
    assert replay_campaign(MemorySource(older)).reproduced


def test_a_cleared_verdict_with_a_failed_check_is_found(records: list[Record]) -> None:
    number, fact = pick(records, lambda f: isinstance(f.event, LeakageVerdict) and not f.event.cleared)
    result = replay(swapped(records, number, falsify(records[number], body={"cleared": True})))
    assert of(result, fact.id, Kind.FACT).field == "cleared"


def test_a_rollout_of_other_weights_than_asked_for_is_found(records: list[Record]) -> None:
    number, fact = find(records, RolloutCompleted)
    result = replay(swapped(records, number, falsify(records[number], body={"weights": "0" * 64})))
    assert of(result, fact.id, Kind.FACT).field == "weights"


def test_a_cut_before_the_inputs_of_a_decision_is_found(records: list[Record]) -> None:
    number, fact = find(records, CheckpointHeld)
    cut = {topic: dict(parts) for topic, parts in (fact.envelope.cut or {}).items()}
    _, before = find(records, CheckpointPromoted)
    cut["boundary.report"] = dict((before.envelope.cut or {})["boundary.report"])
    result = replay(swapped(records, number, falsify(records[number], cut=cut)))
    assert any(d.id == fact.id and "required only later" in d.message for d in result.differences)


def test_a_cut_beyond_the_log_is_found(records: list[Record]) -> None:
    number, fact = find(records, CheckpointPromoted)
    cut = {topic: dict(parts) for topic, parts in (fact.envelope.cut or {}).items()}
    cut["training"] = {0: 4711}
    found = of(replay(swapped(records, number, falsify(records[number], cut=cut))), fact.id, Kind.CUT)
    assert "training[0] is cut at 4711, but no record stands before that" in found.message


def test_a_cut_later_than_the_decision_was_due_is_found(records: list[Record]) -> None:
    number, fact = find(records, CheckpointPromoted)
    _, later = find(records, CheckpointHeld)
    result = replay(swapped(records, number, falsify(records[number], cut=later.envelope.cut)))
    assert any(d.id == fact.id and d.kind in (Kind.CUT, Kind.TIME) for d in result.differences)


def test_a_decision_without_a_cut_is_found(records: list[Record]) -> None:
    number, fact = find(records, RoundPlanned)
    result = replay(swapped(records, number, falsify(records[number], cut=None)))
    assert of(result, fact.id, Kind.CUT).message == "a decision without a cut"


def test_a_wrong_time_is_found(records: list[Record]) -> None:
    number, fact = find(records, GroupRequested)
    later = fact.envelope.time + timedelta(seconds=1)
    found = of(replay(swapped(records, number, falsify(records[number], time=later))), fact.id, Kind.TIME)
    assert found.field == "ce_time"
    assert found.recorded > found.recomputed


@pytest.mark.parametrize(
    ("fields", "kind", "name"),
    [
        ({"cause": "1" * 32}, Kind.ORIGIN, "ce_id"),
        ({"id": "1" * 32}, Kind.ORIGIN, "ce_id"),
        ({"subject": "nobody"}, Kind.CHANGED, "ce_subject"),
        ({"source": "bat/somebody"}, Kind.CHANGED, "ce_source"),
        ({"round": 9}, Kind.CHANGED, "bat_round"),
        ({"logic": "gate/1"}, Kind.ORIGIN, "bat_logic"),
    ],
)
def test_a_changed_envelope_is_found(records: list[Record], fields: dict[str, Any], kind: Kind, name: str) -> None:
    number, fact = find(records, RoundPlanned)
    result = replay(swapped(records, number, falsify(records[number], **fields)))
    assert of(result, fields.get("id", fact.id), kind).field == name


def test_a_decider_version_that_is_not_here_is_named(records: list[Record]) -> None:
    number, fact = find(records, CheckpointPromoted)
    result = replay(swapped(records, number, falsify(records[number], logic="gate/2")))
    assert result.unknown_logic == {"gate/2": 1}
    assert "no decider gate/2 here" in render(result)
    assert of(result, fact.id, Kind.ORIGIN).recomputed == "1"  # CampaignStarted pins gate/1


def test_a_log_of_newer_deciders_is_not_replayed_rather_than_wrong(records: list[Record]) -> None:
    from bat_events.events.campaign import CampaignStarted

    newer = list(records)
    for at, record in enumerate(records):
        _, fact = pick([record], lambda _: True)
        if isinstance(fact.event, CampaignStarted):
            logic = [{"name": part.name, "version": 9} for part in fact.event.logic]
            newer[at] = falsify(record, body={"logic": logic})
        elif fact.envelope.cut is not None and fact.envelope.logic != "trainer/1":
            newer[at] = falsify(record, logic=f"{fact.envelope.logic.partition('/')[0]}/9")
    result = replay_campaign(MemorySource(newer))
    assert (result.exit_code, result.differences, result.decisions) == (2, (), 0)
    assert set(result.unknown_logic) == {"bank/9", "gate/9", "planner/9", "teacher/9"}


def with_receipts(records: Sequence[Record]) -> list[tuple[int, RolloutCompleted, str]]:
    """(place, rollout, event id) of the rollouts whose second call worked."""
    found = []
    for number, record in enumerate(records):
        if record.topic == "rollout":
            _, fact = pick([record], lambda _: True)
            event = fact.event
            if not isinstance(event, RolloutCompleted) or event.end != "final" or len(event.receipts or ()) < 2:
                continue
            if event.receipts[1].exit_code == 0:  # type: ignore[index]
                found.append((number, event, fact.id))
    return found


ONE_RECEIPT: list[tuple[dict[str, Any], str]] = [
    ({"exit_code": 0}, "receipts[0].digest"),
    ({"code": "0" * 64}, "receipts[0].digest"),
    ({"stdout": "0" * 64}, "receipts[0].digest"),
    ({"isolation": "none at all"}, "receipts[0].digest"),
    ({"digest": "0" * 64}, "receipts[0].digest"),
    ({"signature": "0" * 128}, "receipts[0].signature"),
    ({"ordinal": 1}, "receipts[0].ordinal"),
    ({"exit_code": None}, "receipts[0].exit_code"),
    ({"changed": 0}, "receipts[0].changed"),
    ({"workspace_after": "0" * 64}, "receipts[0].digest"),
]
WHOLE_CHAIN: list[tuple[Callable[[list[Any], list[Any]], list[Any]], str]] = [
    (lambda own, _: own[:-1], "seal"),
    (lambda _own, _: [], "seal"),
    (lambda own, _: own[1:], "receipts[0].ordinal"),
    (lambda own, _: own[::-1], "receipts[0].ordinal"),
    (lambda _own, other: other, "receipts[0].digest"),
]
ROLLOUT: list[tuple[dict[str, Any], str]] = [
    ({"evidence": "0" * 64}, "seal"),
    ({"end": "breach"}, "seal"),
    ({"seal": "0" * 128}, "seal"),
    ({"signer": "0" * 64}, "receipts[0].signature"),
    ({"signer": None}, "signer and seal"),
]


def test_receipts_that_were_changed_cut_off_moved_or_not_sealed_are_found(records: list[Record]) -> None:
    """One change in each of twenty rollouts, found in one replay."""
    places = with_receipts(records)
    bodies: list[tuple[dict[str, Any], str]] = []
    for (_, rollout, _), (change, field) in zip(places, ONE_RECEIPT, strict=False):
        own = list(rollout.model_dump()["receipts"])
        bodies.append(({"receipts": [{**own[0], **change}, *own[1:]]}, field))
    for cut, field in WHOLE_CHAIN:
        own, other = (list(rollout.model_dump()["receipts"]) for _, rollout, _ in (places[len(bodies)], places[-1]))
        bodies.append(({"receipts": cut(own, other)}, field))
    bodies += ROLLOUT
    planted = list(records)
    for (number, _, _), (body, _) in zip(places, bodies, strict=False):
        planted[number] = falsify(records[number], body=body)
    result = replay(planted)
    assert len(places) > len(bodies) == 20
    for (_, _, id_), (body, field) in zip(places, bodies, strict=False):
        fields = {d.field for d in result.differences if d.id == id_}
        assert field in fields, (body, fields)


def test_a_chain_made_anew_with_another_key_shows_another_signer(records: list[Record]) -> None:
    """What only the key's holder can tell apart: a whole chain signed by somebody else. Its public key says so."""
    from bat_events.domain.receipts import seal_digest
    from bat_events.signing import SigningKey
    from tests.replay.workers import KEY

    number, rollout, _ = with_receipts(records)[0]
    forger = SigningKey(b"f" * 32)
    assert rollout.receipts is not None
    last = rollout.receipts[-1].digest
    seal = forger.sign(seal_digest(last, calls=len(rollout.receipts), evidence=rollout.evidence, end=rollout.end))
    receipts = [{**r.model_dump(), "signature": forger.sign(r.digest)} for r in rollout.receipts]
    body = {"receipts": receipts, "signer": forger.public, "seal": seal}
    result = replay_campaign(MemorySource(swapped(records, number, falsify(records[number], body=body))))
    assert result.reproduced
    assert result.signers[forger.public] == 1
    assert set(result.signers) == {forger.public, KEY.public}
    assert f"receipts of 1 rollouts are signed by {forger.public}" in render(result)


def test_rewards_and_breaches_that_no_receipt_proves_are_found(records: list[Record]) -> None:
    """Receipt 0 of the synthetic campaign is a failing call."""
    paid, idle, breached = [], [], []
    for number, record in enumerate(records):
        _, fact = pick([record], lambda _: True)
        event = fact.event
        if isinstance(event, RewardScored) and any(i.score > 0 and i.applicable for i in event.items):
            paid.append((number, fact))
        elif isinstance(event, RewardScored) and event.cap == 0.0:
            idle.append((number, fact))
        elif isinstance(event, IsolationBreached) and not event.ended:
            breached.append((number, fact))
    planted, expected = list(records), {}
    words = {None: "scores without a proof", 0: "cites receipt 0, which proves nothing", 99: "cites receipt 99 of"}
    for proof, (number, fact) in zip(words, paid, strict=False):
        items = fact.event.model_dump()["items"]
        wanted = next(item for item in items if item["score"] > 0 and item["applicable"])
        items = [{**item, "proof": proof} if item is wanted else item for item in items]
        planted[number] = falsify(records[number], body={"items": items})
        expected[fact.id] = (f"items.{wanted['item']}.proof", words[proof])
    for (body, field), (number, fact) in zip(
        [({"cap": 1.0}, "cap"), ({"rubric_version": 1}, "rubric_version")], idle, strict=False
    ):
        planted[number] = falsify(records[number], body=body)
        expected[fact.id] = (field, "1")
    for (body, field), (number, fact) in zip(
        [({"receipt": 0}, "breach"), ({"ended": True}, "ended")], breached, strict=False
    ):
        planted[number] = falsify(records[number], body=body)
        expected[fact.id] = (field, "")
    assert len(expected) == 7
    result = replay(planted)
    found = {d.id: (d.field, str(d.recorded)) for d in result.differences if d.id in expected}
    assert found.keys() == expected.keys()
    for id_, (field, word) in expected.items():
        assert found[id_][0] == field
        assert found[id_][1].startswith(word)


def test_a_second_breach_earns_nothing_and_a_first_one_costs_only_its_call(records: list[Record]) -> None:
    by_cause = {f.envelope.cause: f.event for f in decode(records) if isinstance(f.event, RewardScored)}
    ends = {
        (f.event.end, sum(r.end == "breach" for r in f.event.receipts or ())): by_cause[f.id].cap
        for f in decode(records)
        if isinstance(f.event, RolloutCompleted)
        and f.id in by_cause
        and any(r.exit_code == 0 for r in f.event.receipts or ())
    }
    assert ends == {("final", 0): 1.0, ("final", 1): 1.0, ("breach", 2): 0.0}


def test_an_item_that_scores_more_than_evidence_and_model_allow_is_found(records: list[Record]) -> None:
    number, fact = pick(
        records, lambda f: isinstance(f.event, RewardScored) and any(i.score > 0.25 for i in f.event.items)
    )
    item = next(i for i in fact.event.items if i.score > 0.25)  # type: ignore[attr-defined]
    said = {"item": item.item, "asked": 1.0, "cap": 0.25, "judgement": "0" * 64}
    changed = falsify(records[number], body={"texts": [said]})
    found = of(replay(swapped(records, number, changed)), fact.id, Kind.FACT)
    assert (found.field, found.recorded, found.recomputed) == (f"items.{item.item}.score", item.score, 0.25)
    bounded = falsify(records[number], body={"texts": [{**said, "cap": item.score}]})
    assert replay_campaign(MemorySource(swapped(records, number, bounded))).reproduced
