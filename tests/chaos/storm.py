"""What is done to the services and the broker, drawn from a seed, and a record of it.

The seed fixes what is done to whom and in which order. When exactly it strikes depends on the machine, as in life.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bat_events.consumers.registry import SERVICES
from tests.chaos.field import ALONE, TRANSACTIONAL, Field, some

Say = Callable[[str], None]
MOMENTS = ("begun", "produced", "offsets-sent", "committed")
SESSION_S = 6.0
"""The local broker's session time-out: after it a member is out of its group and its partitions are another's."""
TRANSACTION_S = 10.0
"""The services' transaction time-out."""


@dataclass(frozen=True, kw_only=True)
class Strike:
    """One entry of the timeline."""

    at_s: float
    what: str
    services: tuple[str, ...]
    events: int
    """Events committed so far."""
    note: str = ""


@dataclass
class Storm:
    """See the module."""

    field: Field
    seed: int
    say: Say
    timeline: list[Strike] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    progress: list[tuple[float, int, int]] = field(default_factory=list)
    """Seconds, events committed, steps trained."""
    rounds_s: list[float] = field(default_factory=list)
    """When rounds ended."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.began = time.monotonic()
        self._due: list[str] = []

    @property
    def killed(self) -> int:
        """Processes of services that were ended by SIGKILL so far."""
        return self.kills.total()

    def note(self, what: str, services: Sequence[str], note: str = "") -> None:
        """Enter a strike, and say it."""
        events = len(self.field.watch.facts)
        strike = Strike(
            at_s=round(time.monotonic() - self.began, 1), what=what, services=tuple(services), events=events, note=note
        )
        self.timeline.append(strike)
        self.counts[what] += 1
        who = ", ".join(services) if len(services) < 6 else f"{len(services)} services"
        self.say(
            f"{strike.at_s:6.1f} s  {self.killed:3d} kills  {events:4d} events  {self.state()}  "
            f"{what}: {who}{f' ({note})' if note else ''}"
        )

    def state(self) -> str:
        """Where the campaign stands."""
        kinds = self.field.watch.kinds
        finished = ", finished" if kinds.get("CampaignFinished") else ""
        return f"round {kinds.get('RoundCompleted', 0)}, step {kinds.get('TrainingStepCompleted', 0)}{finished}"

    def tick(self) -> None:
        """Look after the field, and keep a point of the curve."""
        self.field.tend()
        now = (round(time.monotonic() - self.began, 1), len(self.field.watch.facts))
        while len(self.rounds_s) < self.field.watch.kinds.get("RoundCompleted", 0):
            self.rounds_s.append(now[0])
        if not self.progress or self.progress[-1][1] != now[1] or now[0] - self.progress[-1][0] > 2:
            self.progress.append((*now, self.field.watch.kinds.get("TrainingStepCompleted", 0)))

    def rest(self, seconds: float) -> None:
        """Let things happen."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tick()

    def until(self, done: Callable[[], bool], *, timeout_s: float) -> bool:
        """Let things happen until `done()`; whether that came."""
        end = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > end:
                return False
            self.tick()
        return True

    # -- what is done

    def kill(self, services: Sequence[str], what: str = "kill") -> None:
        """kill -9 of these at once."""
        hit = self.field.kill(services)
        self.kills.update(hit)
        if hit:
            self.note(what, hit)

    def kill_next(self, count: int = 1) -> None:
        """kill -9 of whose turn it is: every service once in a drawn order, then anew."""
        chosen: list[str] = []
        while len(chosen) < count:
            if not self._due:
                self._due = self.chance.sample(list(SERVICES), len(SERVICES))
            chosen.append(self._due.pop())
        chosen = list(dict.fromkeys(chosen))
        # One that died of the last strike is about to be started again: its turn is not over.
        self.until(lambda: all(self.field.process(name) for name in chosen), timeout_s=20)
        self.kill(chosen, "kill" if count == 1 else "several at once")

    def kill_in_start(self, count: int) -> None:
        """kill -9, and again a moment after the next start."""
        chosen = some(self.chance, list(SERVICES), count)
        self.kill(chosen, "several at once" if count > 1 else "kill")
        delays = [self.chance.uniform(0.0, 2.5) for _ in range(2)]
        for delay in delays:
            self.until(lambda: all(self.field.process(name) for name in chosen), timeout_s=10)
            self.rest(delay)
            self.kill(chosen, "in start-up")

    def kill_everything(self) -> None:
        """kill -9 of all services at once."""
        self.kill(list(SERVICES), "all at once")

    def kill_at_commit(self, timeout_s: float = 15.0) -> None:
        """A service dies at a point of its next transaction."""
        service, moment = self.chance.choice(TRANSACTIONAL), self.chance.choice(MOMENTS)
        before = self.field.process(service)
        self.field.order(service, moment, "kill")
        self.until(lambda: not self.field.ordered(service), timeout_s=timeout_s)
        if not self.field.withdraw(service) and before is not None:
            self.kills[service] += 1
            self.note("in a transaction", [service], moment)

    def freeze(
        self, services: Sequence[str] = (), seconds: float | None = None, wait_s: float = 8.0
    ) -> dict[str, int | None]:
        """SIGSTOP over the session's time-out, other instances meanwhile, SIGCONT: the zombies must change nothing.

        Drawn: which service, at which moment of a transaction it is frozen, and for longer than the transaction's time-out or
        not. Who begins no transaction for `wait_s` is frozen outside one. Returns the exit codes of the zombies that ended.
        """
        services = services or [self.chance.choice([name for name in SERVICES if name not in ALONE])]
        seconds = seconds or self.chance.choice((SESSION_S + 1.5, TRANSACTION_S + 3.0))
        ordered = [name for name in services if name in TRANSACTIONAL]
        for name in ordered:
            self.field.order(name, self.chance.choice(("produced", "offsets-sent")), "stop")
        self.until(lambda: all(self.field.frozen(name) for name in ordered), timeout_s=wait_s if ordered else 0.0)
        inside = [name for name in ordered if not self.field.withdraw(name)]
        zombies = {}
        for name in services:
            if name in inside or self.field.stop(name):
                zombies[name] = self.field.let_go(name)
        self.note("freeze", list(zombies), f"{seconds:g} s, inside a transaction: {', '.join(inside) or 'none'}")
        self.rest(seconds)
        for zombie in zombies.values():
            self.field.go_on(zombie)
        self.until(lambda: all(zombie.poll() is not None for zombie in zombies.values()), timeout_s=8)
        codes = {name: zombie.poll() for name, zombie in zombies.items()}
        said = ", ".join("lives on as one of two" if code is None else f"exit {code}" for code in codes.values())
        self.note("go on", list(zombies), said)
        return codes

    def restart_broker(
        self, *, kill: bool, services: Sequence[str] = (), wait_s: float = 10.0
    ) -> tuple[list[str], int]:
        """The broker goes while services and a stranger are inside transactions.

        Returns the services that were inside one, and how many partitions stood behind open transactions.
        """
        chosen = list(services) or some(self.chance, TRANSACTIONAL, 5)
        for service in chosen:
            self.field.order(service, self.chance.choice(("produced", "offsets-sent")), "stop")
        self.until(lambda: any(self.field.frozen(name) for name in chosen), timeout_s=wait_s)
        with self.field.stranger():
            held = self.field.held_back()
            inside = [name for name in chosen if not self.field.withdraw(name)]
            began = time.monotonic()
            if kill:
                self.field.kill_broker()
            else:
                self.field.kafka.down()
            what = "broker killed" if kill else "broker stopped"
            self.note(what, inside, f"{len(held)} partitions behind open transactions")
            early = self.chance.random() < 0.5  # some meet a broker that is away, some one that is back
            if early:
                self._thaw(inside)
            self.rest(self.chance.uniform(0.0, 3.0))
            self.field.kafka.up()
            self.note("broker is back", [], f"after {time.monotonic() - began:.1f} s")
            self._thaw(inside)
        return inside, len(held)

    def _thaw(self, services: Sequence[str]) -> None:
        for name in services:
            self.field.go_on(self.field.process(name))

    # -- what is kept

    def as_data(self) -> dict[str, Any]:
        """Everything that happened, for a file."""
        return {
            "seed": self.seed,
            "kills": self.killed,
            "kills_by_service": {name: self.kills[name] for name in SERVICES},
            "strikes": dict(self.counts),
            "timeline": [asdict(strike) for strike in self.timeline],
            "progress": self.progress,
            "rounds_s": self.rounds_s,
        }
