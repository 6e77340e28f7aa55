"""A campaign on a real Kafka: sealed, exported, verified, imported elsewhere, and there the same in every respect."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from bat_events.consumers.notary import build
from bat_events.errors import AccessDenied, LogError
from bat_events.events.heldout import EvaluationCellScored
from bat_events.log.acls import apply_access
from bat_events.log.admin import apply_topics
from bat_events.log.heads import Head, heads_path, read_heads
from bat_events.log.interface import Outgoing, Record
from bat_events.log.kafka import KafkaReader, KafkaWriter
from bat_events.log.local_kafka import LocalKafka
from bat_events.producers.imports import ImportResult, Target, import_archive
from bat_events.replay import ArchiveReader, ArchiveSource, KafkaSource, replay_campaign
from bat_events.replay.archive_format import MANIFEST
from bat_events.replay.export import ExportOptions, archived_topics, export_campaign
from bat_events.replay.kafka_log import KafkaExportLog
from bat_events.replay.result import ReplayResult
from bat_events.replay.verify import verify
from bat_events.replay.verify_archive import verify_archive
from bat_events.replay.verify_kafka import KafkaSealedLog
from bat_events.service.context import Context
from bat_events.service.runtime import Status
from bat_events.settings import Settings
from tests.archive.logs import export, quiet
from tests.archive.sealing import START_MS
from tests.replay.loop import CAMPAIGN, PLAN, Loop
from tests.support.samples import sample, written

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

SMALL = PLAN.model_copy(update={"rounds": 1, "steps_per_round": 1, "group_size": 2})
NS = "t-archive"


@dataclasses.dataclass
class Sealed:
    """A sealed campaign on the broker, another one behind it, and its archive."""

    kafka: LocalKafka
    home: Path
    folder: Path
    heads: list[Head]

    def log(self, namespace: str = NS, *, heldout: str = "heldout-auditor") -> KafkaExportLog:
        """The log as an export reads it."""
        if namespace != NS:  # without users of its own
            return KafkaExportLog(self.kafka.login(), namespace, CAMPAIGN, heldout=self.kafka.login())
        hidden = self.kafka.login(heldout, namespace) if heldout else None
        return KafkaExportLog(self.kafka.login("reader", namespace), namespace, CAMPAIGN, heldout=hidden)

    def export(self, folder: Path, namespace: str = NS) -> None:
        """An archive of both planes."""
        log = self.log(namespace)
        export_campaign(log, folder, ExportOptions(campaign=CAMPAIGN, namespace=namespace, heldout=True), quiet)
        log.close()

    def prepare(self, namespace: str) -> None:
        """Users, rules and topics."""
        apply_access(self.kafka.login(), namespace, self.kafka.secrets, own=True)
        apply_topics(self.kafka.login(), namespace, partitions=3)

    def bring_in(self, namespace: str, folder: Path | None = None, crash: Any = lambda _: None) -> ImportResult:
        """Import the archive."""
        target = Target(address=self.kafka.login(), namespace=namespace)
        return import_archive(folder or self.folder, target, quiet, crash=crash)

    def records(self, namespace: str) -> list[Record]:
        """Every record of the campaign's topics, offsets aside."""
        reader = KafkaReader(bootstrap=self.kafka.login(), namespace=namespace, topics=archived_topics(heldout=True))
        found = sorted(reader.rest(), key=lambda r: (r.topic, r.partition, r.offset))
        reader.close()
        return [dataclasses.replace(r, offset=0) for r in found if ("bat_campaign", CAMPAIGN.encode()) in r.headers]

    def replay(self, namespace: str) -> ReplayResult:
        """The campaign replayed from the broker."""
        source = KafkaSource(self.kafka.login(), namespace)
        result = replay_campaign(source, campaign=CAMPAIGN)
        source.close()
        return dataclasses.replace(result, source="")


def put(kafka: LocalKafka, namespace: str, loop: Loop, start_ms: int) -> None:
    """A loop's transactions, a second after one another."""
    writer = KafkaWriter(bootstrap=kafka.login(), namespace=namespace, name="admin.put")
    for number, outputs in enumerate(loop.store.transactions):
        if outputs:
            writer.publish([dataclasses.replace(o, timestamp_ms=start_ms + 1000 * number) for o in outputs])


