"""Every decider in every version, by name and version: the one table that services and replay look versions up in.

A campaign pins the versions that decide it (CampaignStarted.logic). A new version of a decider is the class in its
module; the version before moves to deciders/old and stays, so a log is decided and replayed by what it pins.
"""

from collections.abc import Iterable

from bat_events.deciders.bank import Bank
from bat_events.deciders.gate import Gate
from bat_events.deciders.in_force import pinned_rubric, pinned_version
from bat_events.deciders.interface import Decider
from bat_events.deciders.old.bank import BankV1
from bat_events.deciders.old.planner import PlannerV1, PlannerV2
from bat_events.deciders.planner import Planner
from bat_events.deciders.premises import Premises
from bat_events.deciders.teacher import Teacher
from bat_events.domain import rubric
from bat_events.events.campaign import LogicVersion

__all__ = [
    "DECIDERS",
    "NEWEST",
    "OLD",
    "TAKES_OVER",
    "check_versions",
    "newest_logic",
    "pinned_rubric",
    "pinned_version",
    "refusal",
    "versions_of",
]

NEWEST: tuple[type[Decider], ...] = (Bank, Gate, Planner, Teacher)
"""What a campaign that begins now pins."""

OLD: tuple[type[Decider], ...] = (BankV1, PlannerV2, PlannerV1)

DECIDERS: dict[str, type[Decider]] = {f"{kind.name}/{kind.version}": kind for kind in (*NEWEST, *OLD)}
"""As events name them in `bat_logic`, such as `planner/1`."""

TAKES_OVER: dict[str, frozenset[int]] = {"planner/3": frozenset({2})}
"""Which version of a decider may go on in the middle of a campaign, and after which.

Planner 3 may after planner 2: both draw and wait alike, and a round that 3 plans is said to be broken off, or a group abandoned,
to services that know these words from every campaign. Not the other way: where a plan has a breaker the trainer waits for
planner 3 to break the round off, and planner 2 never does. Neither may after planner 1: it goes with bank 1, which
retires nothing, and later planners wait until used states are retired. Only the planner's decisions belong to rounds that a
boundary can part, so other deciders stay as pinned; a fork begins anew with the newest versions.
"""


def refusal(in_force: int, name: str, version: int) -> str | None:
    """Why a campaign, in which `in_force` decides, cannot go over to that version of a decider, in words; None where it can."""
    logic = f"{name}/{version}"
    if name != "planner":
        return f"{name} stays in the version that a campaign begins with: only the planner's decisions belong to rounds"
    if logic not in DECIDERS:
        return f"no decider {logic} here; here are {', '.join(sorted(key for key in DECIDERS if key.startswith(name)))}"
    if version == in_force:
        return f"{logic} decides already"
    if in_force not in TAKES_OVER.get(logic, ()):
        return f"{logic} cannot go on where {name}/{in_force} has decided (docs/replay.md): fork the campaign instead"
    return None


def versions_of(name: str) -> tuple[type[Decider], ...]:
    """The versions of a decider that are here, newest first."""
    return tuple(kind for kind in (*NEWEST, *OLD) if kind.name == name)


def newest_logic() -> tuple[LogicVersion, ...]:
    """Everything that a campaign which begins now pins: its deciders, their premises and the rubric."""
    pins = [LogicVersion(name=kind.name, version=kind.version) for kind in NEWEST]
    premises = LogicVersion(name=Premises.NAME, version=Premises.VERSION)
    return (*pins, premises, LogicVersion(name=rubric.NAME, version=rubric.NEWEST))


def check_versions(kinds: Iterable[type[Decider]]) -> dict[int, type[Decider]]:
    """The versions of one decider by number.

    Raises TypeError where they do not share name, inputs and outputs: they are one service, with one set of topics.
    """
    found: dict[int, type[Decider]] = {}
    first: type[Decider] | None = None
    for kind in kinds:
        first = first or kind
        if (kind.name, kind.inputs, kind.outputs) != (first.name, first.inputs, first.outputs):
            raise TypeError(
                f"{kind.__name__} and {first.__name__} differ in name, inputs or outputs: give one another name"
            )
        if kind.version in found:
            raise TypeError(f"{kind.__name__} and {found[kind.version].__name__} have version {kind.version} both")
        found[kind.version] = kind
    if not found:
        raise TypeError("a decider needs at least one version")
    return found
