"""The reference's order: everything of one kind is done before anything of the next begins.

The round's view is built inline; then, step by step, all groups are sampled, and the batch waits for the slowest; all rollouts
are judged; the step is trained; the next begins. Then the candidate is evaluated. Its samplers take groups in order as
they become free, which is better than any fixed split: what is compared is the order of work, not the placement.
"""

from collections.abc import Sequence

from .durations import Durations
from .spans import Round, Span, in_order

Groups = Sequence[Sequence[str]]
"""The rollouts of each group of one step."""


def synchronous_round(
    steps: Sequence[Groups], durations: Durations, *, samplers: int, judges: int, synthesizers: int = 1
) -> Round:
    """The round, begun at 0. `steps` names its rollouts; one state is made for every group."""
    spans = []
    states = sum(len(groups) for groups in steps)
    each = [durations.synthesis + durations.gate] * states
    made = in_order(0.0, each, synthesizers)
    spans += [Span(f"synthesis {worker}", "synthesis", begin, end) for begin, end, worker in made]
    now = max((end for _, end, _ in made), default=0.0)
    waited = now
    for number, groups in enumerate(steps):
        sampled = in_order(now, [durations.of_group(group) for group in groups], samplers)
        spans += [Span(f"sampler {worker}", "sample", begin, end, number) for begin, end, worker in sampled]
        now = max(end for _, end, _ in sampled)
        rollouts = [rollout for group in groups for rollout in group]
        judged = in_order(now, [durations.of_judgement(rollout) for rollout in rollouts], judges)
        spans += [Span(f"judge {worker}", "judge", begin, end, number) for begin, end, worker in judged]
        now = max(end for _, end, _ in judged)
        spans.append(Span("trainer", "train", now, now + durations.step, number))
        now += durations.step
    spans.append(Span("evaluator", "evaluate", now, now + durations.evaluation))
    lags = [0] * states
    end = now + durations.evaluation
    return Round(begin=0.0, end=end, spans=spans, samplers=samplers, lags=lags, waited_for_states=waited)
