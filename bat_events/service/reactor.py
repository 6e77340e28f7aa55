"""The loop of services that work per campaign: deciders, and the trainer (a decider whose decisions need an effect).

A reactor reads all partitions of its inputs, folds them, and makes the events that its state requires and that do not
exist yet. Steps of one pass:
  1. recover: fold the inputs up to the committed offsets and learn from the own output topics which events exist
  2. read a batch, decode it, drop duplicates (the first committed event of an id wins), fold it
  3. ask what is required, leave out what exists, give each decision the cut that was folded
  4. write decisions and consumed offsets in one transaction
The machine does no I/O of its own: log, clock, executor and crash points are given.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Protocol

from bat_events.codec import Codec, Fact
from bat_events.deciders.incremental import Follower, follow
from bat_events.deciders.interface import Draft
from bat_events.deciders.versions import check_versions, pinned_version
from bat_events.errors import ConfigurationError, HandlerFailed
from bat_events.events.campaign import CampaignStarted
from bat_events.events.envelope import Cut
from bat_events.log.interface import CrashPoint, Partition, ReactorLog, Record
from bat_events.service.emit import outgoing
from bat_events.service.runtime import Clock, Executor, Retryable, RetryPolicy, Status, no_crash

_BATCH = 500


class Rules(Protocol):
    """What one service does, over all campaigns of its namespace."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    is_decision: ClassVar[bool]

    def version_of(self, campaign: str) -> int:
        """The version of the rules that decides this campaign."""
        ...

    def apply(self, fact: Fact) -> None:
        """Fold one input fact."""
        ...

    def existing(self, fact: Fact) -> None:
        """Learn of an own output that the log already holds (at recovery)."""
        ...

    def emitted(self, drafts: Sequence[Draft]) -> None:
        """Learn that these own outputs were committed."""
        ...

    def next_work(self, exists: Callable[[str], bool]) -> Callable[[], Sequence[Draft]] | None:
        """What to do next, as a call whose result is to be emitted; None when nothing is due."""
        ...


@dataclass
class _Seen:
    """Folded positions and the newest time among the folded facts."""

    offsets: dict[Partition, int]
    newest: datetime | None = None
    traceparent: str | None = None


class ReactorMachine:
    """See the module. `step` does one pass and returns whether anything happened."""

    def __init__(
        self,
        *,
        rules: Rules,
        log: ReactorLog,
        codec: Codec,
        clock: Clock,
        executor: Executor,
        status: Status,
        partitions: Mapping[str, int],
        retry: RetryPolicy | None = None,
        crash: CrashPoint = no_crash,
    ) -> None:
        self._rules, self._log, self._codec, self._clock = rules, log, codec, clock
        self._executor, self._status, self._crash = executor, status, crash
        self._partitions = partitions
        self._retry = retry or RetryPolicy()
        self._input_topics = frozenset(rules.inputs)
        self._seen = _Seen(offsets={})
        self._ids: set[str] = set()
        self._existing: set[str] = set()
        self._late: list[Record] = []
        self._recovered = False
        self._dirty = True
        self._job: Future[Sequence[Draft]] | None = None
        self._call: Callable[[], Sequence[Draft]] | None = None
        self._attempt = 0

    def step(self, timeout_s: float) -> bool:
        """One pass. Raises the log's errors, DecodeError for poison, HandlerFailed after the last retry."""
        if not self._recovered:
            return self._recover(timeout_s)
        if self._job is not None:
            return self._finish_job(timeout_s)
        if self._dirty and self._decide():
            return True
        batch = self._take(timeout_s)
        for record in batch:
            self._fold(record)
        self._dirty = bool(batch)
        self._status.behind = self._dirty
        return self._dirty

    def _take(self, timeout_s: float) -> list[Record]:
        if self._late:
            batch, self._late = self._late[:_BATCH], self._late[_BATCH:]
            return batch
        return [r for r in self._log.poll(_BATCH, timeout_s) if r.topic in self._input_topics]

    def _recover(self, timeout_s: float) -> bool:
        committed = self._log.committed()
        for record in self._log.poll(_BATCH, timeout_s):
            if record.topic not in self._input_topics:
                fact = self._codec.decode(record)
                self._existing.add(fact.id)
                self._rules.existing(fact)
            elif record.offset < committed[(record.topic, record.partition)]:
                self._fold(record)
            else:
                self._late.append(record)
        self._status.say(f"recovering: {self._status.events_in:,} events folded")
        if self._log.caught_up():
            self._recovered = True
            self._status.say("waiting")
        return True

    def _fold(self, record: Record) -> None:
        fact = self._codec.decode(record)
        self._seen.offsets[(record.topic, record.partition)] = record.offset + 1
        self._status.events_in += 1
        if fact.id in self._ids:
            return
        self._ids.add(fact.id)
        if self._seen.newest is None or fact.envelope.time >= self._seen.newest:
            self._seen.newest = fact.envelope.time
            self._seen.traceparent = fact.envelope.traceparent
        self._rules.apply(fact)

    def _decide(self) -> bool:
        call = self._rules.next_work(self._existing.__contains__)
        if call is None:
            self._dirty = False
            return False
        self._call, self._attempt = call, 0
        self._job = self._executor.submit(call)
        return self._finish_job(0.0)

    def _finish_job(self, timeout_s: float) -> bool:
        assert self._job is not None
        assert self._call is not None
        wait([self._job], timeout_s)
        if not self._job.done():
            self._status.tell()
            return True
        try:
            drafts = self._job.result()
        except Retryable as error:
            self._again(error)
            return True
        self._job, self._call = None, None
        self._emit(drafts)
        return True

    def _again(self, error: Retryable) -> None:
        if self._attempt >= len(self._retry.waits_s):
            raise HandlerFailed(f"{self._rules.name}: {self._attempt + 1} tries failed, last: {error}") from error
        self._status.retries += 1
        self._status.say(f"retrying: {error}")
        self._clock.sleep(self._retry.waits_s[self._attempt])
        self._attempt += 1
        assert self._call is not None
        self._job = self._executor.submit(self._call)

    def _emit(self, drafts: Sequence[Draft]) -> None:
        fresh = [draft for draft in drafts if draft.id not in self._existing]
        now = self._seen.newest if self._rules.is_decision else None
        outputs = [
            outgoing(
                draft,
                source=f"bat/{self._rules.name}",
                logic=f"{self._rules.name}/{draft.version or self._rules.version_of(draft.campaign)}",
                time=now or self._clock.now(),
                partitions=self._partitions,
                cut=self._cut(),
                traceparent=self._seen.traceparent,
            )
            for draft in fresh
        ]
        self._log.commit(outputs, dict(self._seen.offsets), self._crash)
        self._existing.update(draft.id for draft in fresh)
        self._rules.emitted(fresh)
        self._status.events_out += len(fresh)
        self._status.tell()

    def _cut(self) -> Cut:
        cut: Cut = {topic: {} for topic in sorted(self._input_topics)}
        for (topic, partition), offset in self._seen.offsets.items():
            cut[topic][partition] = offset
        return cut


