"""What a bank of many states holds: its decisions by the real decider, and how much of it differs."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bat_events.deciders.bank import Bank
from bat_events.domain.bank import SourceCell, StateRequest, cell_order
from bat_events.events.bank import LeakageVerdict, StateAdmitted, StateRefused, StateSynthesized, SynthesisFailed

from .make import CAMPAIGN, BenchContext, Made, told

MEASURED = (
    "prompt", "own prompt", "own prompt to 4", "own prompt in its cell", "own prompt to 4 in its cell", "workspace",
    "own workspace", "condition", "picture",
)  # fmt: skip


@dataclass
class Differing:
    """Distinct values among candidates, as they come; `picture` counts the cases' images, four to a state."""

    seen: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in MEASURED})
    growth: list[dict[str, int]] = field(default_factory=list)
    states: int = 0

    def add(self, made: Made) -> None:
        """Count one candidate."""
        event = made.drafts[0].event
        if not isinstance(event, StateSynthesized):
            return
        self.states += 1
        cell = made.request.cell.name
        values = {
            "prompt": made.prompt,
            "own prompt": event.own_prompt,
            "own prompt to 4": made.rough_prompt,
            "own prompt in its cell": f"{cell} {event.own_prompt}",
            "own prompt to 4 in its cell": f"{cell} {made.rough_prompt}",
            "workspace": event.workspace_digest,
            "own workspace": event.own_workspace,
            "condition": event.condition,
        }
        for name, value in values.items():
            if value is not None:
                self.seen[name][value] += 1
        for picture in made.pictures:
            self.seen["picture"][f"{made.request.cell.track} {picture}"] += 1

    def point(self) -> None:
        """Remember how many there are by now."""
        self.growth.append({"states": self.states, **{name: len(seen) for name, seen in self.seen.items()}})

    def table(self) -> list[dict[str, Any]]:
        """For each part: how many have it, how many are distinct, the share, and how many have an equal one."""
        return [
            {
                "part": name,
                "with": (total := sum(seen.values())),
                "distinct": len(seen),
                "distinct_share": len(seen) / total if total else None,
                "repeated": sum(n for n in seen.values() if n > 1),
                "largest_class": max(seen.values(), default=0),
            }
            for name, seen in self.seen.items()
        ]


@dataclass
class Ledger:
    """The real bank over everything that was made."""

    bank: Bank
    refused: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    evidence: list[str] = field(default_factory=list)  # of rejections; names places and kinds, quotes nothing
    admitted: Counter[SourceCell] = field(default_factory=Counter)
    pass_s: float = 0.0

    @classmethod
    def begun(cls, context: BenchContext) -> "Ledger":
        """A bank that knows the campaign."""
        bank = Bank(CAMPAIGN)
        bank.apply(context.facts[0])
        return cls(bank)

    def fold(self, made: Iterable[Made]) -> None:
        """Let the bank know these states and verdicts."""
        for one in made:
            for draft in one.drafts:
                event = draft.event
                self.bank.apply(told(draft, by="bench"))
                if isinstance(event, SynthesisFailed):
                    self.failed[event.reason] += 1
                elif isinstance(event, LeakageVerdict) and not event.cleared:
                    failing = [check for check in event.checks if not check.passed]
                    self.rejected.update(check.name for check in failing)
                    said = "; ".join(f"{check.name}: {check.evidence}" for check in failing)
                    self.evidence.append(f"{one.request.key}: {said}")

    def decide(self) -> None:
        """What the bank makes of all it knows, in one pass of the decider."""
        began = time.process_time()
        drafts = self.bank.required()
        self.pass_s = time.process_time() - began
        self.refused, self.admitted = Counter(), Counter()
        for draft in drafts:
            event = draft.event
            if isinstance(event, StateRefused):
                self.refused[f"same {event.reason}"] += 1
            elif isinstance(event, StateAdmitted):
                self.admitted[SourceCell(event.focus, event.track, event.outcome)] += 1


def shares(states: int, tracks: Sequence[Any]) -> dict[SourceCell, int]:
    """How many of so many states each cell gets when the grid is gone through cell by cell."""
    cells = cell_order(tracks)
    return {cell: states // len(cells) + (place < states % len(cells)) for place, cell in enumerate(cells)}


def short_of(
    wanted: Mapping[SourceCell, int], admitted: Mapping[SourceCell, int], asked: Counter[SourceCell]
) -> list[StateRequest]:
    """The further requests of the cells that lost states, as the bank would make them up; counted in `asked`.

    Raises RuntimeError for a cell that lost more than a bank makes up for.
    """
    more = []
    for cell, count in wanted.items():
        for _ in range(count - admitted.get(cell, 0)):
            more.append(StateRequest(cell, asked[cell]))
            asked[cell] += 1
        if asked[cell] > count + Bank.settings.rejection_allowance:
            raise RuntimeError(f"cell {cell.name} lost {asked[cell] - count} states: the bank would be exhausted")
    return more
