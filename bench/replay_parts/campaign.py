"""A campaign of any length as an archive: the real deciders, and workers that state facts of true size.

The shape of one round is the paper's: 50 steps of 8 groups of 4 rollouts, seven tracks, 70 held-out cells; the bank is asked for
about 2,000 states a round in the first ten. Deterministic: the same arguments give the same records.
"""

import pickle
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import IO, Any

from bat_events.codec import Codec, Fact
from bat_events.deciders.incremental import Follower, follow
from bat_events.deciders.interface import Draft
from bat_events.deciders.premises import Premises
from bat_events.deciders.versions import NEWEST
from bat_events.domain.canonical import digest, seed63
from bat_events.domain.grouping import rollout_id
from bat_events.domain.vocabulary import Track
from bat_events.domain.wording import PROGRAMMATIC
from bat_events.events.bank import LeakageCheck, LeakageVerdict, StateSynthesized, SynthesisRequested
from bat_events.events.campaign import CampaignStarted, LogicVersion
from bat_events.events.envelope import Cost, Cut
from bat_events.events.ids import ROOT_CAUSE
from bat_events.events.plan import CampaignPlan
from bat_events.events.rollouts import RolloutCompleted, RolloutFailed
from bat_events.events.rounds import GroupRequested
from bat_events.log.interface import Outgoing, Partition, Record
from bat_events.log.topics import BY_NAME
from bat_events.replay.archive_format import NOT_ARCHIVED
from bat_events.replay.export import ExportOptions, export_campaign
from bat_events.service.emit import outgoing
from tests.replay.workers import Handle, StatingTrainer, evaluate, judge

PARTITIONS = {name: 4 if spec.parallel else 1 for name, spec in BY_NAME.items()}
CAMPAIGN = "bench-ten-rounds"
_BATCH = 500
_CHECKS = (
    "forbidden fields",
    "secrets",
    "paths",
    "template marks",
    "answers",
    "canaries",
    "exact match",
    "longest run",
    "near copies",
)
_LAST_REJECTED = 150
"""Of a cell's states: the bank makes up for 64 lost ones, so later ones are all cleared."""


def plan_of(rounds: int) -> CampaignPlan:
    """A campaign of full rounds."""
    return CampaignPlan(tracks=tuple(Track), rounds=rounds, steps_per_round=50, group_size=4, seed=1)


def _place(event: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(event, name) for name in names}


def _synthesize(fact: Fact, _: CampaignPlan) -> list[Draft]:
    event = fact.event
    assert isinstance(event, SynthesisRequested)
    names = ("state", "focus", "track", "outcome", "ordinal", "seed")
    own: dict[str, Any] = {name: digest([name, event.state]) for name in _DIGESTS}
    fixed: dict[str, Any] = {"benchmark": "mini", "benchmark_version": 3, "body_bytes": 9600, "wording": PROGRAMMATIC}
    made = StateSynthesized(**_place(event, names), **fixed, **own)
    return [_of(fact, made, event.state, cost=Cost(wall_s=0.041, bytes_out=9600))]


_DIGESTS = ("body", "prompt_digest", "workspace_digest", "own_prompt", "own_workspace", "condition")


def _check(fact: Fact, _: CampaignPlan) -> list[Draft]:
    event = fact.event
    assert isinstance(event, StateSynthesized)
    cleared = event.ordinal >= _LAST_REJECTED or event.ordinal % 3 != 2
    checks = [LeakageCheck(name=name, passed=True, evidence="none found in 14 texts") for name in _CHECKS]
    if not cleared:
        checks[-1] = LeakageCheck(name=_CHECKS[-1], passed=False, evidence="0.71 of a held-out text, at prompt line 12")
    names = ("state", "focus", "track", "outcome", "ordinal", "body")
    verdict = LeakageVerdict(**_place(event, names), cleared=cleared, checks=tuple(checks))
    return [_of(fact, verdict, event.state, cost=Cost(wall_s=0.0012))]


def _tokens(most: int, *parts: Any) -> int:
    """Log-uniform between a sixty-fourth of the most and the most: the mean is a quarter of it (0.237)."""
    return int(most * 64.0 ** (seed63("size", *parts) / (1 << 63) - 1))


