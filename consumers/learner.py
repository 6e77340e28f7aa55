"""The trainer's effects: cold start, one GRPO step, recovery after a crash.

Weights go to the artefact store before the step's event is published; a recovery folder (weights, optimizer, scheduler,
RNG) is written every `checkpoint_every` steps under the home's work folder. After a crash the newest recovery folder not
beyond the log is taken, and steps from there to the log's last are done again: on a CPU they come out with the recorded
digests; where they do not, the round is rewound to that folder by event.
"""

import shutil
import struct
import uuid
from collections.abc import Sequence
from pathlib import Path

from bat_events.benchmark.registry import benchmark
from bat_events.consumers.trainer_state import TrainerState
from bat_events.domain.canonical import seed63
from bat_events.domain.grouping import group_advantages, zero_variance
from bat_events.domain.health import HealthSettings, StepSignals, pooled, step_health
from bat_events.domain.vocabulary import Focus, Pool
from bat_events.events.corpus import CorpusBuilt, CorpusScanned
from bat_events.events.envelope import Cost
from bat_events.events.plan import CampaignPlan
from bat_events.events.rollouts import RolloutCompleted
from bat_events.events.training import (
    ColdStartCompleted,
    FocusActions,
    PoolTokens,
    TrainedGroup,
    TrainedRollout,
    TrainingRewound,
    TrainingStepCompleted,
)
from bat_events.service.context import Context
from bat_events.service.engines import trainer_backend
from bat_events.service.measure import stopwatch
from bat_events.training.corpus import build_corpus, corpus_body, corpus_digest, corpus_from_body
from bat_events.training.interface import RoundTrainer, StepResult, TrainGroup, TrainingFault, TrainRollout

KEEP_RECOVERIES = 3
HEALTH_WINDOW = 4  # steps pooled for a health verdict: one step has too few turns to tell a trend from a draw
MINIMUM_TURNS = 24


