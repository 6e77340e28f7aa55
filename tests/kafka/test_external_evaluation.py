"""On the real Kafka, a request is answered through the command contract by the evaluator service itself."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bat_events.artifacts import ArtifactStore
from bat_events.codec import Codec, Fact
from bat_events.deciders.interface import Draft
from bat_events.domain.vocabulary import Track
from bat_events.events.boundary import EvaluationReported
from bat_events.events.campaign import CampaignStarted
from bat_events.events.crossing import BOUNDARY_HEADERS
from bat_events.events.heldout import EvaluationCellFailed, EvaluationCellScored
from bat_events.events.ids import ROOT_CAUSE
from bat_events.events.plan import CampaignPlan, EvaluationPlan
from bat_events.events.rounds import EvaluationRequested
from bat_events.log.acls import apply_access
from bat_events.log.admin import apply_topics
from bat_events.log.cluster import Address
from bat_events.log.interface import Record
from bat_events.log.kafka import KafkaReader, KafkaWriter
from bat_events.log.local_kafka import LocalKafka
from bat_events.log.topics import TOPICS
from bat_events.service.emit import outgoing
from bat_events.settings import load_settings

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

TRACKS = (Track.SEGMENTATION, Track.VQA, Track.REPORT)
REPEATS = 3
PLAN = CampaignPlan(tracks=TRACKS, engine="scripted", trainer="scripted", evaluation=EvaluationPlan(repeats=REPEATS))
CAMPAIGN = "outside"

# Scores by track and repeat; segmentation lost one cell, so its mean is over two and weighs as much as the others'.
SCORES = {"segmentation": [1.0, None, 0.5], "vqa": [0.25, 0.5, 0.0], "report": [0.0, 0.0, 0.75]}
FAILURES = {"segmentation": ["S1:E5"], "vqa": ["S3:E4", "S3:E8"], "report": []}

HARNESS = f"""
import json, sys
checkpoint, request, output = sys.argv[1:]
asked = json.load(open(request))
if asked["temperature"] == 0.0:
    sys.exit("this harness cannot sample greedily")
scores, failures = {SCORES!r}, {FAILURES!r}
cells = []
for track in asked["tracks"]:
    for repeat in range(asked["repeats"]):
        score = scores[track][repeat]
        stages = dict.fromkeys(asked["reply"]["stages"], score)
        if track == "vqa":
            stages["S5"] = None
        cells.append(dict(track=track, task_id=track + "-lite", repeat=repeat, valid=score is not None, task_score=score,
                          stages=stages, failures=failures[track] if repeat == 0 else None))
json.dump(dict(schema=1, status="complete", request=asked["request"], checkpoint=asked["checkpoint"]["digest"],
               protocol=asked["protocol"], cells=cells), open(output, "w"))
