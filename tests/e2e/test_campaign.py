"""A tiny campaign on the real Kafka, through the command line: events, audit, replay, and the controls."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bat_events.audit import denied
from bat_events.consumers.evaluator import HELDOUT_KEY
from bat_events.consumers.leakage_gate import FINGERPRINT_KEY
from bat_events.events.rollouts import RewardScored, RolloutCompleted
from bat_events.events.rounds import CampaignFinished, GroupRequested, RoundPlanned
from bat_events.events.training import TrainingStepCompleted
from bat_events.log.local_kafka import LocalKafka
from bat_events.service.context import secret
from bat_events.signing import RECEIPT_KEY
from tests.e2e.commands import SEAL_TOPICS, Home, closed, finished, identities

pytestmark = [pytest.mark.kafka, pytest.mark.sandbox]

SCRIPTED = Path(__file__).parents[2] / "bat_events" / "campaigns" / "scripted.yaml"


class TinyHome(Home):
    """A home with what was seen while its services ran, and the home of the namespace that ran beside it."""

    neighbour: Home
    live: list[dict[str, Any]]
    workers: dict[int, int]


@pytest.fixture(scope="module")
def home(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> TinyHome:
    """A finished campaign of the scripted stand-ins: 2 rounds, 2 steps, 4 groups of 2."""
    home = TinyHome(tmp_path_factory.mktemp("home"), kafka=kafka, namespace="e2e-scripted")
    home.neighbour = Home(tmp_path_factory.mktemp("neighbour"), kafka=kafka, namespace="e2e-neighbour")
    for name in (HELDOUT_KEY, FINGERPRINT_KEY, RECEIPT_KEY):  # the same held-out instances and signer in both
        secret(home.path, name)
    shutil.copytree(home.path / "secrets", home.neighbour.path / "secrets")
    for one in (home, home.neighbour):
        assert "tiny" in one.run("campaign", "start", str(SCRIPTED), "--id", "tiny")
    # Two namespaces at once on one broker; in the first a second rollout worker shares the work.
    with home.serving(), home.serving("rollout"), home.neighbour.serving():
        home.wait(finished, "round")
        home.neighbour.wait(finished, "round")
        for one in (home, home.neighbour):
            one.wait(closed, *SEAL_TOPICS, timeout_s=60)
        home.workers = home.counts("rollout")
        home.wait(lambda _: bool(_finished_rows(home)), "round", timeout_s=60)
        home.live = home.ask("SELECT count(*) AS n FROM events WHERE type = 'RewardScored'")
    return home


def _finished_rows(home: TinyHome) -> list[dict[str, Any]]:
    return [r for r in home.ask("SELECT count(*) AS n FROM events WHERE type = 'CampaignFinished'") if r["n"]]


def test_every_transition_is_on_the_log_and_fits(home: TinyHome) -> None:
    facts = home.facts()
    count = Counter(type(fact.event).__name__ for fact in facts)
    assert len({fact.id for fact in facts}) == len(facts)
    assert count["CampaignStarted"] == count["CampaignFinished"] == count["ColdStartCompleted"] == 1
    assert count["CheckpointProduced"] == count["EvaluationRequested"] == count["EvaluationReported"] == 3
    assert count["CheckpointPromoted"] + count["CheckpointHeld"] == 3
    assert count["TargetStagePrescribed"] == count["RoundPlanned"] == count["RoundCompleted"] == 2
    assert count["TrainingStepCompleted"] == 4
    assert count["GroupRequested"] == 16
    assert count["RolloutCompleted"] == count["RewardScored"] == 32
    assert count["EvaluationCellScored"] == 3 * 2 * 4
    assert count["SynthesisRequested"] == count["StateSynthesized"] == count["LeakageVerdict"] == count["StateAdmitted"]
    assert {name for name in count if name.endswith(("Failed", "Withheld"))} == set()


def test_causes_lead_back_to_the_campaigns_start(home: TinyHome) -> None:
    facts = {fact.id: fact for fact in home.facts()}
    for fact in facts.values():
        seen, at = 0, fact
        while at.envelope.cause != "0" * 32:
            at, seen = facts[at.envelope.cause], seen + 1
            assert seen < 60
        assert type(at.event).__name__ == "CampaignStarted"


def test_a_step_is_four_groups_of_the_planned_pools(home: TinyHome) -> None:
    facts = home.facts("round", "group", "training")
    for plan in (fact.event for fact in facts if isinstance(fact.event, RoundPlanned)):
        for step in plan.steps:
            pools = Counter(slot.pool.value for slot in step.slots)
            assert pools == {"s_target": 2, "s_mix": 1, "e2e": 1}
            assert all(
                slot.focus.value == plan.target_stage.value for slot in step.slots if slot.pool.value == "s_target"
            )
    trained = [g.group for f in facts if isinstance(f.event, TrainingStepCompleted) for g in f.event.groups]
    asked = [fact.event.group for fact in facts if isinstance(fact.event, GroupRequested)]
    assert sorted(trained) == sorted(asked)


def test_advantages_are_rewards_less_their_groups_mean(home: TinyHome) -> None:
    rewards = {f.event.rollout: f.event.reward for f in home.facts("reward") if isinstance(f.event, RewardScored)}
    steps = [f.event for f in home.facts("training") if isinstance(f.event, TrainingStepCompleted)]
    for group in (group for step in steps for group in step.groups):
        mean = sum(rewards[row.rollout] for row in group.rollouts) / len(group.rollouts)
        for row in group.rollouts:
            assert row.reward == rewards[row.rollout]
            assert row.advantage == pytest.approx(rewards[row.rollout] - mean, abs=1e-12)


def test_rollouts_ran_isolated_and_carry_what_they_cost(home: TinyHome) -> None:
    for fact in home.facts("rollout"):
        assert isinstance(fact.event, RolloutCompleted)
        assert fact.event.sandbox == "bubblewrap (weaker)" or fact.event.sandbox.startswith("docker (")
        assert len(fact.event.response_mask) == fact.event.response_tokens
        assert len(fact.event.response_ids) == len(fact.event.logprobs) == 4 * fact.event.response_tokens
        cost = fact.envelope.cost
        assert cost is not None
        assert cost.wall_s and cost.sandbox_s and cost.tokens_out  # noqa: PT018
        assert len(cost.call_s or ()) == len(fact.event.receipts or ()) > 0


def test_the_audit_answers_while_the_loop_runs_and_after_it(home: TinyHome) -> None:
    assert home.live == [{"n": 32}]
    assert home.ask("SELECT count(*) AS n FROM events WHERE type = 'RewardScored'") == [{"n": 32}]
    assert home.ask("SELECT count(*) AS n FROM events WHERE topic LIKE 'heldout%'") == [{"n": 0}]
    rounds = json.loads(home.run("audit", "rounds", "--format", "json"))
    assert len(rounds["rows"]) == 3
    assert "promotions" in home.run("audit", "--list")
    assert "error" in _error(home, "audit", "--sql", "DELETE FROM events")
    assert home.run("audit", "groups_without_reward", "--format", "csv").strip().count("\n") == 0


def test_a_whole_campaign_is_denied_nothing(home: TinyHome, kafka: LocalKafka) -> None:
    namespaces = (home.namespace, home.neighbour.namespace)
    denials = denied.read(kafka.authorizer_log)
    assert denials.unread == 0
    assert [row for row in denials.rows if row.principal.startswith(namespaces)] == []


def test_no_boundary_check_finds_a_crossing(home: TinyHome) -> None:
    """The broker is not this home's own, so its denials are not observable from here: hence exit code 3, not 0."""
    report = json.loads(home.run("audit", "boundary", "--format", "json", code=3))
    conclusions = {check["name"]: check["conclusion"] for check in report["checks"]}
    assert {name for name, said in conclusions.items() if said != "clean"} == {"denied_accesses"}
    looked = {check["name"]: int(check["looked_at"].split()[0]) for check in report["checks"][:-1]}
    assert (looked["lineage"], looked["search_rollout"] >= 32 + 16, looked["search_checkpoint"] > 0) == (32, True, True)
    rows = json.loads(home.run("audit", "lineage_receipts", "--format", "json"))
    calls = [dict(zip(rows["columns"], row, strict=True)) for row in rows["rows"]]
    assert all(call["code_follows"] and call["evidence"] == "read" for call in calls if call["receipt"] is not None)