class Learner:
    """See the module. Keeps the open round's trainer between steps."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._round: RoundTrainer | None = None
        self._place: tuple[str, int, int] | None = None  # campaign, round, next step of `_round`

    def build_corpus(self, plan: CampaignPlan) -> tuple[CorpusBuilt, Cost]:
        """Make and store the cold-start corpus, for the leakage gate to scan."""
        watch = stopwatch()
        corpus = build_corpus(benchmark(plan.benchmark), plan, self._context.status.say)
        body = self._context.store.put_json(corpus_body(corpus))
        return CorpusBuilt(corpus=corpus_digest(corpus), body=body, rows=len(corpus)), Cost(wall_s=watch())

    def cold_start(self, plan: CampaignPlan, scanned: CorpusScanned) -> tuple[ColdStartCompleted, Cost]:
        """Make the first weights from a corpus that was scanned. Raises TrainingFault, also where it was not cleared."""
        if not scanned.cleared:
            failed = "; ".join(f"{check.name}: {check.evidence}" for check in scanned.checks if not check.passed)
            raise TrainingFault(
                f"the leakage gate rejected {scanned.rejected} of {scanned.rows} rows of the cold-start corpus, so nothing "
                f"was trained on it; see the benchmark's demonstrations ({failed})"
            )
        watch = stopwatch()
        say = self._context.status.say
        corpus = corpus_from_body(self._context.store.get_json(scanned.body))
        if corpus_digest(corpus) != scanned.corpus:
            raise TrainingFault(f"artefact {scanned.body} holds another corpus than the one scanned, {scanned.corpus}")
        backend = trainer_backend(self._context, plan)
        folder = self._scratch()
        result = backend.cold_start(corpus, folder, seed=seed63("sft", plan.seed), progress=say)
        checkpoint = self._keep(folder)
        event = ColdStartCompleted(
            checkpoint=checkpoint,
            corpus=corpus_digest(corpus),
            demonstrations=len(corpus),
            steps=result.steps,
            rows_train=result.rows_train,
            rows_validation=result.rows_validation,
            train_loss=result.train_loss,
            validation_loss=result.validation_loss,
            valid_action_rate=result.valid_action_rate,
            trainer=backend.name,
        )
        return event, Cost(wall_s=watch())

    def prepare(self, campaign: str, state: TrainerState, step: int) -> TrainingRewound | None:
        """Bring the round's trainer to `step`; a rewind is returned when the recorded steps cannot be reached again."""
        _, planned = state.current()
        assert state.plan is not None
        if self._place == (campaign, planned.round, step):
            return None
        self.end_round()
        found = self._newest_recovery(campaign, planned.round, step)
        begun = 0 if found is None else found[0]
        backend = trainer_backend(self._context, state.plan)
        self._context.status.say(f"round {planned.round}: going on from step {begun}" if begun else "loading weights")
        self._round = backend.round_trainer(
            self._context.store.get_folder(planned.start_checkpoint),
            recovery=None if found is None else found[1],
            total_steps=len(planned.steps),
            seed=seed63("grpo", state.plan.seed, planned.round),
            progress=self._context.status.say,
        )
        for number in range(begun, step):
            self._context.status.say(f"round {planned.round}: doing step {number} again after a restart")
            self._round.step(train_groups(state, number))
            weights = self._store_weights()
            if weights != state.steps[(planned.round, number)].weights:
                attempt = state.attempts.get(planned.round, 0) + 1
                self.end_round()
                return TrainingRewound(
                    round=planned.round,
                    step=begun,
                    attempt=attempt,
                    reason=f"step {number} done again from recovery step {begun} gave other weights",
                )
        self._place = (campaign, planned.round, step)
        return None

    def step(self, campaign: str, state: TrainerState, step: int) -> tuple[TrainingStepCompleted, Cost]:
        """Train one step, store its weights, write the recovery folder. Raises TrainingFault."""
        _, planned = state.current()
        assert state.plan is not None
        assert self._round is not None
        watch = stopwatch()
        self._context.status.say(f"round {planned.round} step {step}: updating")
        groups = train_groups(state, step)
        result = self._round.step(groups)
        weights = self._store_weights()
        if (step + 1) % state.plan.grpo.checkpoint_every == 0:
            self._save_recovery(campaign, planned.round, step + 1)
        self._place = (campaign, planned.round, step + 1)
        signals = _signals(groups, result)
        before = [state.steps[(planned.round, n)] for n in range(max(0, step + 1 - HEALTH_WINDOW), step)]
        window = [*(_recorded_signals(event) for event in before), signals]
        limits = state.plan.health
        health = step_health(
            pooled(window),
            HealthSettings(
                minimum_valid_action_rate=limits.min_valid_actions,
                minimum_entropy=limits.min_entropy,
                maximum_zero_variance_share=limits.max_zero_variance,
                minimum_turns=MINIMUM_TURNS,
            ),
        )
        event = TrainingStepCompleted(
            round=planned.round,
            step=step,
            attempt=state.attempts.get(planned.round, 0),
            weights=weights,
            groups=tuple(_trained(state, group) for group in groups),
            reward=_mean([row.reward for group in groups for row in group.rollouts]),
            zero_variance=signals.zero_variance_groups / signals.groups,
            loss=result.loss,
            grad_norm=result.grad_norm,
            entropy=result.entropy,
            kl=result.kl,
            clip_ratio=result.clip_ratio,
            logprob_gap=result.logprob_gap,
            pools=tuple(_pool(pool, groups, result) for pool in Pool if any(g.pool is pool for g in groups)),
            actions=tuple(
                FocusActions(focus=focus, valid=valid, turns=turns)
                for focus, (valid, turns) in sorted(signals.actions.items())
            ),
            healthy=health.healthy,
            health=health.reasons,
        )
        return event, Cost(wall_s=watch())

    def end_round(self) -> None:
        """Free the round's trainer."""
        if self._round is not None:
            self._round.close()
        self._round, self._place = None, None

    def _scratch(self) -> Path:
        folder = self._context.settings.home.absolute() / "work" / "scratch" / uuid.uuid4().hex
        folder.mkdir(parents=True)
        return folder

    def _keep(self, folder: Path) -> str:
        digest = self._context.store.put_folder(folder)
        shutil.rmtree(folder)
        return digest

    def _store_weights(self) -> str:
        assert self._round is not None
        folder = self._scratch()
        self._round.save_weights(folder)
        return self._keep(folder)

    def _recoveries(self, campaign: str, number: int) -> Path:
        place = self._context.settings.home.absolute() / "work" / self._context.settings.namespace / campaign
        return place / f"round-{number:03d}"

    def _newest_recovery(self, campaign: str, number: int, step: int) -> tuple[int, Path] | None:
        folders = sorted(self._recoveries(campaign, number).glob("step-[0-9]*"))
        usable = [(int(f.name.removeprefix("step-")), f) for f in folders if not f.name.endswith(".tmp")]
        usable = [(at, folder) for at, folder in usable if at <= step]
        return usable[-1] if usable else None

    def _save_recovery(self, campaign: str, number: int, step: int) -> None:
        assert self._round is not None
        place = self._recoveries(campaign, number)
        target, temporary = place / f"step-{step:05d}", place / f"step-{step:05d}.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(target, ignore_errors=True)  # left by an instance that died before its step was published
        temporary.mkdir(parents=True)
        self._round.save_recovery(temporary)
        temporary.rename(target)
        for old in sorted(f for f in place.glob("step-[0-9]*") if f.suffix != ".tmp")[:-KEEP_RECOVERIES]:
            shutil.rmtree(old, ignore_errors=True)