"""


def read(bootstrap: Address, namespace: str, *topics: str) -> list[Record]:
    reader = KafkaReader(bootstrap=bootstrap, namespace=namespace, topics=topics)
    found: list[Record] = []
    while not reader.caught_up():
        found += reader.poll(500, 0.2)
    reader.close()
    return found


def facts(bootstrap: Address, namespace: str, *topics: str) -> list[Fact]:
    codec = Codec()
    return [codec.decode(record) for record in read(bootstrap, namespace, *topics)]


@contextmanager
def serving(environment: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bat_events.cli.main", "serve", "evaluator"], env=environment, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def until(condition: Callable[[], bool], what: str, timeout_s: float = 150.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.3)


def test_a_request_is_answered_from_outside_and_a_failing_harness_halts(
    kafka: LocalKafka, namespace: str, tmp_path: Path
) -> None:
    apply_access(kafka.login(), namespace, kafka.secrets, own=True)
    apply_topics(kafka.login(), namespace, partitions=2)
    settings = load_settings(home=tmp_path / "home")
    made = tmp_path / "made"
    made.mkdir()
    (made / "weights.json").write_text("{}")
    store = ArtifactStore(settings.artifact_root(), cache=tmp_path / "cache")
    checkpoint = store.put_folder(made)
    (made / "weights.json").write_text("[]")
    second = store.put_folder(made)
    script = tmp_path / "harness.py"
    script.write_text(HARNESS)
    environment = {
        **os.environ,
        "BAT_HOME": str(tmp_path / "home"),
        "BAT_NAMESPACE": namespace,
        "BAT_KAFKA_BOOTSTRAP": kafka.bootstrap,
        "BAT_KAFKA__SECURITY": "scram",
        "BAT_KAFKA__SECRETS": str(kafka.secrets),
        "BAT_EVALUATION__COMMAND": json.dumps([sys.executable, str(script), "{checkpoint}", "{request}", "{output}"]),
        "BAT_EVALUATION__ATTEMPTS": "2",
    }
    partitions = {spec.name: 2 if spec.parallel else 1 for spec in TOPICS}

    def publish(by: str, draft: Draft) -> str:
        record = outgoing(draft, source=f"bat/{by}", logic=f"{by}/1", time=datetime.now(UTC), partitions=partitions)
        KafkaWriter(bootstrap=kafka.login(by, namespace), namespace=namespace, name=by).publish([record])
        return draft.id

    def ask(number: int, weights: str, cause: str, temperature: float, *comparators: str) -> str:
        event = EvaluationRequested(
            round=number,
            checkpoint=weights,
            comparators=comparators,
            tracks=TRACKS,
            repeats=REPEATS,
            temperature=temperature,
            seed=7,
        )
        return publish(
            "planner",
            Draft(event=event, campaign=CAMPAIGN, cause=cause, ordinal=number, key=CAMPAIGN, round=number),
        )

    began = CampaignStarted(plan=PLAN, package_version="0", logic=(), benchmark_version=2)
    start = publish("campaign", Draft(event=began, campaign=CAMPAIGN, cause=ROOT_CAUSE, ordinal=0, key=CAMPAIGN))
    asked = ask(0, checkpoint, start, 0.7)
    with serving(environment):
        until(lambda: bool(read(kafka.login(), namespace, "boundary.report")), "a report comes out")

    (record,) = read(kafka.login(), namespace, "boundary.report")
    assert record.key == CAMPAIGN.encode()
    assert {name for name, _ in record.headers} == BOUNDARY_HEADERS
    fact = Codec().decode(record)
    report = fact.event
    assert isinstance(report, EvaluationReported)
    assert (fact.envelope.cause, report.checkpoint, report.cells, report.missing) == (asked, checkpoint, 8, 1)
    # Mean of track means: (0.75 + 0.25 + 0.25) / 3; the mean of the cells would be 0.375.
    assert report.task == report.overall == report.agentic == 0.4167
    assert {part.track: (part.task, part.cells) for part in report.tracks} == {
        Track.SEGMENTATION: (0.75, 2),
        Track.VQA: (0.25, 3),
        Track.REPORT: (0.25, 3),
    }
    assert {part.stage: (part.mean, part.cells) for part in report.stages} == {
        "S1": (0.4167, 8),
        "S2": (0.4167, 8),
        "S3": (0.4167, 8),
        "S4": (0.4167, 8),
        "S5": (0.5, 5),  # it does not apply to vqa, which is no zero
    }
    assert [(part.stage, part.code, part.cells) for part in report.failures or ()] == [
        ("S1", "E5", 1),
        ("S3", "E3", 1),
        ("S3", "E4", 1),
    ]
    cells = [fact.event for fact in facts(kafka.login(), namespace, "heldout.cell")]
    scored = [event for event in cells if isinstance(event, EvaluationCellScored)]
    (lost,) = [event for event in cells if isinstance(event, EvaluationCellFailed)]
    assert len(scored) == 8
    assert (lost.track, lost.task, lost.repeat, lost.reason) == (Track.SEGMENTATION, "segmentation-lite", 1, "invalid")

    failing = ask(1, second, start, 0.0, checkpoint)
    for _ in range(2):  # started again, it halts again and says nothing twice
        with serving(environment) as process:
            assert process.wait(150) == 1
            assert process.stderr is not None
            said = process.stderr.read().decode()
        assert "the outside harness measured nothing in 2 attempts, the last: exit" in said
        assert "greedily" not in said  # what the harness says stays in the held-out plane
    failed = [
        fact
        for fact in facts(kafka.login(), namespace, "heldout.cell")
        if fact.envelope.cause == failing and isinstance(fact.event, EvaluationCellFailed)
    ]
    assert len({fact.id for fact in failed}) == len(failed) == 9
    assert {fact.event.reason for fact in failed} == {"harness_exit"}  # type: ignore[attr-defined]
    assert len(read(kafka.login(), namespace, "boundary.report")) == 1

    # Mended and its folder removed, the same request is measured: it was not passed over.
    script.write_text(HARNESS.replace('asked["temperature"] == 0.0', "False"))
    import shutil

    shutil.rmtree(tmp_path / "home" / "heldout" / "external" / namespace / failing)
    with serving(environment):
        until(lambda: len(read(kafka.login(), namespace, "boundary.report")) == 2, "the second report comes out")
    (_, later) = facts(kafka.login(), namespace, "boundary.report")
    assert isinstance(later.event, EvaluationReported)
    (pairing,) = later.event.comparators
    assert (pairing.comparator, pairing.complete, pairing.overall.n, pairing.overall.mean) == (checkpoint, True, 8, 0.0)