def _roll_out(fact: Fact, _: CampaignPlan, *, response: int, prompt: int, noise: bytes) -> list[Draft]:
    event = fact.event
    if not isinstance(event, GroupRequested):  # the planner gave a group up: nothing is sampled
        return []
    found = []
    for index in range(event.size):
        rollout = rollout_id(event.group, index)
        place = {**_place(event, ("group", "round", "step", "slot")), "rollout": rollout, "index": index}
        if seed63("fails", rollout) % 100 == 0:
            failed = RolloutFailed(**place, reason="sandbox", detail="it did not start")
            found.append(_of(fact, failed, event.group, index))
            continue
        before, after = _tokens(prompt, "prompt", event.group), _tokens(response, "response", rollout)
        at = int(rollout[:4], 16)
        done = RolloutCompleted(
            **place,
            **_place(event, ("pool", "focus", "state", "body", "weights")),
            end="final",
            turns=8,
            valid_actions=8,
            prompt_tokens=before,
            response_tokens=after,
            prompt_ids=noise[at : at + 4 * before],
            response_ids=noise[at + 7 : at + 7 + 4 * after],
            response_mask=b"\1" * after,
            logprobs=noise[at + 11 : at + 11 + 4 * after],
            evidence=digest(["evidence", rollout]),
            sandbox="bubblewrap",
            receipts=None,  # from before they were signed: what checking them costs is not in the figures
            signer=None,
            seal=None,
        )
        cost = Cost(wall_s=12.25, sandbox_s=3.5, tokens_in=before, tokens_out=after)
        found.append(_of(fact, done, event.group, index, cost=cost))
    return found


def _of(fact: Fact, event: Any, key: str, ordinal: int = 0, cost: Cost | None = None) -> Draft:
    round_ = getattr(event, "round", None)
    return Draft(event=event, campaign=CAMPAIGN, cause=fact.id, ordinal=ordinal, key=key, round=round_, cost=cost)


