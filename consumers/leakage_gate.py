"""Clears or rejects practice states: StateSynthesized -> LeakageVerdict.

It holds keyed fingerprints of held-out content, never the content. Without fingerprints it admits nothing and waits.
"""

import hashlib
from collections.abc import Mapping, Sequence

from bat_events.benchmark.body import decode_files
from bat_events.codec import Fact
from bat_events.deciders.interface import Draft
from bat_events.domain.leakage import Fingerprints, cleared, run_checks
from bat_events.events.bank import LeakageCheck, LeakageVerdict, StateSynthesized
from bat_events.events.envelope import Cost
from bat_events.service.context import Context
from bat_events.service.measure import stopwatch
from bat_events.service.runtime import Retryable

FINGERPRINT_KEY = "fingerprint.key"


class LeakageGate:
    """See the module."""

    name = "leakage-gate"
    version = 1
    topic = "bank.state"
    outputs: tuple[str, ...] = ("bank.verdict",)

    def __init__(self, context: Context) -> None:
        self._context = context
        self._fingerprints: dict[str, Fingerprints] = {}

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, StateSynthesized)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """Run every check on the state's body."""
        state: StateSynthesized = fact.event  # type: ignore[assignment]
        campaign = fact.envelope.campaign
        watch = stopwatch()
        fingerprints = self._known(campaign)
        self._context.status.say(f"checking {state.focus} {state.track} {state.outcome} {state.ordinal}")
        results = run_checks(document(self._context.store.get_json(state.body)), fingerprints)
        event = LeakageVerdict(
            state=state.state,
            focus=state.focus,
            track=state.track,
            outcome=state.outcome,
            ordinal=state.ordinal,
            body=state.body,
            cleared=cleared(results),
            checks=tuple(
                LeakageCheck(name=result.name, passed=result.passed, evidence="; ".join(result.evidence))
                for result in results
            ),
        )
        cost = Cost(wall_s=watch())
        return [Draft(event=event, campaign=campaign, cause=fact.id, ordinal=0, key=state.state, cost=cost)]

    def _known(self, campaign: str) -> Fingerprints:
        if campaign not in self._fingerprints:
            self._context.status.say("waiting for held-out fingerprints: nothing is admitted without them")
            found = self._context.fingerprints(campaign)
            while found is None and not self._context.stop.wait(0.5):
                found = self._context.fingerprints(campaign)
            if found is None:
                raise Retryable("stopped while waiting for held-out fingerprints")
            key = self._context.secret(FINGERPRINT_KEY)
            self._fingerprints[campaign] = Fingerprints(key=key, exact=found)
        return self._fingerprints[campaign]


def document(body: Mapping[str, object]) -> dict[str, object]:
    """What the checks read of a state body: its texts, its text files as text, of its other files the digests.

    Base64 of an image would look like an absolute path now and then; its digest finds a held-out image as surely.
    """
    files: dict[str, object] = {}
    for part in ("inputs", "files"):
        encoded: Mapping[str, str] = body[part]  # type: ignore[assignment]
        for path, content in decode_files(encoded).items():
            try:
                text = content.decode("utf-8")
            except UnicodeDecodeError:
                text = content_digest(content)
            files[path] = text
    return {"system": body["system"], "prompt": body["prompt"], "files": files}


def content_digest(content: bytes) -> str:
    """How a file that is no text stands in a document and among the fingerprints."""
    return f"sha256 {hashlib.sha256(content).hexdigest()}"
