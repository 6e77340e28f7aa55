"""One seed's campaign: run by the demo command in a home of its own, and read back from its log."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from bat_events.benchmark.registry import benchmark
from bat_events.cli.common import prepare, running_broker
from bat_events.cli.summary import rows
from bat_events.cli.watch import Follower
from bat_events.deciders.campaign import CampaignView
from bat_events.errors import BatError
from bat_events.events.campaign import CampaignStarted
from bat_events.events.plan import CampaignPlan
from bat_events.producers.campaigns import list_campaigns, load_plan
from bat_events.service.context import Context, sign_in
from bat_events.service.runtime import Status
from bat_events.settings import Settings, load_settings

DEMO = Path(str(resources.files("bat_events") / "campaigns" / "demo.yaml"))
KEPT = "learning"  # what the bench itself leaves in a seed's home
_STOPPED = 130


@dataclass(frozen=True, kw_only=True)
class Step:
    """One GRPO step: its mean reward, and that of each pool that had groups."""

    round: int
    step: int
    target: str | None
    reward: float
    pools: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """What the bench needs of a finished campaign. `cold_start` and `best` are digests of checkpoint folders."""

    seed: int
    plan: CampaignPlan
    context: Context
    cold_start: str
    best: str
    rounds: list[dict[str, Any]]  # the rows of the demo's table
    steps: list[Step]


def finished_campaign(home: Path, seed: int, file: Path = DEMO, *, fresh: bool = False) -> Campaign:
    """The seed's campaign: read where it is finished, gone on with where it was stopped, else run.

    Raises BatError where `home` holds a campaign of other settings or of another benchmark, and where the campaign did
    not complete; KeyboardInterrupt where the demo was stopped.
    """
    if fresh:
        shutil.rmtree(home, ignore_errors=True)
    name, plan = f"learning-{seed}", load_plan(file, {"seed": seed})
    settings = load_settings(home=home, namespace=name)
    state = _state(settings, name, plan) if home.exists() else None
    if state is None or state == "open":
        words = ["--resume"] if state else ["--seed", str(seed), "--id", name, "--file", str(file)]
        _demo(settings, [*words, "--json", str(home / KEPT / "summary.json")])
    return _read(settings, seed, name)


def _state(settings: Settings, name: str, plan: CampaignPlan) -> str | None:
    """How far the home's campaign is; None where it never began. Refuses one of other settings."""
    with running_broker(settings) as address:
        context = _context(settings, address)
        known = next((found for found in list_campaigns(context) if found.campaign == name), None)
        if known is None:
            return None
        started: CampaignStarted = context.campaign(name)
        version = benchmark(plan.benchmark).version
        if started.plan != plan or started.benchmark_version != version:
            what = (
                f"benchmark version {started.benchmark_version}, now {version}"
                if started.plan == plan
                else ("other settings: " + ", ".join(_differences(started.plan, plan)))
            )
            raise BatError(f"{settings.home} holds campaign {name} of {what}; --fresh removes it and runs it again")
        if known.state == "paused":
            raise BatError(
                f"campaign {name} in {settings.home} is paused: `bat-events campaign resume` goes on with it"
            )
        return known.state


def _differences(old: CampaignPlan, new: CampaignPlan) -> list[str]:
    before, after = old.model_dump(mode="json"), new.model_dump(mode="json")
    return [name for name in after if before[name] != after[name]]


def _demo(settings: Settings, words: list[str]) -> None:
    """The demo command, its progress passed through. Ctrl-C reaches it, and it is waited for."""
    (settings.home / KEPT).mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "bat_events.cli.main", "demo", *words],
        env={**os.environ, "BAT_HOME": str(settings.home.absolute()), "BAT_NAMESPACE": settings.namespace},
    )
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.terminate()  # a second request to stop changes nothing, and SIGTERM to this process alone does not reach it
        process.wait()
        raise
    if code == _STOPPED:
        raise KeyboardInterrupt
    if code != 0:
        raise BatError(
            f"the demo ended with exit code {code}: its reason stands above, its logs in {settings.home}/logs"
        )


def _read(settings: Settings, seed: int, name: str) -> Campaign:
    with running_broker(settings) as address:
        context = _context(settings, address)
        follower = Follower(context, name)
        try:
            view = follower.catch_up()
        finally:
            follower.close()
    if view.finished is None or view.finished.outcome != "completed":
        raise BatError(f"campaign {name} in {settings.home} is {view.state}: only a completed one can be measured")
    if view.cold_start is None or view.finished.best_checkpoint is None or view.controls.plan is None:
        raise BatError(f"campaign {name} in {settings.home} has no cold start or no promoted checkpoint on its log")
    return Campaign(
        seed=seed,
        plan=view.controls.plan,
        context=context,
        cold_start=view.cold_start.checkpoint,
        best=view.finished.best_checkpoint,
        rounds=rows(view),
        steps=_steps(view),
    )


def _steps(view: CampaignView) -> list[Step]:
    return [
        Step(
            round=number,
            step=step,
            target=None if found.target is None else found.target.value,
            reward=found.steps[step].reward,
            pools={pool.pool.value: pool.reward for pool in found.steps[step].pools if pool.tokens},
        )
        for number, found in sorted(view.rounds.items())
        for step in sorted(found.steps)
    ]


def _context(settings: Settings, address: str) -> Context:
    prepare(settings, address)
    reader = sign_in(settings, address, "reader")
    return Context(settings=settings, bootstrap=reader, status=Status(service="learning"))
