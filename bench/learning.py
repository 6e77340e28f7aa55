"""Whether the demo's policy learns: cold start against the finally promoted checkpoint, on cells that no gate reads.

    python bench/learning.py --seeds 11 12 13 [--file FILE] [--home DIR] [--docs DIR] [--fresh]

Per seed: the campaign file through the real loop, then both checkpoints on a confirmation split and on a fixed practice
probe, paired. What is finished is not done again, so the command can be stopped and repeated. docs/learning.md says
what is measured. Exit code 0 only where every seed was run and measured.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from learning_parts.campaign import DEMO, KEPT, Campaign, finished_campaign
from learning_parts.cells import Measured
from learning_parts.compare import compare
from learning_parts.figures import draw_curves, draw_effects
from learning_parts.keep import kept, recipe
from learning_parts.measure import Bench, Measure, measure
from learning_parts.report import SeedResult, as_json, markdown
from rich.console import Console

from bat_events.benchmark.confirmation import CONFIRMATION_KEY, confirmation_keys, probe_keys
from bat_events.benchmark.interface import TaskKey
from bat_events.benchmark.registry import benchmark
from bat_events.errors import BatError
from bat_events.events.plan import CampaignPlan
from bat_events.log.local_kafka_parts import BrokerError
from bat_events.sandbox.interface import SandboxUnavailable
from bat_events.service.context import secret
from bat_events.service.engines import Engines
from bat_events.settings import load_settings

_CONSOLE = Console(soft_wrap=True, highlight=False, markup=False)
_EVERY_S = 10.0


def measures(plan: CampaignPlan) -> tuple[Measure, ...]:
    """The four measures; the probe is sampled as practice is."""
    return (
        Measure(name="confirmation, temperature 0.7", kind="confirmation", temperature=0.7),
        Measure(name="confirmation, greedy", kind="confirmation", temperature=0.0),
        Measure(
            name=f"practice probe, temperature {plan.sampling.temperature:g}",
            kind="probe",
            temperature=plan.sampling.temperature,
        ),
        Measure(name="practice probe, greedy", kind="probe", temperature=0.0),
    )


def run_seed(seed: int, args: argparse.Namespace) -> SeedResult:
    """Run or read the seed's campaign and measure both checkpoints."""
    home = args.home / f"seed-{seed}"
    campaign = finished_campaign(home, seed, args.file, fresh=args.fresh)
    plan = campaign.plan
    _CONSOLE.print(f"seed {seed}: cold start {campaign.cold_start[:12]}, finally promoted {campaign.best[:12]}")
    confirmation = confirmation_keys(
        secret(args.home.absolute(), CONFIRMATION_KEY),
        benchmark=plan.benchmark,
        campaign_seed=seed,
        tracks=plan.tracks,
        instances=args.instances,
    )
    probe = probe_keys(benchmark=plan.benchmark, tracks=plan.tracks, instances=args.probe)
    engines = Engines(campaign.context, owner="learning")
    found: dict[str, tuple[Measured, Measured]] = {}
    try:
        for one in measures(plan):
            keys = confirmation if one.kind == "confirmation" else probe
            before, after = (
                _measured(campaign, engines, one, keys, checkpoint, home / KEPT)
                for checkpoint in (campaign.cold_start, campaign.best)
            )
            found[one.name] = (before, after)
    finally:
        engines.close()
    try:
        compared = {one.name: compare(*found[one.name], one.main) for one in measures(plan)}
    except ValueError as error:
        raise BatError(str(error)) from None
    return SeedResult(seed=seed, campaign=campaign, measures=measures(plan), measured=found, comparisons=compared)


def _measured(
    campaign: Campaign, engines: Engines, one: Measure, keys: list[TaskKey], checkpoint: str, folder: Path
) -> Measured:
    """One checkpoint under one measure; read from the seed's folder where the very same was measured before."""
    plan, seed = campaign.plan, campaign.seed
    known = benchmark(plan.benchmark)
    begun = last = time.monotonic()
    label = f"seed {seed}: {one.name}, {'cold start' if checkpoint == campaign.cold_start else 'promoted'}"

    def show(done: int) -> None:
        nonlocal last
        if time.monotonic() - last > _EVERY_S or done == len(keys):
            last = time.monotonic()
            _CONSOLE.print(f"{label}: {done} of {len(keys)} episodes, {done / (last - begun):.1f}/s")

    def make() -> Measured:
        bench = Bench(
            benchmark=known,
            actor=engines.actor(plan, checkpoint),
            pool=engines.pool(plan),
            limits=plan.limits,
            parallel=campaign.context.settings.sandbox.parallel,
        )
        return measure(bench, one, keys, checkpoint=checkpoint, seed=seed, progress=show)

    return kept(folder, recipe(checkpoint, one, keys, plan, known.version), make)


def main() -> int:
    """Run every seed, report, draw. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", required=True, help="of the campaigns, such as 11 12 13")
    parser.add_argument("--file", type=Path, default=DEMO, help="campaign file (default: the demo's)")
    parser.add_argument("--home", type=Path, default=None, help="default: learning/ under BAT_HOME")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="where the pictures go")
    parser.add_argument("--instances", type=int, default=30, help="confirmation instances a track")
    parser.add_argument("--probe", type=int, default=2, help="probe states a track, focus and outcome")
    parser.add_argument("--fresh", action="store_true", help="remove the seeds' homes and run them again")
    args = parser.parse_args()
    args.home = args.home or load_settings().home / "learning"
    args.home.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    results: list[SeedResult] = []
    failed: dict[int, str] = {}
    for seed in dict.fromkeys(args.seeds):
        try:
            results.append(run_seed(seed, args))
        except (BatError, BrokerError, SandboxUnavailable) as error:
            failed[seed] = str(error)
            _CONSOLE.print(f"error: seed {seed}: {error}", style="red")
        except KeyboardInterrupt:
            _CONSOLE.print("stopped; the same command goes on from here")
            return 130
    if results:
        text = markdown(results, failed)
        (args.home / "report.md").write_text(text)
        (args.home / "report.json").write_text(as_json(results, failed))
        args.docs.mkdir(parents=True, exist_ok=True)
        draw_curves(results, args.docs / "learning.png")
        draw_effects(results, args.docs / "learning-effect.png")
        print(text)
        _CONSOLE.print(f"written: {args.home}/report.md, report.json; {args.docs}/learning.png, learning-effect.png")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
