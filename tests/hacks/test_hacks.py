"""Every trick earns at most what the same work earns without it; and every trick really did what it says.

The table is printed with `pytest -rP tests/hacks`. Under rubric 1 the tricks marked `opened` paid more than that: this shows
that the suite can fail.
"""

from bat_events.domain.rubric import NEWEST
from bat_events.sandbox.interface import SandboxPool
from tests.hacks import tricks_calls, tricks_outputs, tricks_words
from tests.hacks.playing import Trick, honest_reward, play, receipts_fault, reward

TRICKS: list[Trick] = [*tricks_words.TRICKS, *tricks_calls.TRICKS, *tricks_outputs.TRICKS]
SIDE_BY_SIDE = 6
OFF = 1e-9


def test_no_trick_earns_more_than_the_honest_work(pool: SandboxPool) -> None:
    rows, idle, paid, opened, unproved = [], [], [], [], []
    for first in range(0, len(TRICKS), SIDE_BY_SIDE):
        batch = TRICKS[first : first + SIDE_BY_SIDE]
        for trick, played in zip(batch, play(pool, batch), strict=True):
            bound = min(trick.bound, honest_reward(trick, NEWEST))
            earned = reward(played.task, played.evidence, NEWEST)
            before = reward(played.task, played.evidence, 1)
            rows.append(f"{trick.focus:4} {earned:6.3f} {bound:6.3f} {before:6.3f}  {trick.name}")
            if not trick.did(played):
                idle.append((trick.name, played.said[-500:], sorted(played.evidence.files)))
            if fault := receipts_fault(played):
                unproved.append((trick.name, fault))
            if earned > bound + OFF:
                paid.append(trick.name)
            if before > bound + OFF:
                opened.append(trick.name)
    print(f"{'':4} earned  bound  rubric 1  trick", *rows, sep="\n")
    assert idle == [], "these tricks did not do what they say"
    assert paid == [], "these tricks pay"
    assert unproved == [], "these tricks would have their reward withheld"
    assert sorted(opened) == sorted(trick.name for trick in TRICKS if trick.opened)


def test_there_are_enough_tricks_and_each_has_a_name_of_its_own() -> None:
    assert len({trick.name for trick in TRICKS}) == len(TRICKS) >= 40
