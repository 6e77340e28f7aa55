"""Issues a rollout's receipts for the log: chained, signed and sealed by the runtime, outside the sandbox.

Code, outputs and files stand in the evidence artefact; a receipt holds their digests, so that the artefact can be held
against it and judged again.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bat_events.domain.canonical import Json
from bat_events.domain.receipts import chain_faults, changes_digest, link_digest, seal_digest
from bat_events.events.rollouts import CallReceipt, RolloutCompleted
from bat_events.sandbox.interface import Receipt
from bat_events.sandbox.workspace import Snapshot
from bat_events.signing import SigningKey, verify

_UNSIGNED = "0" * 128


@dataclass(frozen=True, kw_only=True)
class Signed:
    """A rollout's receipts as they go on the log."""

    receipts: tuple[CallReceipt, ...]
    signer: str
    seal: str


def sign_receipts(receipts: Sequence[Receipt], *, start: str, evidence: str, end: str, key: SigningKey) -> Signed:
    """Chain, sign and seal what the sandbox's runtime saw. `start` is domain.receipts.chain_start's."""
    previous, links = start, []
    for receipt in receipts:
        link = call_receipt(receipt)
        made = link_digest(previous, link)
        links.append(link.model_copy(update={"digest": made, "signature": key.sign(made)}))
        previous = made
    seal = key.sign(seal_digest(previous, calls=len(links), evidence=evidence, end=end))
    return Signed(receipts=tuple(links), signer=key.public, seal=seal)


def call_receipt(receipt: Receipt) -> CallReceipt:
    """A receipt's digests, not yet chained or signed."""
    return CallReceipt(
        ordinal=receipt.index,
        engine=receipt.engine,
        isolation=receipt.isolation,
        language=receipt.language,
        code=receipt.code_digest,
        exit_code=receipt.exit_code,
        end=receipt.end,
        stdout=_digest(receipt.stdout),
        stderr=_digest(receipt.stderr),
        workspace_before=receipt.workspace_before,
        workspace_after=receipt.workspace_after,
        changes=changes_digest([(change.path, change.before, change.after) for change in receipt.changes]),
        changed=len(receipt.changes),
        digest="0" * 64,
        signature=_UNSIGNED,
    )


def receipt_faults(
    rollout: RolloutCompleted,
    receipts: Sequence[Receipt],
    codes: Sequence[str],
    files: Mapping[str, bytes],
    *,
    start: str,
    begun: Mapping[str, bytes],
) -> Iterator[tuple[str, Json, Json]]:
    """(field, as it stands there, as it must be) of everything in which evidence and signed receipts do not fit.

    receipts, codes, files: what the evidence artefact holds. begun: the writable files that the rollout began with.
    """
    if rollout.receipts is None or rollout.signer is None or rollout.seal is None:
        yield "receipts", None, "receipts, their signer and a seal"
        return
    signer = rollout.signer
    yield from chain_faults(
        rollout.receipts,
        start=start,
        seal=rollout.seal,
        evidence=rollout.evidence,
        end=rollout.end,
        verify=lambda made, signature: verify(signer, made, signature),
    )
    if len(receipts) != len(rollout.receipts):
        yield "receipts.length", len(rollout.receipts), len(receipts)
    for link, receipt, code in zip(rollout.receipts, receipts, codes, strict=False):
        at = f"receipts[{link.ordinal}]"
        expected = call_receipt(receipt)
        for name in CallReceipt.model_fields:
            if name not in ("digest", "signature") and getattr(link, name) != getattr(expected, name):
                yield f"{at}.{name}", getattr(link, name), getattr(expected, name)
        if link.code != hashlib.sha256(code.encode(errors="surrogatepass")).hexdigest():
            yield f"{at}.code", link.code, "the digest of the code that the evidence holds"
    first, last = workspace_digest(begun), workspace_digest(files)
    if rollout.receipts and rollout.receipts[0].workspace_before != first:
        yield "receipts[0].workspace_before", rollout.receipts[0].workspace_before, first
    ended = rollout.receipts[-1].workspace_after if rollout.receipts else first
    if ended != last:
        yield "workspace", last, ended


def workspace_digest(files: Mapping[str, bytes]) -> str:
    """The digest of a writable workspace with these files, as receipts have it."""
    rows = {path: (len(content), hashlib.sha256(content).hexdigest()) for path, content in files.items()}
    return Snapshot(files=rows, over=False).digest


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
