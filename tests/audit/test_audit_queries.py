"""Given the small campaign on the log, the named queries say what happened in it."""

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from audit_log import CANDIDATE, START, Ask, Maker, campaign, digest, ident, records, report

from bat_events.audit.errors import QueryRefused
from bat_events.audit.file import AuditFile
from bat_events.audit.materialiser import Materialiser
from bat_events.audit.run import NamedQuery, list_queries, run_query
from bat_events.audit.schema import kept_selects
from bat_events.codec import Codec
from bat_events.domain.vocabulary import FailureCode
from bat_events.events.base import event_types
from bat_events.events.ids import ROOT_CAUSE
from bat_events.events.old.boundary import EvaluationReportedV1
from bat_events.events.rollouts import RewardScored
from bat_events.events.rounds import MissingReason, RoundBroken
from bat_events.log.interface import Record
from tests.replay.memory import falsify

CODEC = Codec()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditFile]:
    """A file without rows."""
    opened = AuditFile(tmp_path_factory.mktemp("empty") / "audit.duckdb", "audit")
    yield opened
    opened.close()


@pytest.mark.parametrize("query", list_queries(), ids=lambda query: query.name)
def test_every_named_query_runs_on_an_empty_and_on_a_filled_file(
    query: NamedQuery, empty: AuditFile, filled: AuditFile, ask: Ask
) -> None:
    assert ask(empty, query.name) == []
    rows = ask(filled, query.name)
    empty_here = ("duplicates", "undecodable", "anomalies", "boundary_faults", "dead_letters", "broken_rounds")
    assert bool(rows) == (query.name not in empty_here)


def test_every_named_query_says_what_may_be_concluded() -> None:
    for query in list_queries():
        assert query.title
        assert "Concludes:" in query.about or "Finds:" in query.about, query.name


def test_every_event_type_has_a_table_and_a_body_that_can_be_shown(filled: AuditFile, ask: Ask) -> None:
    tables = {row["table_name"] for row in ask(filled, "SELECT table_name FROM duckdb_tables()")}
    assert {"rollout_completed", "round_planned", "checkpoint_held"} <= tables
    assert len(tables) == len(list(event_types())) + 8 + len(kept_selects())
    counts = ask(filled, "SELECT (SELECT count(*) FROM events) AS events, (SELECT count(*) FROM bodies) AS bodies")
    assert counts == [{"events": len(campaign().out), "bodies": len(campaign().out)}]


def test_token_bytes_are_counted_not_copied(filled: AuditFile, ask: Ask) -> None:
    rows = ask(filled, "SELECT DISTINCT response_ids_bytes, logprobs_bytes, response_tokens FROM rollout_completed")
    assert rows == [{"response_ids_bytes": 16, "logprobs_bytes": 16, "response_tokens": 4}]


def test_rounds_show_target_decision_and_best_so_far(filled: AuditFile, ask: Ask) -> None:
    baseline, first = ask(filled, "rounds")
    assert (baseline["round"], baseline["decision"], baseline["target_stage"]) == (0, "promoted", None)
    assert (first["round"], first["decision"], first["target_stage"]) == (1, "held", "S3")
    assert (first["overall"], first["best_overall"], first["updates_done"]) == (0.45, 0.5, 1)
    assert first["why"] == "the lower bound is below zero"


def test_promotions_show_the_check_that_held_a_candidate(filled: AuditFile, ask: Ask) -> None:
    held = ask(filled, "promotions")[1]
    assert (held["check"], held["passed"], held["value"], held["threshold"]) == ("gain", False, -0.07, 0.0)


def test_bank_funnel_counts_states_and_the_checks_that_rejected_them(filled: AuditFile, ask: Ask) -> None:
    (cell,) = ask(filled, "bank_funnel")
    found = {name: cell[name] for name in ("requested", "synthesised", "failed", "cleared", "rejected", "admitted")}
    assert found == {"requested": 4, "synthesised": 3, "failed": 1, "cleared": 2, "rejected": 1, "admitted": 2}
    assert (cell["planned"], cell["trained"], cell["rejected_by"], cell["out_of_order"]) == (2, 2, "canaries 1", 0)
    checks = {row["check"]: row for row in ask(filled, "bank_checks")}
    assert checks["canaries"]["its_evidence"] == "canary in data/note.txt"
    assert checks["canaries"]["ran"] == checks["paths"]["ran"] == 3


