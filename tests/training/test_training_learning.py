"""The measuring of `make bench-learning` on real parts: an untrained checkpoint, sandboxes, the grader."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bat_events.benchmark.confirmation import confirmation_keys, probe_keys
from bat_events.benchmark.registry import benchmark, sandbox_extras
from bat_events.domain.vocabulary import Focus
from bat_events.events.plan import EpisodeLimits
from bat_events.policy.actor import ModelActor
from bat_events.policy.chat import TokenizerChat
from bat_events.policy.episode import EpisodeFault
from bat_events.policy.transformers_engine import TransformersEngine
from bat_events.sandbox.bubblewrap import BubblewrapPool
from bench.learning_parts.cells import AGENTIC, OVERALL, REWARD, STAGES, TASK, Lost
from bench.learning_parts.measure import Bench, Measure, cell_names, measure, score

pytestmark = [pytest.mark.sandbox, pytest.mark.torch]

MINI = benchmark("mini")
SAMPLED = Measure(name="sampled", kind="confirmation", temperature=0.7)


@pytest.fixture
def bench(start: Path, tmp_path: Path) -> Iterator[Bench]:
    engine = TransformersEngine(threads=1)
    engine.load(start)
    paths, modules, aliases = sandbox_extras("mini")
    with BubblewrapPool(
        root=tmp_path / "sandboxes", readonly_paths=paths, preimports=modules, aliases=aliases, prestart=1
    ) as pool:
        yield Bench(
            benchmark=MINI,
            actor=ModelActor(engine, TokenizerChat(start)),
            pool=pool,
            limits=EpisodeLimits(max_turns=2, max_turn_tokens=12),
        )


def test_every_track_is_measured_and_equal_seeds_measure_alike(bench: Bench) -> None:
    keys = confirmation_keys(b"x" * 32, benchmark="mini", campaign_seed=1, tracks=MINI.tracks(), instances=1)
    done: list[int] = []
    found = measure(bench, SAMPLED, keys, checkpoint="c", seed=1, progress=done.append)
    assert {name.track for name in found.cells} == set(MINI.tracks())
    assert not found.lost
    assert done[-1] == len(keys)
    for cell in found.cells.values():
        assert set(cell.values) <= {OVERALL, TASK, AGENTIC, *STAGES}
        assert all(0 <= value <= 1 for value in cell.values.values())
        assert cell.values[OVERALL] == pytest.approx((cell.values[TASK] + cell.values[AGENTIC]) / 2)
        assert 0 <= cell.valid <= cell.turns
    assert measure(bench, SAMPLED, keys, checkpoint="c", seed=1) == found


def test_practice_states_are_worth_their_reward(bench: Bench) -> None:
    track = MINI.tracks()[0]
    keys = [key for key in probe_keys(benchmark="mini", tracks=[track], instances=1) if key.focus is not Focus.S2]
    probe = Measure(name="probe", kind="probe", temperature=0.0)
    found = measure(bench, probe, keys, checkpoint="c", seed=1)
    assert len(found.cells) == len(keys)
    assert all(set(cell.values) == {REWARD} for cell in found.cells.values())


def test_an_episode_that_the_infrastructure_broke_is_missing_not_zero() -> None:
    (key,) = confirmation_keys(b"x" * 32, benchmark="mini", campaign_seed=1, tracks=MINI.tracks()[:1], instances=1)
    (name,) = cell_names([key])
    found = score(MINI, key, name, EpisodeFault(reason="sandbox", detail="the pool is gone"))
    assert found == Lost(name=name, reason="sandbox: the pool is gone")