def test_the_heldout_plane_has_an_audit_file_of_its_own(home: TinyHome) -> None:
    ask = ("--format", "json", "--sql", "SELECT type, count(*) FROM events WHERE topic LIKE 'heldout%' GROUP BY type")
    found = sorted(json.loads(home.run("audit", "--heldout", *ask))["rows"])
    assert found == [["EvaluationCellScored", 24], ["HeldoutRoundSealed", 3]]
    assert json.loads(home.run("audit", *ask))["rows"] == []
    names = {path.name for path in (home.path / "heldout" / "logs" / home.namespace).iterdir()}
    assert {"evaluator.log", "evaluator.out", "heldout-auditor.log"} <= names
    assert not list((home.path / "logs" / home.namespace).glob("evaluator.*"))


def test_two_namespaces_at_once_come_to_the_same_events(home: TinyHome) -> None:
    neighbour = home.neighbour
    assert identities(neighbour.facts()) == identities(home.facts())


def test_two_rollout_workers_share_the_work(home: TinyHome) -> None:
    workers = home.workers
    assert len(workers) == 2
    assert sum(workers.values()) == 32
    assert min(workers.values()) > 0


def test_every_decision_is_reproduced(home: TinyHome) -> None:
    whole = home.run("replay", "--heldout")
    assert "decisions reproduced, and every score recomputed" in whole
    assert "but not every score recomputed" in home.run("replay", code=3)  # no right to held-out cells
    assert "only the log was asked" in home.run("replay", "tiny", "--round", "2", "--log-only")


