"""One calm and one stormy run of the same campaign, and the end of both."""

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bat_events.benchmark.registry import benchmark
from bat_events.cli.common import make_context, prepare
from bat_events.consumers.evaluator import HELDOUT_KEY
from bat_events.consumers.fingerprints import FINGERPRINT_KEY
from bat_events.events.plan import CampaignPlan
from bat_events.log.local_kafka import LocalKafka
from bat_events.producers.campaigns import start
from bat_events.service.context import secret
from bat_events.signing import RECEIPT_KEY
from tests.chaos.calm import all_services, settings_of
from tests.chaos.field import Field, Watch
from tests.chaos.storm import Storm
from tests.chaos.verdict import Outcome, outcome
from tests.e2e.commands import SEAL_TOPICS, Home, closed, finished

CAMPAIGN = "same"
_QUIET_S = 3.0


def make_secrets(path: Path) -> Path:
    """The secrets that held-out instances and receipts derive from: two runs with the same ones can be compared."""
    for name in (RECEIPT_KEY, HELDOUT_KEY, FINGERPRINT_KEY):
        secret(path, name)
    return path / "secrets"


def begin(home: Home, plan: Mapping[str, Any]) -> None:
    """Put the campaign on the log."""
    settings = settings_of(home)
    context = make_context(settings, "campaign")
    prepare(settings, home.kafka.bootstrap)
    campaign = CampaignPlan.model_validate(dict(plan), strict=False)
    start(context, CAMPAIGN, campaign, benchmark_version=benchmark(campaign.benchmark).version)


def ended(watch: Watch) -> bool:
    """Whether the campaign is over and both planes' logs are sealed to their end."""
    return finished(watch.facts) and closed([fact for fact in watch.facts if fact.topic in SEAL_TOPICS])


def undisturbed(home: Home, plan: Mapping[str, Any], timeout_s: float = 400.0) -> Outcome:
    """Run the campaign in peace, in threads of this process."""
    begin(home, plan)
    watch = Watch(home)
    with all_services(home) as faults:
        deadline = time.monotonic() + timeout_s
        while not ended(watch):
            assert not faults, faults
            assert time.monotonic() < deadline, f"the undisturbed run stands still: {watch.kinds}"
            watch.look(0.2)
        quiet(watch, lambda: watch.look(0.2))
    watch.close()
    return outcome(home)


def quiet(watch: Watch, look: Callable[[], object], seconds: float = _QUIET_S) -> None:
    """Until nothing new was committed for a while: auditors, bank and notaries go on for a moment after the end."""
    count, since = len(watch.facts), time.monotonic()
    while time.monotonic() - since < seconds:
        look()
        if len(watch.facts) != count:
            count, since = len(watch.facts), time.monotonic()


@contextlib.contextmanager
def broker(path: Path) -> Any:
    """A broker of its own, which may be killed."""
    kafka = LocalKafka(path, start_timeout_s=300)
    kafka.up()
    try:
        yield kafka
    finally:
        kafka.down()


def up_to_date(field: Field, since: float) -> bool:
    """Whether the auditors have taken everything that was there at a time: their file is read only when they have ended."""
    return all(field.doing(name, since + 1.0).startswith("up to date") for name in ("auditor", "heldout-auditor"))


def settle(storm: Storm, timeout_s: float = 300.0) -> None:
    """After the storm: until the campaign has ended, everything is sealed and nothing new comes."""
    field = storm.field
    field.until(lambda: ended(field.watch), timeout_s=timeout_s, what="the end of the campaign", look=storm.tick)
    quiet(field.watch, storm.tick)
    since = time.time()
    field.until(lambda: up_to_date(field, since), timeout_s=120, what="the auditors' last rows")
    storm.say(f"ended: {len(field.watch.facts)} events")