def test_missing_rewards_leave_the_mean_of_a_state(filled: AuditFile, ask: Ask) -> None:
    first, second = ask(filled, "rewards_by_state", focus="S3")
    assert (first["state"], first["mean"], first["missing"], first["no_signal"]) == (ident(1), 0.5, 0, False)
    assert (second["state"], second["mean"], second["missing"], second["no_signal"]) == (ident(2), 0.5, 2, True)
    assert ask(filled, "rewards_by_state", focus="E2E") == []


def test_a_group_that_lost_its_rewards_is_shown_as_replaced(filled: AuditFile, ask: Ask) -> None:
    (group,) = ask(filled, "groups_without_reward")
    assert group["group_id"] == ident(11)
    assert (group["standing"], group["failed"], group["withheld"]) == ("replaced", 1, 1)
    assert group["reasons"] == "ArtifactError, sandbox_lost"


def test_judges_are_shown_with_what_their_word_changed(filled: AuditFile, ask: Ask) -> None:
    (row,) = ask(filled, "judges")
    assert (row["judge"], row["model"], row["rewards"], row["asked"]) == ("evidence+text-1", "tiny", 4, 4)
    assert (row["lowered"], row["lowered_by"]) == (4, 0.5)
    assert (row["tokens_in"], row["tokens_out"]) == (400, 80)


def test_a_shadows_missing_reward_leaves_the_agreement(filled: AuditFile, ask: Ask) -> None:
    (row,) = ask(filled, "judge_agreement")
    assert (row["first_model"], row["shadow_model"], row["pairs"], row["missing"]) == ("tiny", "second", 1, 1)
    assert (row["first_mean"], row["shadow_mean"], row["difference"], row["near"]) == (0.25, 0.5, 0.25, 0)
    assert row["correlation"] is None  # of one pair


def test_drift_compares_a_judge_with_its_own_first_round(file: AuditFile, materialiser: Materialiser, ask: Ask) -> None:
    later = []
    for out in campaign().out:
        if out.topic == "reward":
            fact = CODEC.decode(records([out])[0])
            if isinstance(fact.event, RewardScored):
                texts = [text.model_copy(update={"asked": 1.0}) for text in fact.event.texts]
                body = {**fact.event.model_dump(), "texts": texts, "round": 2}
                again = RewardScored.model_validate(body)
                later.append(falsify(records([out])[0], event=again, id=f"{len(later):032x}", round=2))
    materialiser.take(
        file.writer, [*records(campaign().out), *(replace(r, offset=1000 + n) for n, r in enumerate(later))]
    )
    rows = {(row["role"], row["round"]): row for row in ask(file, "judge_drift")}
    assert (rows[("first", 1)]["mean"], rows[("first", 1)]["since_first"]) == (0.5, 0.0)
    assert (rows[("first", 2)]["mean"], rows[("first", 2)]["since_first"]) == (1.0, 0.5)
    assert rows[("shadow", 1)]["asked"] == 1


def test_a_broken_round_is_shown_with_its_causes(file: AuditFile, materialiser: Materialiser, ask: Ask) -> None:
    log = campaign()
    planned = next(
        fact.id for fact in map(CODEC.decode, records(log.out)) if type(fact.event).__name__ == "RoundPlanned"
    )
    reasons = (
        MissingReason(kind="reward_withheld", reason="judge_unavailable", count=1),
        MissingReason(kind="rollout_failed", reason="sandbox", count=2),
    )
    broken = RoundBroken(round=1, step=0, rollouts=4, missing=3, max_missing=0.5, reasons=reasons)
    log.put(broken, planned, by="planner", round=1, decision=True)
    materialiser.take(file.writer, records(log.out))
    rows = ask(file, "broken_rounds")
    assert [(row["kind"], row["reason"], row["count"]) for row in rows] == [
        ("rollout_failed", "sandbox", 2),
        ("reward_withheld", "judge_unavailable", 1),
    ]
    assert (rows[0]["share"], rows[0]["max_missing"], rows[0]["updates"]) == (0.75, 0.5, 1)


