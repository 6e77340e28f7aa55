"""The rules of a judge that reads texts: what it is called, what it may change, what it is shown, which rollouts are sampled."""

from bat_events.domain.canonical import seed63

EVIDENCE = "evidence"
"""The judge that reads receipts and workspaces only."""

TEXT_VERSION = 1
"""Of the instructions and the form in which a model is asked: another one makes another judge."""

WITH_TEXT = f"{EVIDENCE}+text-{TEXT_VERSION}"
"""The judge that asks a model about texts, below the evidence."""

_PARTS = (0.4, 0.2, 0.4)  # of a text that is too long: its beginning, its middle, its end


def bounded(asked: float, cap: float) -> float:
    """What an item scores: never more than the evidence alone gives it, whatever a text says or a model thinks."""
    return min(asked, cap)


def in_sample(rollout: str, share: float) -> bool:
    """Whether a rollout is in a sample of this share: the same answer everywhere, and no choice of the policy."""
    return seed63("shadow", rollout) < share * (1 << 63)


def clipped(text: str, limit: int) -> str:
    """The text, or its beginning, middle and end of `limit` characters in all, with what was left out counted."""
    if len(text) <= limit:
        return text
    head, middle, tail = (int(limit * part) for part in _PARTS)
    start = (len(text) - middle) // 2
    left_out = (start - head, len(text) - tail - start - middle)
    first, second = (f"\n[{count} characters left out]\n" for count in left_out)
    return text[:head] + first + text[start : start + middle] + second + text[len(text) - tail :]
