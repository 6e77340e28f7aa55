"""Live progress: what each service does, counts and rates, and what the campaign has come to. Read-only."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group
from rich.live import Live
from rich.table import Table

from bat_events.cli.common import out, say
from bat_events.cli.summary import table
from bat_events.codec import Fact
from bat_events.deciders.campaign import TOPICS, CampaignView
from bat_events.deciders.dead_letters import BEHIND
from bat_events.errors import DecodeError
from bat_events.events.boundary import EvaluationReported
from bat_events.events.dead_letters import DeadLettered, Discarded, Redriven
from bat_events.events.promotion import CheckpointHeld, CheckpointPromoted, TargetStagePrescribed
from bat_events.events.training import ColdStartCompleted, TrainingFailed, TrainingStepCompleted
from bat_events.log.kafka import KafkaReader
from bat_events.service.context import Context

_REFRESH_S = 0.5
_LINE_EVERY_S = 15.0
_STALE_S = 30.0


@dataclass
class _Rate:
    at: float
    count: int
    rate: float = 0.0


class Follower:
    """Folds one campaign's events as they come. `poll` returns the new facts."""

    def __init__(self, context: Context, campaign: str) -> None:
        self.view = CampaignView(campaign)
        self._codec = context.codec
        self._ids: set[str] = set()
        self._reader = KafkaReader(
            bootstrap=context.bootstrap, namespace=context.settings.namespace, topics=TOPICS, group="watch"
        )

    def poll(self, timeout_s: float) -> list[Fact]:
        """New facts of this campaign, folded."""
        fresh = []
        for record in self._reader.poll(500, timeout_s):
            try:
                fact = self._codec.decode(record)
            except DecodeError:  # no event: the services that need it say so
                continue
            if fact.envelope.campaign != self.view.campaign or fact.id in self._ids:
                continue
            self._ids.add(fact.id)
            self.view.apply(fact)
            fresh.append(fact)
        return fresh

    def catch_up(self) -> CampaignView:
        """Fold everything that is there now."""
        while not self._reader.caught_up():
            self.poll(0.2)
        return self.view

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()


def headline(fact: Fact) -> str | None:
    """A line worth reading about an event, or None."""
    event = fact.event
    if isinstance(event, ColdStartCompleted):
        return (
            f"cold start done: {event.steps} steps on {event.rows_train} rows, loss {event.train_loss:.3f}, "
            f"valid actions {event.valid_action_rate:.0%}"
        )
    if isinstance(event, EvaluationReported):
        return (
            f"round {event.round} evaluated on {event.cells} cells: Overall {event.overall:.4f} "
            f"(Task {event.task:.4f}, Agentic {event.agentic:.4f})"
        )
    if isinstance(event, TargetStagePrescribed):
        return f"round {event.round} will practise {event.target_stage}: {event.reason}"
    if isinstance(event, TrainingStepCompleted):
        return (
            f"round {event.round} step {event.step}: reward {event.reward:.3f}, "
            f"zero-variance {event.zero_variance:.0%}, entropy {event.entropy:.3f}, KL {event.kl:.4f}"
            + ("" if event.healthy else f", not healthy: {'; '.join(event.health)}")
        )
    if isinstance(event, CheckpointPromoted):
        return f"round {event.round} promoted: {'; '.join(event.reasons)}"
    if isinstance(event, CheckpointHeld):
        return f"round {event.round} held: {'; '.join(event.reasons)}"
    if isinstance(event, DeadLettered) and event.cause != BEHIND:
        place = f"{event.topic}[{event.partition}]@{event.offset}"
        what = "parked" if event.waits else "ignores"
        return f"{event.service} {what} {place} ({event.cause}): {event.error}; `bat-events dlq show '{place}'`"
    if isinstance(event, Redriven | Discarded):
        return f"{event.topic}[{event.partition}]@{event.offset} {type(event).__name__.lower()}: {event.reason}"
    if isinstance(event, TrainingFailed):
        return f"training failed in round {event.round} step {event.step}: {event.reason}"
    return None


class ServiceBoard:
    """The services' status files as a table with rates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rates: dict[str, _Rate] = {}

    def read(self) -> list[dict[str, object]]:
        """What every live status file says, with events out per minute added."""
        found = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                data = json.loads(path.read_text())
            except (OSError, ValueError):
                continue  # being replaced, or gone: the next look will tell
            if time.time() - data["at"] > _STALE_S and not _alive(data["pid"]):
                path.unlink(missing_ok=True)
                continue
            name = f"{data['service']}.{data['pid']}"
            now = time.monotonic()
            known = self._rates.setdefault(name, _Rate(now, data["out"]))
            if now - known.at >= 5.0:
                known.rate = (data["out"] - known.count) / (now - known.at)
                known.at, known.count = now, data["out"]
            found.append({**data, "rate": known.rate})
        return found

    def table(self) -> Table:
        """For people."""
        grid = Table(box=None, pad_edge=False)
        for name in ("service", "in", "out", "out/s", "doing"):
            grid.add_column(
                name, justify="right" if name in ("in", "out", "out/s") else "left", no_wrap=name != "doing"
            )
        for row in self.read():
            grid.add_row(
                str(row["service"]), f"{row['in']:,}", f"{row['out']:,}", f"{row['rate']:.1f}", str(row["doing"])
            )
        return grid

    def line(self) -> str:
        """For a log: who is at what, those that only wait left out."""
        busy = [
            f"{row['service']}: {row['doing']} ({row['out']:,} out, {row['rate']:.1f}/s)"
            for row in self.read()
            if row["doing"] != "waiting"
        ]
        return "; ".join(busy) or "all services wait"


def watch(
    context: Context, campaign: str, *, tick: Callable[[], list[str]], until: Callable[[CampaignView], bool]
) -> CampaignView:
    """Show progress until `until`. `tick` is called often and returns lines to show (a supervisor's, say)."""
    board = ServiceBoard(context.settings.home.absolute() / "run" / context.settings.namespace)
    follower = Follower(context, campaign)
    begun, last = time.monotonic(), 0.0
    live = Live(console=out, refresh_per_second=2, transient=True) if out.is_terminal else None

    def stamp() -> str:
        seconds = int(time.monotonic() - begun)
        return f"[{seconds // 60:3d}:{seconds % 60:02d}]"

    try:
        if live is not None:
            live.start()
        while True:
            for line in tick():
                say(f"{stamp()} {line}")
                last = time.monotonic()
            for fact in follower.poll(_REFRESH_S):
                text = headline(fact)
                if text is not None:
                    say(f"{stamp()} {text}")
                    last = time.monotonic()
            if live is not None:
                live.update(Group(table(follower.view), board.table()))
            elif time.monotonic() - last > _LINE_EVERY_S:
                say(f"{stamp()} {follower.view.doing()} | {board.line()}")
                last = time.monotonic()
            if until(follower.view):
                return follower.view
    finally:
        if live is not None:
            live.stop()
        follower.close()


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
