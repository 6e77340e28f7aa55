"""What a seed does to a run: which disturbances come, how often, and where it aims. Test-only.

Every seed aims at one commit point of one service, so that some hundred seeds meet each of them; the rest is drawn.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

POINTS = ("begun", "produced", "offsets-sent", "committed")
NOTARY_POINTS = (*POINTS, "noted")
Blow = Literal["dies", "freezes", "aborts"]
Fault = Literal["fails", "breaks", "kills"]

KINDS = (
    "died",
    "frozen in a transaction",
    "frozen",
    "transaction refused by the broker",
    "answer to a commit lost",
    "taken over",
    "worker joined",
    "worker left",
    "event written again",
    "poison",
    "records held back",
    "service slow",
    "effect takes time",
    "handler fails, below the limit",
    "handler fails, above the limit",
    "handler breaks, below the limit",
    "handler breaks, above the limit",
    "record kills its service, below the limit",
    "record kills its service, above the limit",
    "rules break on a fact",
    "fenced",
    "session over",
    "transaction timed out",
    "partitions moved",
    "redriven",
    "discarded",
)
"""Every kind of disturbance, and what came of them: that each of these happened is asserted over all seeds."""


@dataclass
class Trouble:
    """What is wrong with one record for one service: it happens `left` times, or until an operator mends it."""

    fault: Fault
    left: int
    until_mended: bool


@dataclass
class Chaos:
    """Draws; see the module. Without a seed nothing happens."""

    seed: int | None
    targets: Sequence[tuple[str, str, int]] = ()
    """Group, point, how often an undisturbed run passes it."""
    happened: Counter[str] = field(default_factory=Counter)
    hit: Counter[tuple[str, str]] = field(default_factory=Counter)
    passed: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        rng = self.rng
        self.on = self.seed is not None
        self.aim: tuple[str, str, int] | None = None
        self.point_rate = self.turn_rate = self.slow_share = self.effect_share = 0.0
        self.troubles: dict[str, dict[int, Trouble]] = {}
        if not self.on:
            return
        if self.targets:
            group, point, count = self.targets[(self.seed or 0) % len(self.targets)]
            self.aim = (group, point, rng.randrange(count))
        self.point_rate = rng.choice((0.0, 0.003, 0.01, 0.02))
        self.turn_rate = rng.choice((0.0, 0.005, 0.02))
        self.slow_share = rng.choice((0.0, 0.3))
        self.effect_share = rng.choice((0.0, 0.2, 0.6))

    def plan_troubles(self, groups: Sequence[tuple[str, int, bool]]) -> None:
        """Draw what goes wrong in handlers; `groups` are group, how many records it handles, whether it folds them."""
        if not self.on:
            return
        for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
            group, count, folds = self.rng.choice(groups)
            fault: Fault = "breaks" if folds else self.rng.choice(("fails", "breaks", "kills"))
            lasts = folds or self.rng.random() < 0.5
            trouble = Trouble(fault=fault, left=self.rng.randint(1, 3), until_mended=lasts)
            self.troubles.setdefault(group, {})[self.rng.randrange(count)] = trouble

    def at_point(self, group: str, point: str) -> Blow | None:
        """What happens to a service at a commit point."""
        number = self.passed[(group, point)]
        self.passed[(group, point)] += 1
        if not self.on:
            return None
        if self.aim == (group, point, number):
            self.hit[(group, point)] += 1
            return "dies"
        if self.rng.random() >= self.point_rate:
            return None
        blow: Blow = self.rng.choices(("dies", "freezes", "aborts"), (5, 3, 2))[0]
        if blow == "dies":
            self.hit[(group, point)] += 1
        return blow if blow != "aborts" or point != "noted" else None

    def freeze_s(self) -> float:
        """How long a frozen process stands: briefly, past a transaction's time, or past a session."""
        return self.rng.choice((2.0, 15.0, 70.0))

    def restart_s(self) -> float:
        """How long a supervisor takes to start a service again."""
        return self.rng.choice((0.5, 1.0, 5.0, 12.0))

    def tell(self, kind: str) -> None:
        """Count what happened."""
        assert kind in KINDS, kind
        self.happened[kind] += 1

    def at_turn(self, deeds: Sequence[Callable[[], None]]) -> None:
        """Between two steps of services: perhaps one of these deeds."""
        if self.on and self.rng.random() < self.turn_rate:
            self.rng.choice(deeds)()