class DeciderRules:
    """Runs a decider for every campaign of a namespace, each in the version that its CampaignStarted pins.

    Facts that are read before a campaign's start are kept until it says which version folds them.
    """

    is_decision: ClassVar[bool] = True

    def __init__(self, *versions: type[Any]) -> None:
        self._versions = check_versions(versions)
        newest = self._versions[max(self._versions)]
        self.name: str = newest.name
        self.inputs: tuple[str, ...] = newest.inputs
        self.outputs: tuple[str, ...] = newest.outputs
        self._newest = newest
        self._waiting: dict[str, list[Fact]] = {}
        self._campaigns: dict[str, Follower] = {}

    def version_of(self, campaign: str) -> int:
        """See Rules.version_of."""
        return self._campaigns[campaign].version

    def apply(self, fact: Fact) -> None:
        """See Rules.apply. Raises ConfigurationError for a campaign that pins a version that is not here."""
        campaign = fact.envelope.campaign
        if campaign not in self._campaigns:
            kind = self._kind(fact)
            if kind is None:
                self._waiting.setdefault(campaign, []).append(fact)
                return
            self._campaigns[campaign] = follow(kind, campaign)
            for earlier in self._waiting.pop(campaign, ()):
                self._campaigns[campaign].apply(earlier)
        self._campaigns[campaign].apply(fact)

    def _kind(self, fact: Fact) -> type[Any] | None:
        """The version that folds this fact's campaign; None where it is not known yet."""
        if not isinstance(fact.event, CampaignStarted):
            return None if "campaign" in self.inputs else self._newest
        version = pinned_version(fact.event, self.name)
        if version is None:
            return self._newest
        if version not in self._versions:
            here = ", ".join(f"{self.name}/{number}" for number in sorted(self._versions))
            raise ConfigurationError(
                f"campaign {fact.envelope.campaign} pins {self.name}/{version}, and here are only {here}: run its services "
                f"with bat-events {fact.event.package_version}"
            )
        return self._versions[version]

    def existing(self, fact: Fact) -> None:
        """A decider needs no memory of its outputs: ids say which exist."""

    def emitted(self, drafts: Sequence[Draft]) -> None:
        """See `existing`."""

    def next_work(self, exists: Callable[[str], bool]) -> Callable[[], Sequence[Draft]] | None:
        """See Rules.next_work. Each draft comes up once: what is not committed then is made again after a restart."""
        due = [d for decider in self._campaigns.values() for d in decider.fresh() if not exists(d.id)]
        return (lambda: due) if due else None
