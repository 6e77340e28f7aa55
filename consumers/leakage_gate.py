"""Clears or rejects practice states: StateSynthesized -> LeakageVerdict.

It holds keyed fingerprints of held-out content, never the content. Without fingerprints it admits nothing and waits.
"""

from collections.abc import Mapping, Sequence

from bat_events.benchmark.body import decode_files
from bat_events.codec import Fact
from bat_events.consumers.fingerprints import FINGERPRINT_KEY, file_text, from_log
from bat_events.consumers.meanings import MeaningScanner, meanings_from_log
from bat_events.deciders.interface import Draft
from bat_events.domain.leakage import CheckResult, Scanner, cleared
from bat_events.embedding import embedder
from bat_events.events.bank import LeakageCheck, LeakageVerdict, StateSynthesized
from bat_events.events.envelope import Cost
from bat_events.service.context import Context
from bat_events.service.measure import stopwatch
from bat_events.service.runtime import Retryable

__all__ = ["FINGERPRINT_KEY", "LeakageGate", "Scanners", "as_checks", "document"]


class Checker:
    """Every check of one campaign: the domain's, and the check of meaning where settings name an embedding model."""

    def __init__(self, scanner: Scanner, meaning: MeaningScanner | None = None) -> None:
        self._scanner, self._meaning = scanner, meaning

    def check(self, document: Mapping[str, object]) -> tuple[CheckResult, ...]:
        """All results in order. Raises ValueError, see Scanner; Retryable, see MeaningScanner."""
        results = self._scanner.check(document)
        return results if self._meaning is None else (*results, self._meaning.check(document))


class Scanners:
    """A checker for each campaign, made when its fingerprints are there."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[str, Checker] = {}

    def of(self, campaign: str) -> Checker:
        """Waits for the campaign's fingerprints. Raises Retryable when the service is asked to end meanwhile."""
        if campaign not in self._known:
            self._context.status.say("waiting for held-out fingerprints: nothing is admitted without them")
            key = self._context.secret(FINGERPRINT_KEY)
            found = from_log(self._context.read_all("boundary.fingerprint"), campaign, key)
            while found is None and not self._context.stop.wait(0.5):
                found = from_log(self._context.read_all("boundary.fingerprint"), campaign, key)
            if found is None:
                raise Retryable("stopped while waiting for held-out fingerprints")
            scanner = Scanner(found, self._context.settings.canary_strings())
            self._known[campaign] = Checker(scanner, self._meaning(campaign, key))
        return self._known[campaign]

    def _meaning(self, campaign: str, key: bytes) -> MeaningScanner | None:
        made = embedder(self._context.settings.embedding)
        if made is None:
            return None
        known = meanings_from_log(self._context.read_all("boundary.fingerprint"), campaign, key, made)
        while known is None and not self._context.stop.wait(0.5):
            self._context.status.say("waiting for sketches of held-out meaning: nothing is admitted without them")
            known = meanings_from_log(self._context.read_all("boundary.fingerprint"), campaign, key, made)
        if known is None:
            raise Retryable("stopped while waiting for sketches of held-out meaning")
        return MeaningScanner(made, known)


class LeakageGate:
    """See the module."""

    name = "leakage-gate"
    version = 2
    topic = "bank.state"
    outputs: tuple[str, ...] = ("bank.verdict",)

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scanners = Scanners(context)

    def wants(self, fact: Fact) -> bool:
        """See Handler."""
        return isinstance(fact.event, StateSynthesized)

    def handle(self, fact: Fact) -> Sequence[Draft]:
        """Run every check on the state's body."""
        state: StateSynthesized = fact.event  # type: ignore[assignment]
        campaign = fact.envelope.campaign
        watch = stopwatch()
        scanner = self._scanners.of(campaign)
        self._context.status.say(f"checking {state.focus} {state.track} {state.outcome} {state.ordinal}")
        results = scanner.check(document(self._context.store.get_json(state.body)))
        event = LeakageVerdict(
            state=state.state,
            focus=state.focus,
            track=state.track,
            outcome=state.outcome,
            ordinal=state.ordinal,
            body=state.body,
            cleared=cleared(results),
            checks=as_checks(results),
        )
        cost = Cost(wall_s=watch())
        return [Draft(event=event, campaign=campaign, cause=fact.id, ordinal=0, key=state.state, cost=cost)]


def as_checks(results: Sequence[CheckResult]) -> tuple[LeakageCheck, ...]:
    """Results as an event records them."""
    return tuple(
        LeakageCheck(name=result.name, passed=result.passed, evidence="; ".join(result.evidence)) for result in results
    )


def document(body: Mapping[str, object]) -> dict[str, object]:
    """What the checks read of a state body: its texts, its text files as text, of its other files the digests.

    Base64 of an image would look like an absolute path now and then; its digest finds a held-out image as surely.
    """
    files: dict[str, object] = {}
    for part in ("inputs", "files"):
        encoded: Mapping[str, str] = body[part]  # type: ignore[assignment]
        for path, content in decode_files(encoded).items():
            files[path] = file_text(content)
    return {"system": body["system"], "prompt": body["prompt"], "files": files}