def test_lineage_goes_from_a_checkpoint_to_states_verdicts_and_rewards(filled: AuditFile, ask: Ask) -> None:
    rows = ask(filled, "lineage", checkpoint=CANDIDATE)
    assert [(row["kind"], row["round"]) for row in rows] == [("cold start", 0)] + [("rollout", 1)] * 4
    assert all(row["complete"] and row["cleared"] and row["reward_event"] for row in rows[1:])
    assert {row["state"] for row in rows[1:]} == {ident(1), ident(2)}
    assert rows[0]["evidence"] == digest(0xC0)
    assert [row["kind"] for row in ask(filled, "lineage")] == ["cold start"]  # the best so far is the start


def test_a_training_row_without_its_reward_is_incomplete(file: AuditFile, materialiser: Materialiser, ask: Ask) -> None:
    out = [o for o in campaign().out if o.topic != "reward"]
    materialiser.take(file.writer, records(out))
    rows = ask(file, "lineage", checkpoint=CANDIDATE)
    assert {row["complete"] for row in rows[1:]} == {False}
    assert "trained without a reward event" in {row["finding"] for row in ask(file, "anomalies")}


def test_only_numbers_enums_hashes_and_open_ids_cross_the_boundary(filled: AuditFile, ask: Ask) -> None:
    rows = ask(filled, "boundary_crossings")
    assert {row["topic"] for row in rows} == {"boundary.report", "boundary.fingerprint"}
    verdicts = {row["verdict"] for row in rows if row["place"] == "body"}
    assert verdicts == {"number", "flag", "enum", "keyed hash", "digest of shared text", "id on an open topic"}
    assert ask(filled, "boundary_crossings", only_violations="yes") == []


def test_what_must_not_cross_is_found(file: AuditFile, materialiser: Materialiser, ask: Ask) -> None:
    log = campaign()
    log.put(report(2, digest(0xBAD), 0.123456789), ROOT_CAUSE, by="evaluator", round=2)
    found = records(log.out)
    smuggled = (*found[-1].headers, ("x-note", b"the gold answer is 3"))
    last = dataclasses.replace(found[-1], headers=smuggled, key=b"cell-17")
    raw = dataclasses.replace(last, offset=last.offset + 9, value=b"gold", headers=())
    materialiser.take(file.writer, [*found[:-1], last, raw])
    found_paths = {(row["place"], row["path"]) for row in ask(file, "boundary_crossings", only_violations="yes")}
    assert {
        ("header", "x-note"),
        ("key", "key"),
        ("body", "overall"),
        ("body", "checkpoint"),
        ("body", "*"),
    } <= found_paths


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-note", b"the gold answer is 3"),
        ("bat_cut", b'{"the gold answer is 3":{"0":1}}'),
        ("ce_source", b"bat/gold-answer-is-three"),
        ("bat_logic", b"gold-answer/3"),
        ("bat_cost", b'{"wall_s": 30.0}'),
        ("traceparent", b"gold"),
    ],
)
def test_a_planted_header_is_found_where_it_stands(
    name: str, value: bytes, file: AuditFile, materialiser: Materialiser, ask: Ask
) -> None:
    found = records(campaign().out)
    number = max(n for n, record in enumerate(found) if record.topic == "boundary.report")
    headers = dict(found[number].headers) | {name: value}
    found[number] = dataclasses.replace(found[number], headers=tuple(headers.items()))
    materialiser.take(file.writer, found)
    rows = ask(file, "boundary_crossings", only_violations="yes")
    assert [(row["place"], row["path"], row["offset"]) for row in rows] == [("header", name, found[number].offset)]
    assert rows[0]["verdict"].startswith("NOT PERMITTED: not ")


def test_failures_are_shown_with_their_share_of_the_cells(filled: AuditFile, ask: Ask) -> None:
    rows = [row for row in ask(filled, "failures") if row["round"] == 1]
    assert [(row["stage"], row["code"], row["cells"], row["of_cells"], row["share"]) for row in rows] == [
        ("S1", "E5", 3, 20, 0.15),
        ("S3", "E3", 10, 20, 0.5),
    ]
    assert {row["recorded"] for row in rows} == {True}
    assert {row["code"] for row in ask(filled, "failures", stage="S3")} == {"E3"}
    assert {row["meaning"] for row in ask(filled, "failures")} == {
        code.meaning for code in (FailureCode.E3, FailureCode.E5)
    }


