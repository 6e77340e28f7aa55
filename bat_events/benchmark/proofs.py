"""Who left a file as it is: the receipts read against the final workspace. Times, names and words of the policy play no part."""

import hashlib
from collections.abc import Mapping, Sequence

from bat_events.domain.rubric import Call
from bat_events.sandbox.interface import FileChange, Receipt


def calls_of(receipts: Sequence[Receipt]) -> list[Call]:
    """What the rules of a reward read of receipts."""
    return [Call(exit_code=r.exit_code, end=r.end, changed=bool(r.changes)) for r in receipts]


def succeeded(receipt: Receipt) -> bool:
    """Whether the call ran to its end and exited 0."""
    return receipt.end == "exited" and receipt.exit_code == 0


def last_change(receipts: Sequence[Receipt], path: str) -> tuple[Receipt, FileChange] | None:
    """The last call that changed a path; None where it is as the rollout found it."""
    for receipt in reversed(receipts):
        for change in receipt.changes:
            if change.path == path:
                return receipt, change
    return None


def left_by(receipts: Sequence[Receipt], files: Mapping[str, bytes], path: str) -> int | None:
    """The index of the call that exited 0 and left `path` with the content that it has; None where there is none such.

    A failing call that wrote over it later takes the proof away, whatever it wrote.
    """
    found = last_change(receipts, path)
    if found is None or path not in files or not succeeded(found[0]):
        return None
    return found[0].index if found[1].after == hashlib.sha256(files[path]).hexdigest() else None


def touched(receipts: Sequence[Receipt], path: str) -> bool:
    """Whether any call changed a path."""
    return last_change(receipts, path) is not None
