"""The text a policy is shown for a receipt: one format for practice, evaluation and demonstrations."""

from bat_events.sandbox.interface import CallEnd

BREACH_WARNING = "breach: blocked; one more ends this with nothing"
"""What a policy is told of its first breach; it is not shown another one."""


def render_observation(*, end: CallEnd, exit_code: int | None, stdout: str, stderr: str, max_chars: int) -> str:
    """The observation of one call: output first, then errors, then how the call ended where it was not plain success.

    Longer text than `max_chars` keeps its head and tail around a marker, so that the policy can see that it was cut.
    """
    text = stdout.strip("\n")
    if stderr.strip():
        text = f"{text}\n{stderr.strip()}" if text else stderr.strip()
    if end != "exited":
        mark = BREACH_WARNING if end == "breach" else end
        text = f"{text}\n[{mark}]" if text else f"[{mark}]"
    elif exit_code:
        text = f"{text}\n[exit {exit_code}]" if text else f"[exit {exit_code}]"
    return clip_observation(text or "[ok]", max_chars)


def clip_observation(text: str, max_chars: int) -> str:
    """At most `max_chars` characters: head and tail around a marker."""
    if len(text) <= max_chars:
        return text
    marker = "\n[cut]\n"
    keep = max(max_chars - len(marker), 2)
    return text[: keep - keep // 2] + marker + text[len(text) - keep // 2 :]
