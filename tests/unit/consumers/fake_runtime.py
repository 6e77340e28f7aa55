"""Stand-ins for what a worker meets outside itself: a log that is a list, sandboxes that isolate nothing. All are fakes."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bat_events.benchmark.play import Rollout
from bat_events.benchmark.registry import benchmark
from bat_events.codec import Fact
from bat_events.domain.vocabulary import Focus
from bat_events.events.plan import CampaignPlan
from bat_events.policy.scripted import ScriptedActor
from bat_events.sandbox.interface import CallEnd, FileChange, Language, Limits, Receipt, Sandbox, SandboxFault
from bat_events.service.context import Context
from bat_events.service.runtime import Status
from bat_events.settings import load_settings


class FakeLogContext(Context):
    """A real context (settings, stores, secrets) whose log is the list `facts`."""

    facts: list[Fact]

    @classmethod
    def on(cls, folder: Path, *facts: Fact) -> "FakeLogContext":
        made = cls(settings=load_settings(home=folder / "home"), bootstrap="no broker", status=Status(service="test"))
        made.facts = list(facts)
        return made

    def read_all(self, topic: str) -> list[Fact]:
        return [fact for fact in self.facts if fact.topic == topic]


class FakeSandbox:
    """Runs the calls in this process (they are this project's own code), so what they make is real; nothing isolates.

    After `good_calls` every call ends as `end` says; None: the sandbox breaks.
    """

    def __init__(
        self, inputs: Mapping[str, bytes], files: Mapping[str, bytes], end: CallEnd | None, good_calls: int
    ) -> None:
        self._rollout, self._end, self._good = Rollout.on(inputs, files), end, good_calls
        self._calls = 0

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def execute(self, language: Language, code: str) -> Receipt:  # noqa: ARG002
        self._calls += 1
        if self._calls > self._good:
            if self._end is None:
                raise SandboxFault("the disk is away")
            if self._end != "exited":
                return replace(self._rollout.note(code, self._rollout.files), end=self._end, exit_code=None)
        return self._rollout.call(code)

    def files(self) -> dict[str, bytes]:
        return dict(self._rollout.files)

    def inputs_intact(self) -> bool:
        return True


class FakePool:
    """`ends` says how each sandbox's calls end, in the order of opening; the last one repeats. See FakeSandbox."""

    def __init__(self, *ends: CallEnd | None, good_calls: int = 0) -> None:
        self._ends, self._good = list(ends), good_calls

    def open(
        self,
        *,
        inputs: Mapping[str, bytes],
        files: Mapping[str, bytes],
        limits: Limits,  # noqa: ARG002
        rollout: str = "",  # noqa: ARG002
    ) -> Sandbox:
        end = self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]
        return FakeSandbox(inputs, files, end, self._good)

    def close(self) -> None:
        return None


class FakeEngines:
    """A scripted actor that always chooses right, and a fake pool."""

    def __init__(self, pool: FakePool) -> None:
        self._pool = pool

    def actor(self, plan: CampaignPlan, weights: str) -> ScriptedActor:  # noqa: ARG002
        return ScriptedActor(benchmark(plan.benchmark), dict.fromkeys(Focus, 1.0))

    def pool(self, plan: CampaignPlan) -> FakePool:  # noqa: ARG002
        return self._pool


def receipt(index: int = 0, *, exit_code: int = 0, end: CallEnd = "exited", changed: bool = True) -> Receipt:
    """A receipt as the runtime issues it."""
    return Receipt(
        index=index,
        engine="fake",
        language="python",
        code_digest="0" * 64,
        exit_code=exit_code if end == "exited" else None,
        end=end,
        stdout="",
        stderr="",
        workspace_before="0" * 64,
        workspace_after="1" * 64,
        changes=(FileChange(path="plan.json", before=None, after="2" * 64),) if changed else (),
        wall_s=0.0,
    )
