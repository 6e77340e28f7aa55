"""The cold-start corpus is scanned row by row, by the checks that practice states go through."""

from pathlib import Path
from typing import Any

import pytest
from fake_runtime import FakeLogContext

from bat_events.benchmark.registry import benchmark
from bat_events.consumers.corpus_gate import CorpusGate
from bat_events.consumers.evaluator import heldout_tasks
from bat_events.consumers.fingerprinter import Fingerprinter
from bat_events.consumers.fingerprints import content_digest
from bat_events.domain.leakage import CHECKS
from bat_events.domain.vocabulary import Track
from bat_events.events.corpus import CorpusBuilt, CorpusScanned
from bat_events.events.plan import ColdStartPlan, EvaluationPlan
from bat_events.service.runtime import Retryable
from bat_events.training.corpus import build_corpus, corpus_body, corpus_digest, corpus_from_body
from tests.support.campaigns import CAMPAIGN, PLAN, name, started, told
from tests.support.samples import fact as fact_of

SMALL = PLAN.model_copy(
    update={"evaluation": EvaluationPlan(repeats=2), "cold_start": ColdStartPlan(demonstrations=24)}
)


@pytest.fixture(scope="module")
def corpus() -> dict[str, Any]:
    return corpus_body(build_corpus(benchmark("mini"), SMALL, lambda _: None))


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> FakeLogContext:
    begun = started(SMALL)
    made = FakeLogContext.on(tmp_path_factory.mktemp("home"), begun)
    made.facts += [fact_of(draft.event, campaign=CAMPAIGN) for draft in Fingerprinter(made).handle(begun)]
    return made


def scan(context: FakeLogContext, rows: list[dict[str, Any]]) -> CorpusScanned:
    body = context.store.put_json({"kind": "corpus", "rows": rows})
    (draft,) = CorpusGate(context).handle(told(CorpusBuilt, corpus=name("corpus"), body=body, rows=len(rows)))
    assert isinstance(draft.event, CorpusScanned)
    assert draft.event.body == body
    return draft.event


def test_the_built_in_corpus_is_cleared(context: FakeLogContext, corpus: dict[str, Any]) -> None:
    scanned = scan(context, corpus["rows"])
    assert [check.evidence for check in scanned.checks if not check.passed] == []
    assert (scanned.cleared, scanned.rows, scanned.rejected) == (True, 24, 0)
    assert [check.name for check in scanned.checks] == list(CHECKS)


def test_one_leaking_row_refuses_the_corpus_and_is_named(context: FakeLogContext, corpus: dict[str, Any]) -> None:
    image = next(
        iter(c for p, c in heldout_tasks(context, SMALL, Track.SEGMENTATION, 2)[0].inputs.items() if ".npy" in p)
    )
    rows = [dict(row) for row in corpus["rows"]]
    rows[7] = {**rows[7], "observations": [f"compare with\n{content_digest(image)}"]}
    rows[9] = {**rows[9], "final": "see /home/someone/x"}
    scanned = scan(context, rows)
    assert (scanned.cleared, scanned.rejected) == (False, 2)
    failed = {check.name: check.evidence for check in scanned.checks if not check.passed}
    assert set(failed) == {"exact_match", "absolute_paths"}
    assert "row 7: held-out text at $.observations[0]" in failed["exact_match"]
    assert "row 9" in failed["absolute_paths"]


def test_an_empty_corpus_is_not_cleared(context: FakeLogContext) -> None:
    assert not scan(context, []).cleared


def test_without_fingerprints_nothing_is_said_about_a_corpus(tmp_path: Path) -> None:
    context = FakeLogContext.on(tmp_path, started(SMALL))
    context.stop.set()
    with pytest.raises(Retryable, match="fingerprints"):
        scan(context, [])


def test_a_corpus_survives_its_artefact(corpus: dict[str, Any]) -> None:
    rows = build_corpus(benchmark("mini"), SMALL, lambda _: None)
    assert corpus_digest(corpus_from_body(corpus)) == corpus_digest(rows)
    with pytest.raises(ValueError, match="not a corpus"):
        corpus_from_body({"kind": "state"})
