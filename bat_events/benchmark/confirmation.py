"""Which instances show whether a policy learned: a confirmation split that no service reads, and a fixed practice probe.

Confirmation seeds derive from a secret of the bench's own, not from the evaluator's; a campaign's seed goes in as well,
so that the runs that settings are chosen on see other instances than the runs that are reported. The probe's seeds are
public and the same for every campaign; no bank uses them, because a bank's seeds derive from a campaign and a state.
"""

from collections.abc import Sequence

from bat_events.benchmark.interface import TaskKey
from bat_events.domain.canonical import seed63
from bat_events.domain.vocabulary import Focus, Outcome, Split, Track

CONFIRMATION_KEY = "confirmation.key"  # the secret's name in the bench's home


def confirmation_keys(
    secret: bytes, *, benchmark: str, campaign_seed: int, tracks: Sequence[Track], instances: int
) -> list[TaskKey]:
    """`instances` end-to-end keys per track, outcomes in turn, in the order of `tracks`."""
    outcomes = list(Outcome)
    return [
        TaskKey(
            track=track,
            focus=Focus.E2E,
            outcome=outcomes[number % len(outcomes)],
            seed=seed63("confirmation", secret.hex(), benchmark, campaign_seed, track, number),
            split=Split.CONFIRMATION,
        )
        for track in tracks
        for number in range(instances)
    ]


def probe_keys(*, benchmark: str, tracks: Sequence[Track], instances: int) -> list[TaskKey]:
    """`instances` practice keys for every track, focus and outcome, in the order of `tracks`."""
    return [
        TaskKey(
            track=track,
            focus=focus,
            outcome=outcome,
            seed=seed63("practice-probe", benchmark, track, focus, outcome, number),
            split=Split.PRACTICE,
        )
        for track in tracks
        for focus in Focus
        for outcome in Outcome
        for number in range(instances)
    ]
