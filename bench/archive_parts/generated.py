"""A generated campaign of any size as an ExportLog: rollouts of 1.4 kB over ten rounds, sealed, none of it kept in memory."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from bat_events.codec import Codec
from bat_events.consumers.seal_state import make_seal
from bat_events.deciders.interface import Draft
from bat_events.domain.merkle import MerkleTree
from bat_events.domain.sealing import FIRST_PREVIOUS, Leaves, Range, content_bytes
from bat_events.domain.vocabulary import Focus, Pool, Track
from bat_events.events.campaign import CampaignStarted
from bat_events.events.envelope import Cost
from bat_events.events.plan import CampaignPlan
from bat_events.events.rollouts import RolloutCompleted
from bat_events.log.interface import Outgoing, Partition, Record
from bat_events.log.topics import BY_NAME
from bat_events.replay.export import archived_topics
from bat_events.service.emit import outgoing

CAMPAIGN, PARTITIONS, ROUNDS, TOKENS = "bench", 4, 10, 48
START_MS = 1_700_000_000_000
TEMPLATES = 512


def templates() -> list[Outgoing]:
    """Rollouts as the service loop writes them: about 1.4 kB each with key and headers."""
    found = []
    for number in range(TEMPLATES):
        event = RolloutCompleted(
            group=f"{number // 4:032x}",
            rollout=f"{number:032x}",
            index=number % 4,
            round=1,
            step=0,
            slot=number % 8,
            pool=Pool.S_TARGET,
            focus=Focus.S3,
            state=f"{number:032x}",
            body="ab" * 32,
            weights="cd" * 32,
            end="final",
            turns=1,
            valid_actions=1,
            prompt_tokens=TOKENS,
            response_tokens=TOKENS,
            prompt_ids=_noise(3 * number, 4 * TOKENS),
            response_ids=_noise(3 * number + 1, 4 * TOKENS),
            response_mask=bytes([1] * TOKENS),
            logprobs=_noise(3 * number + 2, 4 * TOKENS),
            evidence=f"{number:064x}",
            sandbox="bubblewrap",
        )
        found.append(_written(event, f"{number // 4:032x}", number, round_=1))
    return found


def _noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)  # token ids and log-probabilities do not compress well


def _written(event: RolloutCompleted | CampaignStarted, key: str, number: int, round_: int | None) -> Outgoing:
    cost = Cost(wall_s=random.Random(number).random(), tokens_out=number)  # of varying length, as costs are
    draft = Draft(event=event, campaign=CAMPAIGN, cause=f"{number:032x}", ordinal=0, key=key, round=round_, cost=cost)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return outgoing(draft, source="bat/rollout", logic="rollout/1", time=now, partitions=_counts())


def _counts() -> dict[str, int]:
    return {name: PARTITIONS if spec.parallel else 1 for name, spec in BY_NAME.items()}


class GeneratedLog:
    """An ExportLog of `events` rollouts over ten rounds, sealed; nothing of it is kept in memory."""

    def __init__(self, events: int) -> None:
        self._each = events // (PARTITIONS * ROUNDS)
        self._templates = templates()
        self._ranges: dict[int, list[Range]] = {number: [] for number in range(ROUNDS)}

    def ends(self) -> Mapping[Partition, tuple[int, int]]:
        """See ExportLog."""
        many = 1 << 40
        return {
            (name, number): (many, many)
            for name in archived_topics(heldout=False)
            for number in range(PARTITIONS if BY_NAME[name].parallel else 1)
        }

    def read(self, where: Partition, end: int) -> Iterator[Record]:  # noqa: ARG002
        """See ExportLog."""
        if where[0] == "rollout":
            yield from self._rollouts(where[1])
        if where == ("campaign", 0):
            started = CampaignStarted(
                plan=CampaignPlan(tracks=(Track.SEGMENTATION,)), package_version="0", logic=(), benchmark_version=1
            )
            out = _written(started, CAMPAIGN, 0, None)
            yield _record(out, 0, 0, START_MS)
        if where == ("seal", 0):
            yield from self._seals()

    def schemas(self) -> Mapping[str, bytes]:
        """See ExportLog."""
        return {schema.digest: schema.text for schema in Codec().schemas()}

    def _rollouts(self, partition: int) -> Iterator[Record]:
        leaves, ordinal = Leaves("rollout", partition), 0
        for round_ in range(ROUNDS):
            tree, digits = MerkleTree(), str(round_ + 1).encode()
            for _ in range(self._each):
                out = self._templates[ordinal % TEMPLATES]
                id_ = b"%032x" % (partition << 40 | ordinal)
                headers = tuple(
                    (name, id_ if name == "ce_id" else digits if name == "bat_round" else value)
                    for name, value in out.headers
                )
                record = replace(_record(out, partition, ordinal, START_MS + ordinal), headers=headers)
                content = content_bytes(record.key, record.value, record.headers, record.timestamp_ms)
                tree.add(leaves.leaf(ordinal, content))
                yield record
                ordinal += 1
            first, root = ordinal - self._each, tree.root().hex()
            self._ranges[round_].append(
                Range(topic="rollout", partition=partition, first=first, count=self._each, root=root)
            )

    def _seals(self) -> Iterator[Record]:
        previous = FIRST_PREVIOUS.hex()
        for number, ranges in self._ranges.items():
            seal = make_seal(
                campaign=CAMPAIGN, number=number, round=number + 1, previous=previous, salt=b"", ranges=ranges
            )
            previous = seal.head
            draft = Draft(
                event=seal, campaign=CAMPAIGN, cause=f"{number:032x}", ordinal=0, key=CAMPAIGN, round=number + 1
            )
            now = datetime(2026, 1, 1, tzinfo=UTC)
            out = outgoing(draft, source="bat/notary", logic="notary/1", time=now, partitions=_counts())
            yield _record(out, 0, number, START_MS)


def _record(out: Outgoing, partition: int, offset: int, timestamp_ms: int) -> Record:
    return Record(
        topic=out.topic,
        partition=partition,
        offset=offset,
        key=out.key,
        value=out.value,
        headers=out.headers,
        timestamp_ms=timestamp_ms,
    )
