"""The events that bench/log.py and bench/peers.py move, and the records that they become."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from bat_events.deciders.interface import Draft
from bat_events.domain.grouping import group_id, rollout_id
from bat_events.domain.vocabulary import Focus, Pool, Stage
from bat_events.events.base import Event
from bat_events.events.rollouts import RewardScored, RolloutCompleted, RubricItem, StageValue
from bat_events.log.interface import Outgoing
from bat_events.service.emit import outgoing

CAMPAIGN = "bench"
PARTITIONS = {"rollout": 4, "reward": 4, "dead-letter": 1}
TOPICS = ("rollout", "reward")


def rollout(number: int) -> RolloutCompleted:
    """A rollout of 64 sampled tokens."""
    tokens = 64
    return RolloutCompleted(
        group=f"{number // 4:032x}",
        rollout=f"{number:032x}",
        index=number % 4,
        round=1,
        step=number // 32,
        slot=number % 8,
        pool=Pool.S_TARGET,
        focus=Focus.S3,
        state=f"{number:032x}",
        body="ab" * 32,
        weights="cd" * 32,
        end="final",
        turns=1,
        valid_actions=1,
        prompt_tokens=tokens,
        response_tokens=tokens,
        prompt_ids=bytes(4 * tokens),
        response_ids=bytes(4 * tokens),
        response_mask=bytes([1] * tokens),
        logprobs=bytes(4 * tokens),
        evidence="ef" * 32,
        sandbox="bubblewrap",
        receipts=None,
        signer=None,
        seal=None,
    )


def reward(number: int) -> RewardScored:
    """A reward with six rubric items."""
    items = tuple(
        RubricItem(item=f"item_{n}", stage=Stage.S3, score=0.5, applicable=True, proof=0, note="") for n in range(6)
    )
    return RewardScored(
        group=f"{number // 4:032x}",
        rollout=f"{number:032x}",
        index=number % 4,
        round=1,
        step=number // 32,
        slot=number % 8,
        pool=Pool.S_TARGET,
        focus=Focus.S3,
        reward=0.5,
        raw=0.5,
        cap=1.0,
        stages=(StageValue(stage=Stage.S3, score=0.5),),
        task_score=None,
        items=items,
        failures=(),
        evidence="ef" * 32,
        judge="evidence",
        rubric_version=1,
        model=None,
        texts=(),
    )


def encode(events: Sequence[Event], topic_partitions: Mapping[str, int] = PARTITIONS) -> list[Outgoing]:
    """Every event as the service loop writes it."""
    now = datetime.now(UTC)
    found = []
    for number, event in enumerate(events):
        draft = Draft(
            event=event, campaign=CAMPAIGN, cause=f"{number:032x}", ordinal=0, key=f"{number // 8:032x}", round=1
        )
        found.append(outgoing(draft, source="bat/bench", logic="bench/1", time=now, partitions=topic_partitions))
    return found


def events(count: int) -> list[Event]:
    """Rollouts and rewards by turns, with the ids that their campaign makes: what the service loop asks for."""
    return [placed(rollout(number) if number % 2 else reward(number), number) for number in range(count)]


def placed(event: Event, number: int) -> Event:
    """The event at a place of its own."""
    group, index = divmod(number, 4)
    step, slot = divmod(group, 8)
    name = group_id(CAMPAIGN, 1, step, slot, 0)
    place = {"round": 1, "step": step, "slot": slot, "index": index, "group": name, "rollout": rollout_id(name, index)}
    return event.model_copy(update=place)