def train_groups(state: TrainerState, step: int) -> list[TrainGroup]:
    """One step's groups in slot order, with the domain's advantages; rollouts without a reward are left out."""
    number, planned = state.current()[1].round, state.current()[1]
    assert state.plan is not None
    groups = []
    for slot in planned.steps[step].slots:
        group = state.group_of(number, step, slot)
        assert group, f"step {step} slot {slot.slot} is not settled"
        rewards = state.groups.rewards(group, state.plan.group_size)
        assert rewards is not None
        rows = []
        for index, (reward, advantage) in enumerate(zip(rewards, group_advantages(rewards), strict=True)):
            if reward is not None and advantage is not None:
                rows.append(_row(state.rollouts[group][index], reward, advantage))
        groups.append(TrainGroup(group=group, slot=slot.slot, pool=slot.pool, focus=slot.focus, rollouts=rows))
    return groups


def _row(event: RolloutCompleted, reward: float, advantage: float) -> TrainRollout:
    n = event.response_tokens
    return TrainRollout(
        prompt_ids=struct.unpack(f"<{event.prompt_tokens}i", event.prompt_ids),
        response_ids=struct.unpack(f"<{n}i", event.response_ids),
        response_mask=list(event.response_mask),
        logprobs=struct.unpack(f"<{n}f", event.logprobs),
        reward=reward,
        advantage=advantage,
        valid_actions=event.valid_actions,
        turns=event.turns,
    )


def _signals(groups: Sequence[TrainGroup], result: StepResult) -> StepSignals:
    actions: dict[Focus, tuple[int, int]] = {}
    for group in groups:
        valid, turns = actions.get(group.focus, (0, 0))
        valid += sum(row.valid_actions for row in group.rollouts)
        actions[group.focus] = (valid, turns + sum(row.turns for row in group.rollouts))
    return StepSignals(
        actions=actions,
        entropy=result.entropy,
        zero_variance_groups=sum(zero_variance([row.reward for row in group.rollouts]) for group in groups),
        groups=len(groups),
        numbers={"loss": result.loss, "grad_norm": result.grad_norm, "kl": result.kl},
    )


def _recorded_signals(event: TrainingStepCompleted) -> StepSignals:
    """An earlier step's signals from the log alone: a restarted trainer judges health by the same window."""
    return StepSignals(
        actions={part.focus: (part.valid, part.turns) for part in event.actions},
        entropy=event.entropy,
        zero_variance_groups=sum(zero_variance([row.reward for row in group.rollouts]) for group in event.groups),
        groups=len(event.groups),
        numbers={"loss": event.loss, "grad_norm": event.grad_norm, "kl": event.kl},
    )


def _trained(state: TrainerState, group: TrainGroup) -> TrainedGroup:
    rewards = state.groups.rewards(group.group, state.plan.group_size if state.plan else 0) or []
    present = [index for index, reward in enumerate(rewards) if reward is not None]
    rows = tuple(
        TrainedRollout(rollout=state.rollouts[group.group][index].rollout, reward=row.reward, advantage=row.advantage)
        for index, row in zip(present, group.rollouts, strict=True)
    )
    return TrainedGroup(group=group.group, slot=group.slot, pool=group.pool, rollouts=rows)


def _pool(pool: Pool, groups: Sequence[TrainGroup], result: StepResult) -> PoolTokens:
    rewards = [row.reward for group in groups if group.pool is pool for row in group.rollouts]
    return PoolTokens(pool=pool, tokens=result.tokens_by_pool.get(pool, 0), reward=_mean(rewards))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