def test_every_failure_code_has_its_meaning_in_the_query() -> None:
    (query,) = [query for query in list_queries() if query.name == "failures"]
    for code in FailureCode:
        assert f"WHEN '{code}' THEN '{code.meaning}'" in query.sql
        assert f"{code} {code.meaning}" in query.about


def test_a_report_of_an_earlier_version_has_unknown_failures_and_crossed_as_it_was_written(
    file: AuditFile, materialiser: Materialiser, ask: Ask
) -> None:
    found = records(campaign().out)
    older = [_as_version_1(record) if record.topic == "boundary.report" else record for record in found]
    materialiser.take(file.writer, older)
    versions = ask(file, "SELECT DISTINCT version FROM events WHERE type = 'EvaluationReported'")
    assert versions == [{"version": 1}]
    rows = ask(file, "failures")
    assert {(row["stage"], row["code"], row["cells"], row["share"]) for row in rows} == {(None, None, None, None)}
    assert {row["recorded"] for row in rows} == {False}
    crossed = [row for row in ask(file, "boundary_crossings") if row["type"] == "EvaluationReported"]
    assert not [row["path"] for row in crossed if row["path"].startswith("failures")]
    assert not [row for row in crossed if row["verdict"].startswith("NOT")]
    assert ask(file, "anomalies") == []


def _as_version_1(record: Record) -> Record:
    now = Codec().decode(record).event
    return falsify(record, event=EvaluationReportedV1.model_validate(now.model_dump(exclude={"failures"})))


def test_cost_sums_only_what_was_measured(filled: AuditFile, ask: Ask) -> None:
    rows = {(row["round"], row["type"]): row for row in ask(filled, "cost")}
    rollouts = rows[(1, "RolloutCompleted")]
    assert (rollouts["events"], rollouts["wall_s"], rollouts["sandbox_s"], rollouts["tokens_out"]) == (5, 7.5, 2.5, 15)
    assert rows[(1, "RoundPlanned")]["wall_s"] is None


def test_progress_names_every_service(filled: AuditFile, ask: Ask) -> None:
    rows = {row["source"]: row for row in ask(filled, "service_progress")}
    assert {"bat/judge", "bat/trainer", "bat/planner", "bat/evaluator"} <= set(rows)
    assert rows["bat/planner"]["age_s"] == 0.0
    assert rows["bat/planner"]["last_type"] == "CampaignFinished"


def test_a_decision_without_its_cause_is_an_anomaly(file: AuditFile, materialiser: Materialiser, ask: Ask) -> None:
    out = [o for o in campaign().out if o.topic != "curriculum"]
    materialiser.take(file.writer, records(out))
    assert [row["type"] for row in ask(file, "anomalies")] == ["RoundPlanned"]


def test_the_latest_campaign_is_shown_unless_another_is_named(
    file: AuditFile, materialiser: Materialiser, ask: Ask
) -> None:
    older, newer = campaign("c1"), Maker("c2")
    later = campaign("c2").out[0]
    newer.out = [later]
    materialiser.take(file.writer, records(older.out[3:] + older.out[:3] + newer.out))
    assert len(ask(file, "rounds", campaign="c1")) == 2
    assert {row["campaign"] for row in ask(file, "SELECT campaign FROM campaigns")} == {"c1", "c2"}


def test_an_unknown_query_or_parameter_is_refused_with_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(QueryRefused, match="choose of anomalies, bank_checks"):
        run_query(tmp_path, "audit", name="nothing")
    with pytest.raises(QueryRefused, match="it has: campaign, round"):
        run_query(tmp_path, "audit", name="training_steps", params={"step": "1"})
    with pytest.raises(QueryRefused, match="one of the two"):
        run_query(tmp_path, "audit")


def test_a_parameter_is_bound_and_never_becomes_sql(filled: AuditFile, ask: Ask) -> None:
    assert ask(filled, "rewards_by_state", track="x' OR '1'='1") == []
    assert START in {row["checkpoint"] for row in ask(filled, "rounds")}
