"""Every service killed, the broker killed inside transactions, a zombie: the campaign ends as if nothing had been.

The short form of `make soak` (docs/chaos.md). The undisturbed run goes on beside the stormy one, on a broker of its own.
"""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bat_events.consumers.registry import SERVICES
from bat_events.log.local_kafka import LocalKafka
from bat_events.service.run import HALTED, REPLACED
from tests.chaos.campaigns import SHORT
from tests.chaos.field import Field
from tests.chaos.run import begin, broker, make_secrets, settle, undisturbed
from tests.chaos.storm import Storm
from tests.chaos.verdict import faults, outcome
from tests.e2e.commands import Home

pytestmark = [pytest.mark.kafka, pytest.mark.sandbox]

SEED = 20


def _reached(storm: Storm, kind: str, count: int = 1) -> Callable[[], bool]:
    return lambda: storm.field.watch.kinds.get(kind, 0) >= count


def strike(storm: Storm) -> None:
    """Each service dies at least once, some as they start; frozen ones come back; the broker dies inside transactions."""
    storm.rest(0.5)
    storm.kill_next(4)  # in start-up
    assert storm.until(_reached(storm, "StateSynthesized"), timeout_s=200)
    codes = storm.freeze(("synthesizer", "bank"), 11.0, wait_s=60)
    assert codes["bank"] == REPLACED, "the zombie of a service that runs once is fenced by the other one"
    assert codes["synthesizer"] in (None, HALTED, REPLACED)
    storm.kill_next(5)
    assert storm.until(_reached(storm, "GroupRequested"), timeout_s=200)
    inside, held = storm.restart_broker(kill=True, services=("rollout", "judge", "trainer"), wait_s=60)
    assert inside, "no service was inside a transaction"
    assert held >= 2, "the partitions of the stranger and of a service stand behind open transactions"
    storm.kill_next(5)


@pytest.mark.timeout(1200)
def test_killed_services_a_killed_broker_and_a_zombie_change_nothing(kafka: LocalKafka, tmp_path: Path) -> None:
    secrets = make_secrets(tmp_path)
    calm = Home(tmp_path / "calm", kafka=kafka, namespace="chaos-calm")
    calm.path.mkdir()
    shutil.copytree(secrets, calm.path / "secrets")
    with ThreadPoolExecutor(1) as beside, broker(tmp_path / "broker") as own:
        expected = beside.submit(undisturbed, calm, SHORT)
        field = Field(tmp_path / "stormy", kafka=own, namespace="chaos", secrets=secrets)
        begin(field.home, SHORT)
        with field.serving():
            storm = Storm(field, SEED, print)
            strike(storm)
            settle(storm)
        assert faults(expected.result(), outcome(field.home)) == []
    assert set(storm.kills) == set(SERVICES)
    assert len(field.zombies) == 2