@pytest.fixture(scope="module")
def there(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Sealed:
    """See Sealed."""
    home = tmp_path_factory.mktemp("home")
    sealed = Sealed(kafka=kafka, home=home, folder=home / "log", heads=[])
    sealed.prepare(NS)
    loop = Loop(seed=2, plan=SMALL)
    loop.run()
    cells = [written(sample(EvaluationCellScored, n), campaign=CAMPAIGN, key=CAMPAIGN, ordinal=n) for n in range(3)]
    loop.store.transactions.insert(5, [dataclasses.replace(cell, partition=0) for cell in cells])
    put(kafka, NS, loop, START_MS)
    for heldout in (False, True):
        principal = "heldout-notary" if heldout else "notary"
        context = Context(
            settings=Settings(home=home, namespace=NS),
            bootstrap=kafka.login(principal, NS),
            status=Status(service=principal),
        )
        service = build(context, heldout=heldout)
        path = heads_path(home, NS, heldout=heldout)
        while not (path.exists() and len(read_heads(path)) == 2):
            service.machines[0].step(0.2)
        for closer in service.closers:
            closer()
        sealed.heads += read_heads(path)
    later = Loop(seed=3, campaign="later", plan=SMALL)
    later.run(records=60)
    put(kafka, NS, later, START_MS + 10_000_000)
    sealed.export(sealed.folder)
    return sealed


def files(folder: Path) -> dict[str, bytes]:
    """Every file of an archive but its manifest, and that without what names the namespace."""
    found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    manifest = json.loads(found.pop(MANIFEST))
    return {**found, MANIFEST: json.dumps({**manifest, "namespace": "", "sha256": ""}).encode()}


def test_the_log_and_its_archive_are_as_they_were_sealed(there: Sealed) -> None:
    log = there.log()
    on_kafka = verify(KafkaSealedLog(log, NS, CAMPAIGN), there.heads, quiet)
    log.close()
    archived = verify_archive(there.folder, there.heads, quiet)
    assert on_kafka.findings == archived.findings == ()
    assert on_kafka.planes == archived.planes
    assert [(plane.seals, plane.unsealed, plane.heads_checked) for plane in archived.planes] == [(2, 1, True)] * 2


def test_the_archive_replays_as_kafka_does(there: Sealed) -> None:
    live = there.replay(NS)
    assert live.reproduced
    assert dataclasses.replace(replay_campaign(ArchiveSource(there.folder)), source="") == live


def test_held_out_topics_need_that_planes_user_and_the_manifest_says_that_they_are_not_there(
    there: Sealed, tmp_path: Path
) -> None:
    with pytest.raises(AccessDenied, match="reader may not read topic"):
        there.log(heldout="reader")
    log = there.log(heldout="")
    manifest = export_campaign(log, tmp_path / "log", ExportOptions(campaign=CAMPAIGN, namespace=NS), quiet)
    log.close()
    assert manifest.heldout == "not included"
    assert not list(tmp_path.rglob("heldout*"))
    found = verify_archive(tmp_path / "log", there.heads, quiet)
    assert found.ok
    assert "the heldout plane's topics are not here: nothing is said about them" in found.notes


class Killed(BaseException):
    """The process is gone: nothing is aborted or cleaned up."""


def test_an_import_that_is_killed_goes_on_and_a_second_one_changes_nothing(there: Sealed, tmp_path: Path) -> None:
    apply_topics(there.kafka.login(), "t-imported", partitions=3)
    for moment, after in (("produced", 4), ("committed", 9)):
        left = after

        def crash(name: str, moment: str = moment) -> None:
            nonlocal left
            left -= name == moment
            if left == 0:
                raise Killed

        with pytest.raises(Killed):
            there.bring_in("t-imported", crash=crash)
    result = there.bring_in("t-imported")
    assert 0 < result.written < result.records
    assert there.records("t-imported") == there.records(NS)
    before = {where: end for where, (_, end) in there.log("t-imported").ends().items()}
    assert there.bring_in("t-imported").written == 0
    assert {where: end for where, (_, end) in there.log("t-imported").ends().items()} == before

    # What was imported is the same log: it replays, verifies and is exported as the one that was first.
    assert there.replay("t-imported") == there.replay(NS)
    log = there.log("t-imported")
    assert verify(KafkaSealedLog(log, "t-imported", CAMPAIGN), there.heads, quiet).findings == ()
    log.close()
    there.export(tmp_path / "again", "t-imported")
    assert files(tmp_path / "again") == files(there.folder)


def test_campaigns_are_not_mixed(there: Sealed, tmp_path: Path) -> None:
    apply_topics(there.kafka.login(), "t-imported", partitions=3)
    there.bring_in("t-imported")  # nothing where the test above ran
    with pytest.raises(LogError, match=r"holds campaign later .* does not mix campaigns"):
        there.bring_in(NS)
    records = [dataclasses.replace(r, timestamp_ms=START_MS) for r in Loop(seed=4, campaign="other", plan=SMALL).run()]
    export(records, tmp_path / "other", "other", heldout=True)
    with pytest.raises(LogError, match=f"holds campaign {CAMPAIGN}"):
        there.bring_in("t-imported", tmp_path / "other")
    reader = ArchiveReader(there.folder)
    records = [a.record for where in reader.partitions for a in reader.records(*where)]
    changed = [dataclasses.replace(records[0], value=b"x"), *records[1:]]
    export(changed, tmp_path / "changed", CAMPAIGN, heldout=True)
    with pytest.raises(LogError, match="another one than the archive's: nothing was written"):
        there.bring_in("t-imported", tmp_path / "changed")
    export([r for r in records if r.partition == 0], tmp_path / "narrow", CAMPAIGN, heldout=True, parallel=1)
    with pytest.raises(LogError, match="has 3 partitions and the archive 1"):
        there.bring_in("t-imported", tmp_path / "narrow")

    # A record that no import wrote: its cuts would name offsets of two logs, and it is said so.
    writer = KafkaWriter(bootstrap=there.kafka.login(), namespace="t-imported", name="admin.put")
    writer.publish([Outgoing(topic="promotion", partition=0, key=b"k", value=b"v", headers=(), timestamp_ms=START_MS)])
    log = there.log("t-imported")
    with pytest.raises(LogError, match="went on afterwards"):
        verify(KafkaSealedLog(log, "t-imported", CAMPAIGN), there.heads, quiet)
    log.close()
