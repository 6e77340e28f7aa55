"""A fork on the real Kafka, through the command line: another gate decides, and practice goes on from what it decided."""

import json
import shutil
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from bat_events.events.campaign import CampaignForked
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted
from bat_events.events.rounds import RoundPlanned
from bat_events.events.training import CheckpointProduced
from bat_events.log.acls import apply_access
from bat_events.log.admin import apply_topics
from bat_events.log.interface import CrashPoint
from bat_events.log.local_kafka import LocalKafka
from bat_events.producers.fork import fork_campaign
from bat_events.producers.import_log import Target
from tests.archive.logs import quiet
from tests.e2e.commands import SEAL_TOPICS, Home, closed, finished

pytestmark = [pytest.mark.kafka, pytest.mark.sandbox]

SCRIPTED = Path(__file__).parents[2] / "bat_events" / "campaigns" / "scripted.yaml"
WAIT_S = 900.0
"""Much more than it takes on a machine with nothing else to do."""


@pytest.fixture(scope="module")
def origin(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A finished campaign of two rounds, and its archive."""
    home = Home(tmp_path_factory.mktemp("home"), kafka=kafka, namespace="fork-origin")
    home.run("campaign", "start", str(SCRIPTED), "--id", "short")
    with home.serving():
        home.wait(finished, "round", timeout_s=WAIT_S)
        home.wait(closed, *SEAL_TOPICS, timeout_s=WAIT_S)
    home.run("log", "export", "short", "--to", str(home.path / "archive"), "--heldout")
    return home


def fork(home: Home, *words: str, code: int = 0) -> str:
    return home.run("fork", "short", "--at", "round:1", "--set", "gate.mode=reference", *words, code=code)


def test_another_gate_decides_for_real_and_the_fork_replays(origin: Home, kafka: LocalKafka) -> None:
    there = Home(origin.path, kafka=kafka, namespace="fork-reference")
    words = ("--name", "reference", "--namespace", there.namespace)
    with there.serving("planner", "gate"):  # were there before the copy, and wait for all of it
        said = fork(origin, *words)
        assert '"paired" -> "reference"' in said
    assert "nothing was written" in fork(origin, *words)
    with there.serving():
        there.wait(finished, "round", timeout_s=WAIT_S)
        there.wait(closed, *SEAL_TOPICS, timeout_s=WAIT_S)
        ended = "SELECT id FROM events WHERE type = 'CampaignFinished'"
        there.wait(lambda _: bool(there.ask(ended)), "round", timeout_s=WAIT_S)
        rows = there.ask(
            "SELECT maker, copied_from, count(*) AS n, bool_and(id_follows) AS ok FROM events GROUP BY ALL"
        )
    before, now = of_rounds(origin), of_rounds(there)
    assert [now[0], now[1].target_stage] == [before[0], before[1].target_stage]
    assert (before[1].mode, now[1].mode) == ("paired", "reference")
    answer = json.loads(origin.run("replay", "--what-if", "gate.mode=reference", "--json"))
    assert answer["rounds"][1]["would_decide"] == ("promoted" if now[1].promoted else "held")
    if (
        now[1].promoted == before[1].promoted
    ):  # whether it matters depends on the held-out instances, which are drawn anew
        assert (now[2].target_stage, now[2].weights) == (before[2].target_stage, before[2].weights)
    else:
        assert now[2].start_checkpoint != before[2].start_checkpoint
        assert now[2].weights != before[2].weights
    assert now[2].start_checkpoint == (now[1].weights if now[1].promoted else now[0].weights)
    assert {(row["maker"], row["copied_from"], row["ok"]) for row in rows} >= {
        ("short", "short", True),
        ("short~reference", None, True),
    }
    assert "as the log of campaign short: all" in there.run(
        "replay", "--heldout", "--origin", str(origin.path / "archive")
    )
    assert "as it was sealed" in there.run("log", "verify", "short~reference")
    there.run("log", "export", "short~reference", "--to", str(there.path / "fork-archive"), "--heldout")
    assert "reproduced" in there.run("replay", "--log-only", "--archive", str(there.path / "fork-archive"))


@dataclass
class Round:
    """What was decided in a round, and what came of it."""

    mode: str = ""
    promoted: bool = False
    target_stage: str = ""
    start_checkpoint: str = ""
    weights: str = ""


def of_rounds(home: Home) -> dict[int, Round]:
    """The rounds of a home's campaign."""
    found: dict[int, Round] = defaultdict(Round)
    for fact in home.facts("promotion", "round", "training"):
        event = fact.event
        if isinstance(event, CheckpointPromoted | CheckpointHeld):
            found[event.round].mode = event.mode
            found[event.round].promoted = isinstance(event, CheckpointPromoted)
        elif isinstance(event, RoundPlanned):
            found[event.round].target_stage = event.target_stage
            found[event.round].start_checkpoint = event.start_checkpoint
        elif isinstance(event, CheckpointProduced):
            found[event.round].weights = event.checkpoint
    return found


class Killed(BaseException):
    """What kill -9 leaves: nothing after it runs."""


def test_a_copy_that_was_killed_at_any_transaction_goes_on_and_nobody_acts_before(
    origin: Home, kafka: LocalKafka
) -> None:
    name = "fork-killed"
    apply_access(kafka.login(), name, kafka.secrets, own=True)
    apply_topics(kafka.login(), name, partitions=4, replication=1)
    target = Target(address=kafka.login(), namespace=name)
    there = Home(origin.path, kafka=kafka, namespace=name)

    def dying(after: int) -> CrashPoint:
        left = [after]

        def point(moment: str) -> None:
            left[0] -= moment == "committed"
            if left[0] < 0:
                raise Killed

        return point

    def attempt(crash: CrashPoint) -> int:
        result = fork_campaign(
            origin.path / "archive", target, quiet, number=1, values={"rounds": 2}, name="killed", crash=crash
        )
        return result.written

    for after in (1, 7, 3):
        with pytest.raises(Killed):
            attempt(dying(after))
    assert not any(isinstance(fact.event, CampaignForked) for fact in there.facts("campaign"))
    assert attempt(lambda _: None) > 0
    assert attempt(lambda _: None) == 0
    assert "all 0 decisions reproduced" in there.run("replay", "--log-only")
    shutil.rmtree(there.path / "work" / "forks", ignore_errors=True)


def test_what_cannot_be_forked_is_refused_in_words(origin: Home) -> None:
    def refused(*words: str) -> None:
        fork(origin, *words, code=2)

    refused("--namespace", "fork-origin")  # its origin's own
    refused("--name", "a~b")
    refused("--set", "group_size=4", "--from-archive", str(origin.path / "archive"))
    origin.run("fork", "short", "--at", "round:9", code=2)
    origin.run("fork", "short", "--at", "2", code=2)
