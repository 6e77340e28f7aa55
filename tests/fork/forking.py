"""Forks in memory: the real cut and the real copies, into a loop that goes on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bat_events.codec import Codec, Fact
from bat_events.deciders.in_force import changed_settings
from bat_events.domain.lineage import fork_of
from bat_events.events.campaign import CampaignForked
from bat_events.log.interface import Outgoing, Partition, Record
from bat_events.producers.fork_cut import Cutting, ForkCut
from bat_events.producers.fork_log import LAST, copies, forked
from bat_events.replay.archive_reader import ArchiveReader
from bat_events.service.emit import outgoing
from tests.archive.logs import export
from tests.replay.loop import CAMPAIGN, PARTITIONS, PLAN, Loop, TickingClock, decode

CODEC = Codec()
FOUR = PLAN.model_copy(update={"rounds": 4})


class Fork:
    """A fork of an archived campaign: its copies are written by `copy`, `finish` says that they are whole."""

    def __init__(
        self,
        records: Sequence[Record],
        folder: Path,
        *,
        at: int,
        origin: str = CAMPAIGN,
        name: str = "fork",
        seed: int = 11,
        values: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if not folder.exists():
            export(records, folder, origin)
        self.archive = ArchiveReader(folder)
        self.campaign = fork_of(origin, name)
        self.cut: ForkCut = Cutting(self.archive, at).cut()
        self.settings = changed_settings(self.cut.started, self.cut.forks, values or {})
        self.draft = forked(self.archive, self.cut, self.campaign, at, self.settings)
        self.loop = Loop(seed=seed, campaign=self.campaign, **options)
        self._clock: TickingClock = self.loop._clock

    def copy(self, batch: int = 7) -> None:
        """Write all copies but those of the topic `campaign`, a few in each transaction."""
        for where in sorted(self.cut.counts):
            if where != LAST:
                outs = self._outs(where)
                for at in range(0, len(outs), batch):
                    self.loop.store.append(outs[at : at + batch])

    def finish(self) -> None:
        """The last transaction."""
        said = outgoing(
            self.draft, source="bat/campaign", logic="campaign/1", time=self._clock.now(), partitions=PARTITIONS
        )
        self.loop.store.append([*self._outs(LAST), said])

    @property
    def own(self) -> list[Fact]:
        """What the fork itself has made, after its CampaignForked."""
        facts = [fact for fact in decode(self.loop.store.all()) if fact.envelope.origin is None]
        return [fact for fact in facts if not isinstance(fact.event, CampaignForked)]

    def run(self) -> list[Record]:
        """Copy, and let the fork go on to its end."""
        self.copy()
        self.finish()
        return self.loop.go_on(self.draft)

    def _outs(self, where: Partition) -> list[Outgoing]:
        return [
            Outgoing(
                topic=record.topic,
                partition=record.partition,
                key=record.key,
                value=record.value,
                headers=record.headers,
                timestamp_ms=record.timestamp_ms,
            )
            for record in copies(self.archive, where, self.cut.counts[where], self.campaign)
        ]
