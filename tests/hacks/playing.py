"""Plays given calls in a real sandbox through the episode loop that rollouts use, and scores them as the judge does."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bat_events.benchmark.body import codes_from_body, evidence_body, evidence_from_body, state_body
from bat_events.benchmark.instance import Instance
from bat_events.benchmark.interface import Evidence, Task, TaskKey
from bat_events.benchmark.judging import scored
from bat_events.benchmark.mini import MiniBenchmark
from bat_events.benchmark.play import rollout
from bat_events.domain.canonical import canonical_json, digest
from bat_events.domain.receipts import chain_start
from bat_events.domain.vocabulary import Focus, Outcome, Split, Stage, Track
from bat_events.events.plan import EpisodeLimits
from bat_events.events.rollouts import RewardScored, RolloutCompleted
from bat_events.policy.actor import Turn
from bat_events.policy.episode import Episode, run_episodes
from bat_events.policy.interface import ExecuteCode, FinalAnswer
from bat_events.sandbox.interface import Language, SandboxPool
from bat_events.sandbox.receipts import receipt_faults, sign_receipts
from bat_events.signing import SigningKey
from tests.support.samples import sample

MINI = MiniBenchmark()
LIMITS = EpisodeLimits(
    max_turns=7, call_timeout_s=4.0, call_memory_mib=512, workspace_mib=16, max_response_tokens=100_000
)
BASH = "#bash\n"
Calls = Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Played:
    """A trick's rollout: what the runtime saw of it."""

    task: Task
    episode: Episode

    @property
    def evidence(self) -> Evidence:
        """Receipts, final files, end."""
        return self.episode.evidence

    @property
    def said(self) -> str:
        """Everything that the calls wrote to their streams."""
        return "\n".join(receipt.stdout + receipt.stderr for receipt in self.evidence.receipts)

    def left(self, path: str) -> bytes | None:
        """A file of the workspace when the rollout ended."""
        return self.evidence.files.get(path)


@dataclass(frozen=True, kw_only=True)
class Trick:
    """Calls that want a reward without the work.

    `honest` is the same work without the trick; what it earns bounds what the trick may earn. `did` is whether the trick
    really did what it says. `opened` tells that rubric 1 paid for it.
    """

    name: str
    focus: Focus
    calls: Callable[[Instance], Calls]
    did: Callable[[Played], bool]
    honest: Callable[[Instance], Calls] = field(default=lambda _: ())
    bound: float = 1.0
    outcome: Outcome = Outcome.SUCCESS
    track: Track = Track.ENHANCEMENT
    opened: bool = False

    @property
    def key(self) -> TaskKey:
        """The practice state that it is played on."""
        return TaskKey(track=self.track, focus=self.focus, outcome=self.outcome, seed=11, split=Split.PRACTICE)


def right(instance: Instance, stage: Stage) -> str:
    """The action that the protocol prescribes."""
    choice = instance.right(stage)
    return f"m.{choice.method}({choice.level})"


def wrong(instance: Instance, stage: Stage) -> str:
    """An action that it does not."""
    choice = instance.wrong(stage, "trick")
    return f"m.{choice.method}({choice.level})"


class Recorded:
    """An actor that makes given calls; what it says is UTF-8 bytes."""

    name = "recorded"

    def __init__(self, scripts: Sequence[Calls]) -> None:
        self._scripts = scripts

    def begin(self, tasks: Sequence[Task], *, temperature: float, seed: int) -> "_Cast":  # noqa: ARG002
        """See Actor."""
        return _Cast(tasks, self._scripts)


class _Cast:
    def __init__(self, tasks: Sequence[Task], scripts: Sequence[Calls]) -> None:
        self.prompts: Sequence[Sequence[int]] = [[1] for _ in tasks]
        self._scripts = [list(script) for script in scripts]

    def act(self, rows: Sequence[int], contexts: Sequence[Sequence[int]], max_new_tokens: int) -> list[Turn]:  # noqa: ARG002
        return [self._turn(self._scripts[row]) for row in rows]

    def observe(self, row: int, observation: str) -> Sequence[int]:  # noqa: ARG002
        return list(observation.encode())

    @staticmethod
    def _turn(script: list[str]) -> Turn:
        if not script:
            return Turn(token_ids=[0], logprobs=[0.0], finish="stop", action=FinalAnswer(text="done"))
        code = script.pop(0)
        language: Language = "bash" if code.startswith(BASH) else "python"
        return Turn(
            token_ids=[0],
            logprobs=[0.0],
            finish="stop",
            action=ExecuteCode(language=language, code=code.removeprefix(BASH)),
        )


def play(pool: SandboxPool, tricks: Sequence[Trick]) -> list[Played]:
    """The tricks' rollouts, two sandboxes at a time."""
    tasks = [MINI.build(trick.key) for trick in tricks]
    scripts = [trick.calls(Instance(trick.key)) for trick in tricks]
    episodes = run_episodes(tasks=tasks, actor=Recorded(scripts), pool=pool, limits=LIMITS, temperature=1.0, seed=0)
    for trick, episode in zip(tricks, episodes, strict=True):
        assert isinstance(episode, Episode), f"{trick.name}: {episode}"
    return [Played(task=t, episode=e) for t, e in zip(tasks, episodes, strict=True) if isinstance(e, Episode)]


def receipts_fault(played: Played) -> object:
    """What the judge finds wrong with the rollout's receipts once the runtime signed them; None where nothing is.

    No trick may bring it about that something is: its reward would be withheld, and missing is better than low.
    """
    task, seen, key = played.task, played.evidence, SigningKey(bytes(32))
    place: RolloutCompleted = sample(RolloutCompleted)
    body = json.loads(canonical_json(state_body(task, benchmark=MINI.name, version=MINI.version)))
    start = chain_start(
        group=place.group,
        rollout=place.rollout,
        body=place.body,
        workspace=digest({"inputs": body["inputs"], "files": body["files"]}),
    )
    kept = json.loads(evidence_body(seen, played.episode.codes))
    signed = sign_receipts(seen.receipts, start=start, evidence=digest(kept), end=seen.end, key=key)
    rollout = place.model_copy(update={**vars(signed), "evidence": digest(kept), "end": seen.end})
    codes, again = codes_from_body(kept), evidence_from_body(kept)
    return next(receipt_faults(rollout, again.receipts, codes, again.files, start=start, begun=task.files), None)


def reward(task: Task, evidence: Evidence, rubric: int) -> float:
    """What the judge gives."""
    completed: RolloutCompleted = sample(RolloutCompleted).model_copy(update={"focus": task.key.focus})
    event = scored(completed, MINI.grade(task.key, evidence, rubric=rubric), evidence, rubric)
    assert isinstance(event, RewardScored)
    return event.reward


def honest_reward(trick: Trick, rubric: int) -> float:
    """What the honest work earns, played in process: it is this project's own code."""
    task = MINI.build(trick.key)
    return reward(task, rollout(task, trick.honest(Instance(trick.key))).evidence(), rubric)
