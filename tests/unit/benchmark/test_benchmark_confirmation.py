"""The confirmation split's seeds: secret, another secret than the evaluator's, and out of every service's reach."""

import ast
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bat_events
from bat_events.benchmark.confirmation import CONFIRMATION_KEY, confirmation_keys, probe_keys
from bat_events.benchmark.interface import TaskKey
from bat_events.benchmark.registry import benchmark
from bat_events.consumers.evaluator import HELDOUT_KEY, heldout_tasks
from bat_events.domain.grouping import state_seed
from bat_events.domain.vocabulary import Focus, Outcome, Split
from bat_events.events.plan import CampaignPlan
from bat_events.service.context import secret

TRACKS = benchmark("mini").tracks()
PLAN = CampaignPlan(tracks=TRACKS)


def confirmation(key: bytes, **changes: Any) -> list[TaskKey]:
    asked: dict[str, Any] = {"benchmark": "mini", "campaign_seed": 11, "tracks": TRACKS, "instances": 6}
    return confirmation_keys(key, **{**asked, **changes})


def test_outcomes_take_turns_on_every_track() -> None:
    found = confirmation(b"s" * 32)
    assert {(key.split, key.focus) for key in found} == {(Split.CONFIRMATION, Focus.E2E)}
    counts = Counter((key.track, key.outcome) for key in found)
    assert counts == {(track, outcome): 2 for track in TRACKS for outcome in Outcome}


def test_the_secret_is_a_file_of_its_own_that_only_its_owner_reads(tmp_path: Path) -> None:
    assert CONFIRMATION_KEY != HELDOUT_KEY
    made = secret(tmp_path, CONFIRMATION_KEY)
    assert made != secret(tmp_path, HELDOUT_KEY)
    assert (tmp_path / "secrets" / CONFIRMATION_KEY).stat().st_mode & 0o777 == 0o600
    assert secret(tmp_path, CONFIRMATION_KEY) == made


def test_seeds_change_with_the_secret_and_the_campaign_and_are_never_held_out_ones(tmp_path: Path) -> None:
    made = secret(tmp_path, CONFIRMATION_KEY)
    seeds = {key.seed for key in confirmation(made)}
    assert len(seeds) == 6 * len(TRACKS)
    assert seeds.isdisjoint(key.seed for key in confirmation(made, campaign_seed=12))
    assert seeds.isdisjoint(key.seed for key in confirmation(bytes(32)))
    # Even with the evaluator's own secret the two would differ.
    context: Any = SimpleNamespace(secret=lambda name: made)  # noqa: ARG005
    held_out = [task.key for track in TRACKS for task in heldout_tasks(context, PLAN, track, 6)]
    assert seeds.isdisjoint(key.seed for key in held_out)
    again = confirmation_keys(made, benchmark="mini", campaign_seed=11, tracks=TRACKS, instances=3)
    assert {key.seed for key in again} <= seeds


def test_no_service_can_make_or_read_a_confirmation_instance() -> None:
    root = Path(bat_events.__file__).parent
    users = []
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text())
        words = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        named = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        texts = {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        if "bat_events.benchmark.confirmation" in named or "CONFIRMATION" in words or CONFIRMATION_KEY in texts:
            users.append(path.relative_to(root).as_posix())
    outside = [user for user in users if not user.startswith("benchmark/")]
    assert "benchmark/confirmation.py" in users  # the search finds what there is
    assert outside == []


def test_the_probe_covers_every_cell_and_no_bank_draws_from_it() -> None:
    found = probe_keys(benchmark="mini", tracks=TRACKS, instances=2)
    assert len(found) == len(TRACKS) * 6 * 3 * 2
    assert {key.split for key in found} == {Split.PRACTICE}
    assert len({key.seed for key in found}) == len(found)
    bank = {state_seed(seed, f"{n:032x}") for seed in range(20) for n in range(50)}
    assert bank.isdisjoint(key.seed for key in found)
    assert found == probe_keys(benchmark="mini", tracks=TRACKS, instances=2)
