"""The built-in mini benchmark: seven tracks on real medical images, five stages each, small enough for a laptop.

Equal keys give byte-identical tasks where numpy, scipy and the image packages are of the same versions; image sources are
read at the first use of a modality and kept for the process.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType

import numpy as np

from bat_events.benchmark import actions, formats, stages
from bat_events.benchmark.card import HABITS, choices
from bat_events.benchmark.course import Step, inputs, right_steps, source, start
from bat_events.benchmark.hardened import HardenedInspection
from bat_events.benchmark.inspection import Inspection
from bat_events.benchmark.instance import NAME, VERSION, Instance, random_source
from bat_events.benchmark.interface import Evidence, Grade, Prose, Task, TaskKey, TextItem
from bat_events.benchmark.runner import run_snippet
from bat_events.benchmark.texts import mini_texts
from bat_events.benchmark.tracks import TRACKS
from bat_events.domain.rubric import NEWEST, check_version
from bat_events.domain.vocabulary import Focus, Track
from bat_events.sandbox.observation import render_observation

OBSERVATION_CHARS = 512


class MiniBenchmark:
    """Implements `benchmark.interface.Benchmark`. Stateless but for caches."""

    name: str = NAME
    version: int = VERSION

    def tracks(self) -> tuple[Track, ...]:
        return tuple(TRACKS)

    @staticmethod
    def skills_path() -> Path:
        """The folder to mount read-only and put on sys.path inside the sandbox."""
        return Path(__file__).parent / "skills"

    @staticmethod
    def preimports() -> tuple[str, ...]:
        """Modules that a sandbox should have imported before the first call."""
        return ("numpy", "medskills")

    def published(self, track: Track, focus: Focus) -> frozenset[str]:
        return _published(track, focus)

    def prose(self, track: Track, focus: Focus) -> Prose:
        return _prose(track, focus)

    def build(self, key: TaskKey) -> Task:
        """The instance of `key`. Raises KeyError for a track that this benchmark does not have."""
        return _build(key)

    def grade(self, key: TaskKey, evidence: Evidence, *, rubric: int = NEWEST) -> Grade:
        inspection = inspect(Instance(key), evidence, rubric)
        scored = stages.items(inspection)
        task_score = None
        if key.focus is Focus.E2E:
            sound = stages.void(inspection) is None
            task_score = inspection.task_metric if sound and inspection.task_done else 0.0
        return Grade(
            items=scored,
            reached=stages.reached(inspection, ()),
            task_score=task_score,
            failures=stages.failures(inspection, scored),
        )

    def texts(self, key: TaskKey, evidence: Evidence) -> Sequence[TextItem]:
        return mini_texts(key, evidence)

    def expert(self, key: TaskKey) -> list[str]:
        return [source(step) for step in right_steps(Instance(key))]

    def demonstration(self, key: TaskKey, *, seed: int, quality: float) -> list[tuple[str, str]]:
        instance = Instance(key)
        rng = random_source("demonstration", key, seed)
        task = self.build(key)
        files = {**task.inputs, **task.files}
        turns = []
        for step in right_steps(instance):
            code = source(step if rng.random() < quality else _careless(step, rng))
            ran = run_snippet(code, files)
            observation = render_observation(
                end="exited", exit_code=ran.exit_code, stdout=ran.stdout, stderr=ran.stderr, max_chars=OBSERVATION_CHARS
            )
            turns.append((code, observation))
        return turns

    def random_actions(self, key: TaskKey, rng: np.random.Generator) -> list[str]:
        """Right kind of step at each turn, the choice blind: the lower bound that chance gives."""
        return [self._blind(step, rng) for step in right_steps(Instance(key))]

    def random_action(self, rng: np.random.Generator) -> str:
        """Any valid short action, whatever the state."""
        pool: Sequence[str] = actions.all_actions()
        return pool[int(rng.integers(len(pool)))]

    @staticmethod
    def _blind(step: Step, rng: np.random.Generator) -> str:
        if isinstance(step, str):
            return (actions.SCAN, actions.DROP)[int(rng.integers(2))]
        pool = actions.actions(step[0])
        return pool[int(rng.integers(len(pool)))]


def inspect(instance: Instance, evidence: Evidence, rubric: int) -> Inspection:
    """The inspection of a rubric's version. Raises ValueError for one that is not here."""
    return Inspection(instance, evidence) if check_version(rubric) == 1 else HardenedInspection(instance, evidence)


@cache
def _published(track: Track, focus: Focus) -> frozenset[str]:
    rules = TRACKS[track]
    return frozenset((*formats.static_lines(rules, focus), *formats.task_text(rules).splitlines()))


@cache
def _prose(track: Track, focus: Focus) -> Prose:
    return Prose(lines=frozenset(formats.prose_lines(TRACKS[track], focus)), terms=formats.terms(TRACKS[track]))


@lru_cache(maxsize=64)  # a demonstration, a rollout and a grade of one key follow each other
def _build(key: TaskKey) -> Task:
    instance = Instance(key)
    rules = instance.rules
    given = inputs(instance, formats.task_text(rules))
    return Task(
        key=key,
        system=formats.SYSTEM,
        prompt=formats.prompt(rules, key.focus, key.outcome, instance.card, instance.seen),
        inputs=MappingProxyType(given),
        files=MappingProxyType(start(instance, given)),
        max_turns=7 if key.focus is Focus.E2E else 2,
    )


def _careless(step: Step, rng: np.random.Generator) -> Step:
    """A valid step of the same kind that is not the right one: the habitual one, whatever the card says."""
    if isinstance(step, str):
        return "drop" if step == "scan" else "scan"
    if step[1] != HABITS[step[0]]:
        return step[0], HABITS[step[0]]
    others = [choice for choice in choices(step[0]) if choice != step[1]]
    return step[0], others[int(rng.integers(len(others)))]
