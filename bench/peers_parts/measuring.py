"""Runs contestants and holds what they did against what they were given."""

import json
import os
import subprocess
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .contestants import Contestant
from .driving import Job
from .latency import Latency, measure_latency
from .scene import Corpus, Expected, Scene, read_back

BENCH = Path(__file__).parent.parent
_TIMEOUT_S = 150.0


class Failed(Exception):
    """A contestant did not do all of its task: what is wrong stands in the message."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run of one task; `events` without those of the warm-up. `remark` is what was seen of headers."""

    events: int
    wall_s: float
    cpu_s: float
    versions: dict[str, str]
    settings: str
    remark: str = ""
    latency: Latency | None = None


class Child:
    """A driver at work."""

    def __init__(self, contestant: Contestant, job: Job) -> None:
        paths = [str(BENCH)] if contestant.environment else [str(BENCH), str(BENCH.parent)]
        self._folder = tempfile.TemporaryDirectory()
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115  (they end with this object)
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._child = subprocess.Popen(
            [
                contestant.python(),
                "-m",
                f"peers_parts.{contestant.driver}",
                json.dumps(asdict(job)),
                *contestant.arguments,
            ],
            stdout=self._output,
            stderr=self._errors,
            cwd=self._folder.name,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._child.poll() is None

    def result(self, timeout_s: float) -> dict[str, Any]:
        """What it reports at its end. Raises Failed."""
        try:
            code = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.end()
            raise Failed(f"not done after {timeout_s:g} s{self._said()}") from None
        self._output.seek(0)
        lines = [line for line in self._output.read().splitlines() if line.strip()]
        if code or not lines:
            raise Failed(f"ended with {code}{self._said()}")
        data: dict[str, Any] = json.loads(lines[-1])
        return data

    def _said(self) -> str:
        self._errors.seek(0)
        lines = [line for line in self._errors.read().splitlines() if line.strip()]
        return f": {' | '.join(lines[-4:])}" if lines else ""

    def end(self) -> None:
        """Stop it, whatever it does."""
        if self.alive():
            self._child.kill()
            self._child.wait()


@dataclass(frozen=True)
class Bench:
    """One broker, one corpus."""

    bootstrap: str
    corpus: Corpus
    folder: Path

    def run(self, contestant: Contestant, task: str, latency_events: int) -> Report:
        """One task of one contestant, on topics of its own, checked. Raises Failed."""
        scene = Scene.make(self.bootstrap)
        rows = self.corpus.mixed if task in ("produce", "consume") else self.corpus.rollouts
        if task == "latency":
            rows = rows[:latency_events]
        elif task == "react":
            rows = rows[: contestant.most]
        if task in ("consume", "react"):
            scene.fill(rows)
        child = Child(contestant, self._job(contestant, task, scene, len(rows)))
        latency = None
        try:
            if task == "latency":
                latency = measure_latency(scene, rows, child.alive)
            data = child.result(_TIMEOUT_S)
        except RuntimeError as error:
            child.end()
            data = child.result(1.0)  # says more, where it died
            raise Failed(str(error)) from error
        finally:
            child.end()
        remark = self._check(task, scene, rows, data)
        scene.delete()
        return Report(
            events=data["measured"],
            wall_s=data["wall_s"],
            cpu_s=data["cpu_s"],
            versions=data["versions"],
            settings=data["settings"],
            remark=remark,
            latency=latency,
        )

    def _job(self, contestant: Contestant, task: str, scene: Scene, events: int) -> Job:
        return Job(
            task="react" if task == "latency" else task,
            guarantee=contestant.guarantee,
            bootstrap=scene.bootstrap,
            namespace=scene.namespace,
            topics=dict(scene.topics),
            events=events,
            folder=str(self.folder),
            run=uuid.uuid4().hex[:8],
            prompt=task == "latency",
        )

    @staticmethod
    def _check(task: str, scene: Scene, rows: Sequence[Any], data: dict[str, Any]) -> str:
        """What was written or decoded must be all of it, once; returns what is to be said of headers."""
        wanted = Expected.of(rows)
        if task == "consume":
            if data["events"] != wanted.events or (data["check"] != wanted.check and data["settings"] != "bytes"):
                raise Failed(
                    f"decoded {data['events']} of {wanted.events} events, sum {data['check']}, not {wanted.check}"
                )
            return "" if data["headers"] == wanted.headers else f"{data['headers']} of {wanted.headers} headers"
        given = {dict(row[3])["ce_id"]: row[3] for row in rows} if task == "produce" else {}
        topics = ["rollout", "reward"] if task == "produce" else ["reward"]
        found = read_back(scene, topics, given)
        if (found.events, found.check) != (wanted.events, wanted.check) or len(found.keys) != wanted.events:
            raise Failed(
                f"wrote {found.events} records about {len(found.keys)} rollouts, sum {found.check}: {wanted.events} were "
                f"due, sum {wanted.check}"
            )
        said = [f"drops {', '.join(sorted(found.lost))}"] if found.lost else []
        said += [f"adds {', '.join(sorted(found.added))}"] if found.added else []
        return "; ".join(said)