def test_status_list_and_tail_tell_of_it(home: TinyHome) -> None:
    status = json.loads(home.run("campaign", "status", "--json"))
    assert [row["round"] for row in status["rounds"]] == [0, 1, 2]
    assert all(row["Overall"] is not None for row in status["rounds"])
    assert "finished" in home.run("campaign", "list")
    tail = home.run("log", "tail", "-n", "5", "--topic", "round", "--body").strip().splitlines()
    assert "CampaignFinished" in "".join(tail)


def test_the_campaign_is_sealed_exported_verified_proven_and_imported_elsewhere(
    home: TinyHome, kafka: LocalKafka, tmp_path: Path
) -> None:
    folder, heads = tmp_path / "tiny", str(home.path / "seals" / f"{home.namespace}.jsonl")
    assert "records" in home.run("log", "export", "tiny", "--to", str(folder), "--with-evidence", "--heldout")
    assert "NOT" not in home.run("log", "verify", "--archive", str(folder), "--heads", heads)
    assert "3 seals" in home.run("log", "verify", "tiny")
    both = (("--heldout",), ("--archive", str(folder)))
    told = [json.loads(home.run("replay", "tiny", *words, "--json")) for words in both]
    assert [(result["exit_code"], result["not_recomputed"]) for result in told] == [(0, []), (0, [])]
    assert _without_names(told[0]) == _without_names(told[1])

    rollout = next(fact for fact in home.facts("rollout"))
    proof = tmp_path / "proof.json"
    proof.write_text(home.run("log", "prove", rollout.id, "--archive", str(folder)))
    assert f"event {rollout.id} stood at rollout" in home.run("log", "prove", "--check", str(proof), "--heads", heads)
    proof.write_text(proof.read_text().replace('"ordinal": ', '"ordinal": 1'))
    assert "does not hold" in home.run("log", "prove", "--check", str(proof), "--heads", heads, code=1)

    elsewhere = Home(tmp_path / "home", kafka=kafka, namespace="e2e-imported")
    assert "artefacts written" in elsewhere.run("log", "import", str(folder))
    assert "every score recomputed" in elsewhere.run("replay", "tiny", "--heldout")
    evidence = rollout.event.evidence  # type: ignore[attr-defined]
    stores = [one.path / "artifacts" / evidence[:2] / evidence for one in (home, elsewhere)]
    assert stores[0].read_bytes() == stores[1].read_bytes()
    artefact = folder / "artifacts" / evidence[:2] / evidence
    artefact.write_bytes(artefact.read_bytes() + b" ")
    assert "the artefact was changed" in home.run("log", "verify", "--archive", str(folder), code=1)


def test_a_second_campaign_can_follow_be_paused_and_cancelled(home: TinyHome) -> None:
    home.run("campaign", "start", str(SCRIPTED), "--id", "second")
    assert "is open" in _error(home, "campaign", "start", str(SCRIPTED), "--id", "third")
    assert "paused" in home.run("campaign", "pause", "second")
    assert "paused" in home.run("campaign", "list")
    home.run("campaign", "resume", "second")
    home.run("campaign", "cancel", "second")
    with home.serving("planner"):
        facts = home.wait(lambda found: len(_ends(found)) == 2, "round", timeout_s=60)
    assert [event.outcome for event in _ends(facts)] == ["completed", "cancelled"]
    assert home.run("campaign", "list").count("cancelled") == 1


def _ends(facts: Any) -> list[CampaignFinished]:
    return [fact.event for fact in facts if isinstance(fact.event, CampaignFinished)]


def _error(home: Home, *words: str) -> str:
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "bat_events.cli.main", *words], env=home.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    return done.stderr


def _without_names(result: dict[str, Any]) -> dict[str, Any]:
    """A replay's result but for where it was read and which heads were there: only the archive was given none."""
    planes = [{**plane, "heads_checked": None} for plane in result["seals"]["planes"]]
    return {**result, "source": "", "seals": {"planes": planes, "findings": result["seals"]["findings"]}}
