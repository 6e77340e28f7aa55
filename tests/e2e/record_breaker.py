"""Records the golden log mini-breaker-sealed: `python -m tests.e2e.record_breaker HOME FOLDER` (see tests/golden/README.md).

A scripted campaign of two rounds on a local Kafka, with receipts and seals. While the judge is away the evidence of some
rollouts is lost: that of a group of round 1, which is abandoned and asked for again; that of most rollouts in round 2, which
breaks that round off.
"""

import sys
import time
from pathlib import Path

from bat_events.codec import Fact
from bat_events.consumers.registry import SERVICES
from bat_events.events.rollouts import RolloutCompleted
from bat_events.events.rounds import RoundCompleted
from bat_events.log.local_kafka import LocalKafka
from bat_events.replay.record import record_namespace
from tests.e2e.commands import SEAL_TOPICS, Home, closed, finished

SCRIPTED = Path(__file__).parents[2] / "bat_events" / "campaigns" / "scripted.yaml"
FIRST_STEP = 8  # rollouts


def record(home: Home, folder: Path) -> None:
    """Run the campaign and write it down."""
    home.run("campaign", "start", str(SCRIPTED), "--id", "breaker")
    with home.serving(*(name for name in SERVICES if name != "judge")):
        lose(home, first_step(home, 1), count=2)
        with home.serving("judge"):
            home.wait(lambda facts: any(isinstance(f.event, RoundCompleted) for f in facts), "round")
        lose(home, first_step(home, 2), count=5)
        with home.serving("judge"):
            home.wait(finished, "round")
            home.wait(closed, *SEAL_TOPICS, timeout_s=60)
            time.sleep(1)
    record_namespace(home.kafka.login(), home.namespace, folder)


def first_step(home: Home, number: int) -> list[RolloutCompleted]:
    """The rollouts of a round's first step, in order of slot, once all are there."""

    def of_step(facts: list[Fact]) -> list[RolloutCompleted]:
        found = [f.event for f in facts if isinstance(f.event, RolloutCompleted)]
        return [event for event in found if (event.round, event.step) == (number, 0)]

    facts = home.wait(lambda facts: len(of_step(facts)) == FIRST_STEP, "rollout")
    return sorted(of_step(facts), key=lambda event: (event.slot, event.index))


def lose(home: Home, rollouts: list[RolloutCompleted], *, count: int) -> None:
    """Remove the evidence of the first rollouts."""
    for rollout in rollouts[:count]:
        (home.path / "artifacts" / rollout.evidence[:2] / rollout.evidence).unlink(missing_ok=True)


def main(home: Path, folder: Path) -> None:
    """The command."""
    broker = LocalKafka(home / "broker")
    broker.up()
    try:
        record(Home(home, kafka=broker, namespace="bat"), folder)
    finally:
        broker.down()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
