"""`bat-events audit search` and `bat-events audit boundary`: what the audit's SQL cannot see, and all of it in one table."""

import time
from collections.abc import Callable

from bat_events.artifacts import ArtifactStore
from bat_events.audit import denied
from bat_events.audit.boundary import AccessRules, BoundaryReport, report
from bat_events.audit.errors import AuditError
from bat_events.audit.result import Result
from bat_events.audit.run import run_query
from bat_events.audit.search import Searcher, SearchResult
from bat_events.cli.common import bootstrap, local_broker
from bat_events.codec import Codec, Fact
from bat_events.consumers.fingerprints import FINGERPRINT_KEY, from_log
from bat_events.errors import BatError, DecodeError, LogError
from bat_events.events.campaign import CampaignStarted
from bat_events.log.access import ADMIN, OPEN_TOPICS, rules
from bat_events.log.acls import rules_over
from bat_events.log.admin import learn_schemas
from bat_events.log.cluster import Address
from bat_events.log.interface import Record
from bat_events.log.kafka_reader import KafkaReader
from bat_events.service.context import existing_secret, sign_in
from bat_events.settings import Settings

Say = Callable[[str], None]
_SAY_EVERY_S = 2.0
_BATCH = 500


class NotObservable(BatError):
    """The search cannot be made: the message says what is missing."""


def search(settings: Settings, campaign: str | None, say: Say) -> SearchResult:
    """Search a campaign's bytes (the latest one's where none is named) as the auditor. Raises NotObservable, LogError."""
    key = existing_secret(settings.home.absolute(), FINGERPRINT_KEY)
    if key is None:
        raise NotObservable(
            f"secrets/{FINGERPRINT_KEY} of this home, which the fingerprints are made with, is not there"
        )
    address = sign_in(settings, bootstrap(settings, start=False), "auditor")
    codec = Codec()
    learn_schemas(codec, address, settings.namespace)
    begun = [fact for fact in _facts(settings, address, codec, "campaign") if isinstance(fact.event, CampaignStarted)]
    if campaign is None:
        if not begun:
            raise NotObservable("no campaign was started in this namespace")
        campaign = max(begun, key=lambda fact: (fact.envelope.time, fact.id)).envelope.campaign
    elif campaign not in {fact.envelope.campaign for fact in begun}:
        raise NotObservable(f"campaign {campaign} was never started in this namespace")
    known = from_log(_facts(settings, address, codec, "boundary.fingerprint"), campaign, key)
    if known is None or not known.complete:
        raise NotObservable(f"the held-out fingerprints of campaign {campaign} are not all on the log")
    # The key's own spelling is a canary: where it stands, whoever reads can test guesses at held-out text.
    canaries = (key.hex(), *settings.canary_strings())
    store = ArtifactStore(settings.artifact_root(), cache=settings.home.absolute() / "cache")
    searcher = Searcher(campaign=campaign, known=known, canaries=canaries, store=store, codec=codec)
    reader = KafkaReader(bootstrap=address, namespace=settings.namespace, topics=OPEN_TOPICS, group="auditor")
    try:
        _stream(reader, searcher.record, searcher, say)
    finally:
        reader.close()
    return searcher.result()


def _stream(reader: KafkaReader, take: Callable[[Record], None], searcher: Searcher, say: Say) -> None:
    ends = reader.end_offsets()
    total, done, told = sum(ends.values()), 0, time.monotonic()
    while not reader.caught_up():
        for record in reader.poll(_BATCH, 0.2):
            take(record)
            done += 1
            if time.monotonic() - told > _SAY_EVERY_S:
                told = time.monotonic()
                say(
                    f"searched {done} of about {total} records, {searcher.artefacts} artefacts, "
                    f"{searcher.size / 2**20:.0f} MiB"
                )


def _facts(settings: Settings, address: Address, codec: Codec, topic: str) -> list[Fact]:
    """The first event of each id of a small topic; what is no event is passed over here and shown by the search."""
    reader = KafkaReader(bootstrap=address, namespace=settings.namespace, topics=[topic], group="auditor")
    found: dict[str, Fact] = {}
    try:
        while not reader.caught_up():
            for record in reader.poll(_BATCH, 0.2):
                try:
                    fact = codec.decode(record)
                except DecodeError:
                    continue
                found.setdefault(fact.id, fact)
    finally:
        reader.close()
    return list(found.values())


def boundary(settings: Settings, campaign: str | None, say: Say) -> BoundaryReport:
    """Every check that can be made here; what cannot stands in the table with its reason."""
    home, namespace = settings.home.absolute(), settings.namespace
    found: SearchResult | str
    try:
        found = search(settings, campaign, say)
        campaign = found.campaign
    except BatError as error:
        found = f"the search was not made: {error}"
    params = {} if campaign is None else {"campaign": campaign}
    log: Result | str
    since = None
    try:
        log = run_query(home, namespace, name="boundary_checks", params=params)
        begun = run_query(
            home, namespace, sql="SELECT campaign, started FROM campaigns ORDER BY started DESC, campaign"
        )
        rows = [row for row in begun.dicts() if campaign in (None, row["campaign"])]
        if rows:
            campaign, since = rows[0]["campaign"], str(rows[0]["started"])
    except AuditError as error:
        log = str(error)
    return report(
        campaign=campaign or "none",
        log=log,
        search=found,
        rules=access_rules(settings),
        denials=denied.look(local_broker(settings), settings.bootstrap),
        namespace=namespace,
        since=since,
    )


def access_rules(settings: Settings) -> AccessRules | str:
    """The broker's rules beside the matrix, or why they cannot be seen."""
    if not settings.secured:
        return "the broker is used without logins: it keeps nobody from any topic"
    if not (settings.kafka_secrets() / ADMIN).exists():
        return "the admin's password is not on this machine, and only the admin may read the rules"
    try:
        there = set(rules_over(sign_in(settings, bootstrap(settings, start=False), ADMIN), settings.namespace))
    except (LogError, BatError) as error:
        return str(error)
    wanted = set(rules(settings.namespace))
    extra = tuple(f"{r.user} may {r.operation} {r.resource} {r.name}" for r in sorted(there - wanted))
    missing = tuple(f"{r.user} {r.operation} {r.resource} {r.name}" for r in sorted(wanted - there))
    return AccessRules(looked_at=len(there), extra=extra, missing=missing)
