"""The benchmark's contract: an instance is a pure function of its key, a grade a pure function of key and evidence.

Truth never enters a workspace: a grader makes it again from the key. Everything that a grader checks is stated in the
prompt or in the read-only task files that the policy can see.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from bat_events.domain.rubric import NEWEST
from bat_events.domain.vocabulary import Focus, Outcome, Split, Stage, Track
from bat_events.sandbox.interface import Receipt


@dataclass(frozen=True, kw_only=True)
class TaskKey:
    """What determines an instance completely, given the benchmark's name and version."""

    track: Track
    focus: Focus
    outcome: Outcome
    seed: int  # 63 bits; held-out seeds derive from a secret that only the evaluator has
    split: Split


@dataclass(frozen=True, kw_only=True)
class Task:
    """A reset point: what the policy sees and the workspace it starts from.

    `inputs` are mounted read-only (paths under input/); `files` are the writable workspace at its stage boundary, with
    what earlier stages would have left there.
    """

    key: TaskKey
    system: str
    prompt: str
    inputs: Mapping[str, bytes]
    files: Mapping[str, bytes]
    max_turns: int  # tool calls that the task needs at most, with a margin; the campaign's limit caps it


# Why an episode ended. "infrastructure" never reaches a grader.
EpisodeEnd = Literal["final", "turn_limit", "token_limit", "malformed", "breach"]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the runtime saw of one rollout: enough to grade it, and to grade it again."""

    receipts: Sequence[Receipt]
    files: Mapping[str, bytes]  # the writable workspace when the episode ended
    inputs_intact: bool
    end: EpisodeEnd


@dataclass(frozen=True, kw_only=True)
class ItemScore:
    """One rubric item. `score` is in [0, 1]; `proof` names the receipt index that proves an execution item."""

    item: str
    stage: Stage
    score: float
    applicable: bool = True
    proof: int | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Grade:
    """A graded rollout. Stage scores are made from `items` by domain.scoring, never by the track."""

    items: tuple[ItemScore, ...]
    reached: tuple[Stage, ...]  # stages the policy got to act in: every earlier stage left what this one needs
    task_score: float | None  # the track's metric in [0, 1]; None for a stage-local state
    failures: tuple[str, ...]  # AutoMedBench's codes as stage:code, earliest first, such as "S3:E4"


@dataclass(frozen=True, kw_only=True)
class TextItem:
    """A rubric item that only reading can settle. A judge may lower its score on the text's account, and never raise it."""

    item: str
    question: str  # what the score in [0, 1] says; from the benchmark
    text: str  # what the policy wrote; never empty


@dataclass(frozen=True, kw_only=True)
class Prose:
    """The sentences of a track and focus that a model may word otherwise, and the words in them that every wording keeps."""

    lines: frozenset[str]  # published lines of the prompt, none of which is a format or a table
    terms: frozenset[str]  # lower-case words with a fixed meaning


class Benchmark(Protocol):
    """A benchmark that the loop can practise on and be evaluated with."""

    name: str
    version: int

    def tracks(self) -> tuple[Track, ...]: ...

    def published(self, track: Track, focus: Focus) -> frozenset[str]:
        """The lines of prompts and text files that stand in every state of this track and focus, by design."""
        ...

    def prose(self, track: Track, focus: Focus) -> Prose:
        """What of the published lines may be said in other words; all of it stands unchanged in the task's files."""
        ...

    def build(self, key: TaskKey) -> Task:
        """The instance of `key`; equal keys give byte-identical tasks on every machine."""
        ...

    def grade(self, key: TaskKey, evidence: Evidence, *, rubric: int = NEWEST) -> Grade:
        """Score the evidence under a version of the rubric (domain.rubric), the newest where none is given.

        Pure, and total: any workspace content gives a grade, never an exception. ValueError for an unknown version.
        """
        ...

    def texts(self, key: TaskKey, evidence: Evidence) -> Sequence[TextItem]:
        """The items of `grade` that a text must settle, those whose text is there; none where work alone is graded."""
        ...

    def expert(self, key: TaskKey) -> list[str]:
        """The python sources of a correct solution, one per turn (knows the truth; for tests, bounds and demonstrations)."""
        ...

    def demonstration(self, key: TaskKey, *, seed: int, quality: float) -> list[tuple[str, str]]:
        """(code, observation) per turn: like `expert`, but each choice is right only with probability `quality`.

        A wrong choice is another valid one, in most cases the demonstrator's habit for that stage. Observations are those of
        sandbox.observation.render_observation; the code is this project's own, so it may be run in process in a temporary
        folder.
        """
        ...
