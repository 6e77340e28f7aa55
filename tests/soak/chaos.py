"""Chaos on the real Kafka: kill everything, often, and compare the end with that of an undisturbed run.

Run: python -m tests.soak.chaos [--kills 100] [--seed N] [--json] [--folder DIR]. An undisturbed run of a small campaign on the
scripted policy comes first; then the same campaign while services and broker are killed, frozen and starved, spread over
its progress. Exit 0 when every event and every audited row is the same and nothing came twice (docs/chaos.md).
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bat_events.log.local_kafka import LocalKafka
from tests.chaos.campaigns import LONG
from tests.chaos.disk import Disk, DiskNotToBeHad
from tests.chaos.field import Field
from tests.chaos.report import plot, table
from tests.chaos.run import begin, broker, ended, make_secrets, settle, undisturbed
from tests.chaos.storm import Storm
from tests.chaos.verdict import Outcome, faults, outcome
from tests.e2e.commands import Home

Strike = Callable[[Storm], object]
STRIKES: tuple[tuple[float, str, Strike], ...] = (
    (9.0, "kill", lambda storm: storm.kill_next()),
    (5.0, "several", lambda storm: storm.kill_next(storm.chance.randint(2, 6))),
    (2.0, "start-up", lambda storm: storm.kill_in_start(storm.chance.randint(1, 3))),
    (4.0, "commit", lambda storm: storm.kill_at_commit()),
    (0.5, "everything", lambda storm: storm.kill_everything()),
)
"""Weight, name, what is done. What takes long is planned apart: see `plan_of`."""
SINGLE: dict[str, Strike] = {
    "freeze": lambda storm: storm.freeze(),
    "freeze trainer": lambda storm: storm.freeze(["trainer"]),
    "freeze two": lambda storm: storm.freeze(storm.chance.sample(("rollout", "judge", "planner", "bank"), 2)),
    "broker killed": lambda storm: storm.restart_broker(kill=True),
    "broker stopped": lambda storm: storm.restart_broker(kill=False),
}
LONGER = (
    "broker killed",
    "freeze",
    "disk full",
    "broker stopped",
    "freeze trainer",
    "broker killed",
    "freeze two",
    "broker stopped",
    "freeze",
)
STALLED_S = 40.0
"""Without progress for this long the next strike comes all the same: no run waits for one that another strike must mend."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A strike that is due when this share of the kills was done (the long ones), or at once."""

    share: float
    name: str


def plan_of(disk: bool) -> list[Planned]:
    """The strikes that take long, spread over the run."""
    names = [name for name in LONGER if disk or name != "disk full"]
    return [Planned(share=(n + 1) / (len(names) + 1), name=name) for n, name in enumerate(names)]


def storm_on(storm: Storm, *, kills: int, expected_events: int, disk: Disk | None) -> None:
    """Strike until so many were killed, spread over the campaign's progress."""
    storm.rest(0.7)
    storm.kill_next(5)  # in start-up
    longer = plan_of(disk is not None)
    weights = [weight for weight, _, _ in STRIKES]
    while storm.killed < kills:
        share = storm.killed / kills
        due = int(expected_events * 0.9 * share)
        storm.until(lambda due=due: len(storm.field.watch.facts) >= due, timeout_s=STALLED_S)
        storm.rest(storm.chance.uniform(0.1, 1.2))
        if longer and longer[0].share <= share:
            name = longer.pop(0).name
            if name == "disk full":
                assert disk is not None
                disk.fill_while(storm)
            else:
                SINGLE[name](storm)
            continue
        (strike,) = storm.chance.choices([strike for _, _, strike in STRIKES], weights)
        strike(storm)
        if ended(storm.field.watch):
            storm.say("the campaign has ended before all kills were done: the rest strike at its end")


def run(folder: Path, *, kills: int, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Both runs, and everything about them as data."""
    began = time.monotonic()
    secrets = make_secrets(folder)
    with broker(folder / "broker") as kafka:
        say(f"undisturbed run, logs in {folder}")
        calm = Home(folder / "calm", kafka=kafka, namespace="soak-calm")
        calm.path.mkdir()
        (calm.path / "secrets").symlink_to(secrets)
        expected = undisturbed(calm, LONG)
        calm_s = time.monotonic() - began
        say(f"undisturbed: {len(expected.facts)} events, digest {expected.digest[:16]}, {calm_s:.0f} s")
        return {**_stormy(folder, kafka, expected, kills, seed, say), "calm_s": calm_s}


def _stormy(
    folder: Path, kafka: LocalKafka, expected: Outcome, kills: int, seed: int, say: Callable[[str], None]
) -> dict[str, Any]:
    began = time.monotonic()
    field = Field(folder / "stormy", kafka=kafka, namespace="soak", secrets=folder / "secrets")
    try:
        disk: Disk | None = Disk(field.home.path / "audit")
    except DiskNotToBeHad as error:
        say(f"no full disk in this run: {error}")
        disk = None
    found: list[str] = []
    begin(field.home, LONG)
    storm = Storm(field, seed, say)
    try:
        with field.serving() as supervisor:
            storm_on(storm, kills=kills, expected_events=len(expected.facts), disk=disk)
            settle(storm, timeout_s=600)
            storm.tick()
        reached = outcome(field.home)
        found = faults(expected, reached)
    finally:
        if disk is not None:
            disk.close()
        data = storm.as_data()
        (folder / "timeline.json").write_text(json.dumps(data, indent=1))
    codes = Counter(code for child in supervisor.children for code in child.exit_codes if code >= 0)
    return {
        **data,
        "events": len(reached.facts),
        "expected_events": len(expected.facts),
        "digest": reached.digest,
        "expected_digest": expected.digest,
        "replay": reached.replay,
        "faults": found,
        "zombies": {
            "ended": sum(process.returncode in (1, 3) for _, process in field.zombies),
            "lived_on": sum(process.returncode not in (1, 3) for _, process in field.zombies),
        },
        "own_ends": {f"exit {code}": count for code, count in sorted(codes.items())},
        "storm_s": time.monotonic() - began,
    }


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="processes of services to be killed at least")
    parser.add_argument("--seed", type=int, default=None, help="of what is done to whom; drawn where none is given")
    parser.add_argument(
        "--folder", type=Path, default=None, help="for logs, timeline and picture; a new one by default"
    )
    parser.add_argument(
        "--json", action="store_true", help="the summary as JSON on standard output, progress on the other"
    )
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10_000) if options.seed is None else options.seed
    folder = options.folder or Path(tempfile.mkdtemp(prefix="bat-soak-"))
    folder.mkdir(parents=True, exist_ok=True)

    def say(line: str) -> None:
        print(line, file=sys.stderr if options.json else sys.stdout, flush=True)

    again = f"make soak ARGS='--seed {seed} --kills {options.kills}'"
    say(f"seed {seed}; again: {again}")
    try:
        data = run(folder.absolute(), kills=options.kills, seed=seed, say=say)
    except BaseException as error:
        say(
            f"FAILED: {type(error).__name__}: {error}\nagain: {again}\nlogs: {folder}/stormy/logs, {folder}/broker/kafka/logs"
        )
        raise
    (folder / "soak.json").write_text(json.dumps(data, indent=1))
    plot(data, folder / "soak.png")
    print(json.dumps(data, indent=1) if options.json else table(data), flush=True)
    say(f"summary: {folder}/soak.json, picture: {folder}/soak.png")
    if data["faults"]:
        say(f"again: {again}\nlogs: {folder}/stormy/logs, {folder}/broker/kafka/logs")
    return 1 if data["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
