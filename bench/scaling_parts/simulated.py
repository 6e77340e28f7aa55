"""A rollout or judge process whose engine is simulated: it sleeps instead of computing. Everything around it is the real service.

Run: python simulated.py JOURNAL [SERVICE] with the settings of its namespace in the environment. A group's work takes as many
milliseconds as its seed says; a rollout's judging as many as its `turns`. The journal gets a JSON line when the process begins
to poll, and at the begin and the end of each piece of work.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bat_events.cli.common import make_context
from bat_events.codec import Fact
from bat_events.consumers.registry import instance_name
from bat_events.deciders.interface import Draft
from bat_events.domain.grouping import rollout_id
from bat_events.events.rollouts import RewardWithheld, RolloutCompleted
from bat_events.events.rounds import GroupRequested
from bat_events.service.context import Context
from bat_events.service.handler import Handler
from bat_events.service.run import run_service
from bat_events.service.services import Service, worker
from bat_events.settings import load_settings

_TOKENS = 256


class Journal:
    """Lines of all processes of one run, in one file."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, what: str, **more: object) -> None:
        """One line, written whole."""
        line = json.dumps({"pid": os.getpid(), "what": what, "at": time.time(), **more}) + "\n"
        os.write(self._descriptor, line.encode())


class SimulatedRollout:
    """GroupRequested -> size x RolloutCompleted, after sleeping."""

    name, version, topic = "rollout", 2, "group"
    outputs: tuple[str, ...] = ("rollout",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, GroupRequested)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """See Handler."""
        request: GroupRequested = fact.event  # type: ignore[assignment]
        self._journal.note("begun", work=request.group, partition=fact.partition)
        time.sleep(request.seed / 1000)
        self._journal.note("ended", work=request.group, partition=fact.partition)
        return [
            Draft(
                event=rollout(request, index),
                campaign=fact.envelope.campaign,
                cause=fact.id,
                ordinal=index,
                key=request.group,
                round=request.round,
            )
            for index in range(request.size)
        ]


class SimulatedJudge:
    """RolloutCompleted -> RewardWithheld, after sleeping: the smallest of a judge's events."""

    name, version, topic = "judge", 2, "rollout"
    outputs: tuple[str, ...] = ("reward",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, RolloutCompleted)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """See Handler."""
        made: RolloutCompleted = fact.event  # type: ignore[assignment]
        self._journal.note("begun", work=made.rollout, partition=fact.partition)
        time.sleep(made.turns / 1000)
        self._journal.note("ended", work=made.rollout, partition=fact.partition)
        same = {name: getattr(made, name) for name in ("group", "rollout", "index", "round", "step", "slot")}
        event = RewardWithheld(**same, reason="simulated", detail="a benchmark's judge, which judges nothing")
        return [
            Draft(
                event=event,
                campaign=fact.envelope.campaign,
                cause=fact.id,
                ordinal=0,
                key=made.group,
                round=made.round,
            )
        ]


def rollout(request: GroupRequested, index: int) -> RolloutCompleted:
    """A rollout of 256 prompt and 256 sampled tokens; its `turns` are the request's seed, for the simulated judge."""
    return RolloutCompleted(
        group=request.group,
        rollout=rollout_id(request.group, index),
        index=index,
        round=request.round,
        step=request.step,
        slot=request.slot,
        pool=request.pool,
        focus=request.focus,
        state=request.state,
        body=request.body,
        weights=request.weights,
        end="final",
        turns=request.seed,
        valid_actions=1,
        prompt_tokens=_TOKENS,
        response_tokens=_TOKENS,
        prompt_ids=bytes(4 * _TOKENS),
        response_ids=bytes(4 * _TOKENS),
        response_mask=bytes([1] * _TOKENS),
        logprobs=bytes(4 * _TOKENS),
        evidence="ef" * 32,
        sandbox="none",
        receipts=None,
        signer=None,
        seal=None,
    )


def main(journal: Path, name: str = "rollout") -> int:
    """Serve until asked to stop."""
    notes = Journal(journal)
    handlers: dict[str, Handler] = {"rollout": SimulatedRollout(notes), "judge": SimulatedJudge(notes)}

    def build(_: str, context: Context) -> Service:
        service = worker(context, handlers[name], instance=instance_name())
        notes.note("polls")
        return service

    return run_service(name, make_context(load_settings(), name), build)


if __name__ == "__main__":
    os._exit(main(Path(sys.argv[1]), *sys.argv[2:]))  # what is in flight is abandoned, as `serve` does
