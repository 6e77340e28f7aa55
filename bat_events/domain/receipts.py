"""The chain of a rollout's receipts: what each link says, which digest names it, and what is wrong with a chain.

A link holds one call: who ran it how, the digests of code, output and workspace, how it ended. Its digest covers the digest of
the link before; the first follows `chain_start`, which binds group, rollout, state body and starting workspace. The seal
binds the last link to the evidence artefact and the rollout's end, so nothing can be cut off. No clock is in it: a rollout
done again has the same chain. Digests and seal are signed from outside (bat_events.signing).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from bat_events.domain.canonical import Json, digest
from bat_events.domain.rubric import MAX_BREACHES

VERSION = "receipt/1"

Verify = Callable[[str, str], bool]
"""(digest, signature) -> whether the key that is asked about made it."""


class Link(Protocol):
    """What is read of a receipt on the log: events.rollouts.CallReceipt is one."""

    @property
    def ordinal(self) -> int: ...
    @property
    def engine(self) -> str: ...
    @property
    def isolation(self) -> str: ...
    @property
    def language(self) -> str: ...
    @property
    def code(self) -> str: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def end(self) -> str: ...
    @property
    def stdout(self) -> str: ...
    @property
    def stderr(self) -> str: ...
    @property
    def workspace_before(self) -> str: ...
    @property
    def workspace_after(self) -> str: ...
    @property
    def changes(self) -> str: ...
    @property
    def changed(self) -> int: ...
    @property
    def digest(self) -> str: ...
    @property
    def signature(self) -> str: ...


def chain_start(*, group: str, rollout: str, body: str, workspace: str) -> str:
    """What the first receipt follows: whose rollout it is, and the digests of its state's body and whole workspace."""
    return digest([VERSION, "start", group, rollout, body, workspace])


def link_digest(previous: str, link: Link) -> str:
    """The digest of a receipt that follows `previous`."""
    fields: dict[str, Json] = {
        "ordinal": link.ordinal,
        "engine": link.engine,
        "isolation": link.isolation,
        "language": link.language,
        "code": link.code,
        "exit_code": link.exit_code,
        "end": link.end,
        "stdout": link.stdout,
        "stderr": link.stderr,
        "workspace_before": link.workspace_before,
        "workspace_after": link.workspace_after,
        "changes": link.changes,
        "changed": link.changed,
    }
    return digest([VERSION, "call", previous, fields])


def changes_digest(changes: Sequence[tuple[str, str | None, str | None]]) -> str:
    """The digest of what a call changed: (path, digest before, digest after) of each path, sorted by path."""
    return digest([VERSION, "changes", [list(change) for change in changes]])


def seal_digest(last: str, *, calls: int, evidence: str, end: str) -> str:
    """What closes a chain of `calls` receipts whose last digest is `last`: the evidence artefact and the rollout's end."""
    return digest([VERSION, "seal", last, calls, evidence, end])


def chain_faults(
    links: Sequence[Link], *, start: str, seal: str, evidence: str, end: str, verify: Verify
) -> Iterator[tuple[str, Json, Json]]:
    """(field, as it stands there, as it must be) of everything that is wrong with a rollout's receipts."""
    previous = start
    for number, link in enumerate(links):
        at = f"receipts[{number}]"
        if link.ordinal != number:
            yield f"{at}.ordinal", link.ordinal, number
        before = links[number - 1].workspace_after if number else link.workspace_before
        if link.workspace_before != before:
            yield f"{at}.workspace_before", link.workspace_before, before
        if (link.exit_code is None) == (link.end == "exited"):
            yield f"{at}.exit_code", link.exit_code, "an exit code where, and only where, the call exited"
        if (link.workspace_before != link.workspace_after) != (link.changed > 0):
            yield f"{at}.changed", link.changed, "changes where, and only where, the workspace has another digest"
        made = link_digest(previous, link)
        if link.digest != made:
            yield f"{at}.digest", link.digest, made
        if not verify(link.digest, link.signature):
            yield f"{at}.signature", link.signature, "a signature of this digest by the rollout's signer"
        previous = link.digest
    if not verify(seal_digest(previous, calls=len(links), evidence=evidence, end=end), seal):
        yield "seal", seal, "a signature of the last receipt, the evidence and the end by the rollout's signer"
    breaches = sum(link.end == "breach" for link in links)
    if (end == "breach") != (breaches >= MAX_BREACHES) or breaches > MAX_BREACHES:
        yield "end", end, f"breach where, and only where, {MAX_BREACHES} calls breached: {breaches} did"