class Spool:
    """Records on their way into an archive, a file a partition."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Partition, IO[bytes]] = {}
        self.ends_at: dict[Partition, int] = {}
        self.records = 0
        for name, count in PARTITIONS.items():
            if name not in NOT_ARCHIVED and BY_NAME[name].plane != "heldout":
                for number in range(count):
                    self._files[(name, number)] = (folder / f"{name}-{number}").open("w+b")
                    self.ends_at[(name, number)] = 0

    def commit(self, outputs: Sequence[Outgoing]) -> None:
        """One transaction; its markers leave a gap of one offset."""
        for out in outputs:
            where = (out.topic, out.partition)
            record = Record(
                topic=out.topic,
                partition=out.partition,
                offset=self.ends_at[where],
                key=out.key,
                value=out.value,
                headers=out.headers,
                timestamp_ms=1_780_000_000_000 + self.records,
            )
            pickle.dump(record, self._files[where], pickle.HIGHEST_PROTOCOL)
            self.ends_at[where] += 1
            self.records += 1
        for where in {(out.topic, out.partition) for out in outputs}:
            self.ends_at[where] += 1

    def ends(self) -> Mapping[Partition, tuple[int, int]]:
        """See ExportLog."""
        return {where: (end, end) for where, end in self.ends_at.items()}

    def read(self, where: Partition, end: int) -> Iterator[Record]:
        """See ExportLog."""
        file = self._files[where]
        file.seek(0)
        while file.peek(1):  # type: ignore[attr-defined]
            record: Record = pickle.load(file)
            if record.offset < end:
                yield record

    def schemas(self) -> Mapping[str, bytes]:
        """See ExportLog."""
        return {schema.digest: schema.text for schema in Codec().schemas()}

    def close(self) -> None:
        """Remove the files."""
        for where, file in self._files.items():
            file.close()
            (self._folder / f"{where[0]}-{where[1]}").unlink()


class Generator:
    """Runs the loop until there are `events` records, or the campaign has ended."""

    def __init__(self, spool: Spool, events: int, response: int, prompt: int) -> None:
        self._spool, self._events = spool, events
        self._now = datetime(2026, 5, 1, tzinfo=UTC)
        rounds = max(10, events // 9000)
        self._plan = plan_of(rounds)
        noise = b"".join(
            seed63("noise", number).to_bytes(8, "little") for number in range(8192 + response // 2 + prompt)
        )
        roll_out = partial(_roll_out, response=response, prompt=prompt, noise=noise)
        self._workers: dict[str, tuple[str, Handle]] = {
            "synthesizer": ("bank.request", _synthesize),
            "leakage-gate": ("bank.state", _check),
            "evaluator": ("round", evaluate),
            "rollout": ("group", roll_out),
            "judge": ("rollout", judge),
        }
        self._deciders: dict[str, Follower] = {kind.name: follow(kind, CAMPAIGN) for kind in NEWEST}
        self._trainer = StatingTrainer()
        inputs: dict[str, Sequence[str]] = {kind.name: kind.inputs for kind in NEWEST}
        inputs |= {name: (topic,) for name, (topic, _) in self._workers.items()} | {"trainer": self._trainer.inputs}
        self._readers: dict[str, list[str]] = {}
        for name, topics in inputs.items():
            for topic in topics:
                self._readers.setdefault(topic, []).append(name)
        self._queues: dict[str, deque[Fact]] = {name: deque() for name in inputs}
        self._seen: dict[str, dict[Partition, int]] = {name: {} for name in inputs}
        self._newest: dict[str, datetime] = {}
        self._inputs = inputs

    def run(self) -> int:
        """The number of records."""
        logic = (
            *(LogicVersion(name=kind.name, version=kind.version) for kind in NEWEST),
            LogicVersion(name=Premises.NAME, version=Premises.VERSION),
        )
        started = CampaignStarted(plan=self._plan, package_version="0", logic=logic, benchmark_version=3)
        self._emit("campaign", 1, [Draft(event=started, campaign=CAMPAIGN, cause=ROOT_CAUSE, ordinal=0, key=CAMPAIGN)])
        idle = False
        while not idle and self._spool.records < self._events:
            idle = True
            for name in self._inputs:
                idle = not self._turn(name) and idle
        return self._spool.records

    def _turn(self, name: str) -> bool:
        queue = self._queues[name]
        most = _BATCH if name in self._deciders or name == "trainer" else 40
        batch = [queue.popleft() for _ in range(min(most, len(queue)))]
        if name in self._workers:
            handle = self._workers[name][1]
            for fact in batch:
                self._emit(name, 1, handle(fact, self._plan))
            return bool(batch)
        for fact in batch:
            self._seen[name][(fact.topic, fact.partition)] = fact.offset + 1
            self._newest[name] = max(self._newest.get(name, fact.envelope.time), fact.envelope.time)
            if name == "trainer":
                self._trainer.apply(fact)
            else:
                self._deciders[name].apply(fact)
        if name == "trainer":
            work = self._trainer.next_work(lambda _: False)
            drafts = work() if work else []
            self._emit(name, 1, drafts)
            self._trainer.emitted(drafts)
        else:
            drafts = self._deciders[name].fresh()
            self._emit(name, self._deciders[name].version, drafts)
        return bool(batch or drafts)

    def _emit(self, name: str, version: int, drafts: Sequence[Draft]) -> None:
        if not drafts:
            return
        self._now += timedelta(milliseconds=7)
        decides = name in self._deciders
        cut: Cut | None = None
        if decides:
            cut = {topic: {} for topic in sorted(self._inputs[name])}
            for (topic, number), offset in self._seen[name].items():
                cut[topic][number] = offset
        time = self._newest[name] if decides else self._now
        of: Callable[[Draft], Outgoing] = partial(
            outgoing, source=f"bat/{name}", logic=f"{name}/{version}", time=time, partitions=PARTITIONS, cut=cut
        )
        outputs = [of(draft) for draft in drafts]
        begun = dict(self._spool.ends_at)
        self._spool.commit(outputs)
        for draft, out in zip(drafts, outputs, strict=True):
            where = (out.topic, out.partition)
            fact = self._fact(draft, out, begun[where], time)
            begun[where] += 1
            for reader in self._readers.get(out.topic, ()):
                self._queues[reader].append(fact)

    @staticmethod
    def _fact(draft: Draft, out: Outgoing, offset: int, time: datetime) -> Fact:
        envelope: Any = _Circumstances(draft.id, CAMPAIGN, time)
        return Fact(event=draft.event, envelope=envelope, topic=out.topic, partition=out.partition, offset=offset)


class _Circumstances:
    """What the deciders and workers read of an envelope."""

    def __init__(self, id_: str, campaign: str, time: datetime) -> None:
        self.id, self.campaign, self.time = id_, campaign, time


def generate(folder: Path, *, events: int, response: int, prompt: int, say: Callable[[str], None]) -> Path:
    """The archive of such a campaign, made once: `folder` holds one for each set of arguments. Raises ArchiveError."""
    target = folder / f"replay-2-{events}-{response}-{prompt}"
    if (target / "manifest.json").exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    spooled = folder / f"{target.name}.spool"
    spooled.mkdir(exist_ok=True)
    spool = Spool(spooled)
    try:
        say(f"{Generator(spool, events, response, prompt).run():,} records stated; writing them as an archive")
        options = ExportOptions(campaign=CAMPAIGN, namespace="bench")
        export_campaign(spool, target, options, lambda _: None)
    finally:
        spool.close()
        spooled.rmdir()
    return target
