"""GRPO on recorded rollouts: the log's numbers enter the update, short groups weigh as others do, faults change nothing."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from training_rounds import distance, round_of, sampled_group, weights, with_rollouts

from bat_events.domain.vocabulary import Pool
from bat_events.policy.interface import Sampling
from bat_events.policy.transformers_engine import TransformersEngine
from bat_events.training.interface import TrainGroup, TrainingFault, TrainRollout
from bat_events.training.model import load_model

pytestmark = pytest.mark.torch


def less_likely(row: TrainRollout) -> list[float]:
    """Behaviour log-probabilities 0.1 lower where a token was sampled."""
    return [p - 0.1 * m for p, m in zip(row.logprobs, row.response_mask, strict=True)]


def by_hand(start: Path, groups: list[TrainGroup], *, beta: float, temperature: float, clip: float) -> Any:
    """Gradient norm of the GRPO loss written out: mean over groups of the mean over rows of the mean over tokens."""
    model, reference = load_model(start, device="cpu"), load_model(start, device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.01)
    total = torch.zeros(())
    for group in groups:
        for row in group.rollouts:
            ids = torch.tensor([[*row.prompt_ids, *row.response_ids]])
            mask = torch.tensor(row.response_mask, dtype=torch.float32)

            def logprobs(of: Any, ids: Any = ids, skip: int = len(row.prompt_ids) - 1) -> Any:
                full = torch.log_softmax(of(input_ids=ids).logits[0].float() / temperature, dim=-1)
                return full[skip:-1].gather(1, ids[0, skip + 1 :, None])[:, 0]

            now = logprobs(model)
            with torch.no_grad():
                before = logprobs(reference)
            ratio = torch.exp(now - torch.tensor(row.logprobs))
            clipped = ratio.clamp(1 - clip, 1 + clip)
            kl = torch.exp(before - now) - (before - now) - 1
            loss = -torch.min(ratio * row.advantage, clipped * row.advantage) + beta * kl
            total = total + (loss * mask).sum() / mask.sum() / len(group.rollouts) / len(groups)
    total.backward()
    norm = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in model.parameters()]))
    return model, float(total.detach()), float(norm)


def test_the_update_is_the_grpo_loss_written_out(start: Path) -> None:
    groups = [sampled_group(start, slot=0), sampled_group(start, slot=1, rows=3), sampled_group(start, slot=2, rows=2)]
    model, loss, norm = by_hand(start, groups, beta=0.5, temperature=1.0, clip=0.2)
    trainer = round_of(start, beta=0.5)
    with torch.no_grad():
        trainer._trainer.model.load_state_dict(model.state_dict())
    result = trainer.step(groups)
    assert result.loss == pytest.approx(loss, abs=1e-5)
    assert result.grad_norm == pytest.approx(norm, rel=1e-4)
    assert result.kl > 0
    trainer.close()


def test_changing_behaviour_log_probabilities_changes_the_update(start: Path, tmp_path: Path) -> None:
    group = sampled_group(start)
    shifted = with_rollouts(group, logprobs=less_likely)
    updated, norms = [], []
    for i, recorded in enumerate((group, shifted)):
        trainer = round_of(start, beta=0.0)
        norms.append(trainer.step([recorded]).grad_norm)
        updated.append(weights(trainer, tmp_path / str(i)))
        trainer.close()
    assert norms[1] == pytest.approx(norms[0] * math.exp(0.1), rel=1e-3)  # every ratio is e^0.1, inside the clip
    assert distance(*updated) > 1e-7


def test_a_short_group_trains_as_if_it_had_been_asked_for_at_its_size(start: Path, tmp_path: Path) -> None:
    """Padded rows are gradient-neutral, carry no KL and do not dilute the mean, at a step where KL is not zero."""
    groups = [sampled_group(start, slot=slot, rows=2) for slot in range(2)]
    runs = []
    for size in (2, 8):
        trainer = round_of(start, group_size=size, beta=1.0, learning_rate=1e-3)
        results = [trainer.step(groups) for _ in range(3)]
        runs.append((results, weights(trainer, tmp_path / str(size))))
        trainer.close()
    (exact, exact_weights), (padded, padded_weights) = runs
    assert exact[-1].kl > 1e-5
    for a, b in zip(exact, padded, strict=True):
        for name in ("loss", "grad_norm", "entropy", "kl", "clip_ratio"):
            assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-3, abs=1e-7), name
        assert a.tokens_by_pool == b.tokens_by_pool
    assert distance(exact_weights, padded_weights) < 2e-5


def test_every_group_weighs_the_same_however_many_rollouts_survived(start: Path) -> None:
    full, short = sampled_group(start, slot=0), sampled_group(start, slot=1, rows=2)
    losses = []
    for groups in ([full], [short], [full, short]):
        trainer = round_of(start, beta=0.0)
        shifted = [with_rollouts(g, logprobs=less_likely) for g in groups]
        weighted = [
            replace(g, rollouts=[replace(r, advantage=r.advantage + 5e-4) for r in g.rollouts]) for g in shifted
        ]
        losses.append(trainer.step(weighted).loss)
        trainer.close()
    assert losses[2] == pytest.approx((losses[0] + losses[1]) / 2, rel=1e-4)


def test_engine_and_trainer_agree_and_only_after_temperature(start: Path) -> None:
    group = sampled_group(start, temperature=0.7)
    for temperature, agrees in ((0.7, True), (1.0, False)):
        trainer = round_of(start, temperature=temperature)
        gap = trainer.step([group]).logprob_gap
        assert (gap < 1e-5) is agrees
        trainer.close()


def test_log_probabilities_are_fp32(start: Path) -> None:
    trainer = round_of(start)
    trainer.step([sampled_group(start)])
    assert trainer._trainer._policy_logps.dtype == torch.float32
    trainer.close()


def test_entropy_is_that_of_the_distribution(start: Path) -> None:
    """Weights of zero choose uniformly: the entropy is the logarithm of the vocabulary's size."""
    trainer = round_of(start)
    with torch.no_grad():
        for parameter in trainer._trainer.model.parameters():
            parameter.zero_()
    size = trainer._trainer.model.config.vocab_size
    result = trainer.step([with_rollouts(sampled_group(start), advantage=0.0)])
    assert result.entropy == pytest.approx(math.log(size), abs=1e-4)
    trainer.close()


def test_tokens_are_counted_per_pool_without_observations(start: Path) -> None:
    groups = [sampled_group(start, slot=slot) for slot in range(3)]
    trainer = round_of(start)
    result = trainer.step(groups)
    expected = {g.pool: sum(sum(row.response_mask) for row in g.rollouts) for g in groups}
    assert result.tokens_by_pool == expected
    assert set(expected) == set(Pool)
    trainer.close()


def test_practice_raises_the_probability_of_the_rewarded_action(start: Path, tmp_path: Path) -> None:
    """A bandit: one prompt, one token, reward 1 for the even tokens."""
    engine, folder = TransformersEngine(), start
    trainer = round_of(start, group_size=32, learning_rate=1e-2, steps=8)
    shares, prompt, group = [], (9, 10, 11), sampled_group(start)
    for step in range(8):
        engine.load(folder)
        rows = engine.generate([prompt] * 32, Sampling(temperature=1.0, max_new_tokens=1, seed=step))
        rewards = [float(row.token_ids[0] % 2 == 0) for row in rows]
        shares.append(sum(rewards) / 32)
        rollouts = [
            replace(
                group.rollouts[0],
                prompt_ids=prompt,
                response_ids=row.token_ids,
                response_mask=(1,),
                logprobs=row.logprobs,
                reward=reward,
                advantage=reward - shares[-1],
            )
            for row, reward in zip(rows, rewards, strict=True)
        ]
        trainer.step([replace(group, rollouts=rollouts)])
        folder = tmp_path / f"step{step}"
        trainer.save_weights(folder)
    trainer.close()
    assert sum(shares[-2:]) / 2 > sum(shares[:2]) / 2 + 0.2


def test_going_on_from_a_recovery_folder_gives_the_same_bytes_and_the_same_reference(
    start: Path, tmp_path: Path
) -> None:
    groups = [sampled_group(start, slot=slot) for slot in range(2)]
    whole = round_of(start, learning_rate=1e-3, beta=0.5)
    undisturbed = [whole.step(groups) for _ in range(4)]
    whole.save_weights(tmp_path / "whole")
    whole.save_recovery(tmp_path / "whole-recovery")
    whole.close()

    first = round_of(start, learning_rate=1e-3, beta=0.5)
    results = [first.step(groups) for _ in range(2)]
    first.save_recovery(tmp_path / "recovery")
    first.step(groups)  # lost with the process
    first.close()
    torch.manual_seed(12345)

    second = round_of(start, recovery=tmp_path / "recovery", learning_rate=1e-3, beta=0.5)
    assert second.steps_done == 2
    results += [second.step(groups) for _ in range(2)]
    second.save_weights(tmp_path / "resumed")
    second.save_recovery(tmp_path / "resumed-recovery")
    second.close()

    assert results == undisturbed
    assert undisturbed[2].kl > 0  # against the round's first weights: those of the recovery would give 0 here
    for name in ("whole", "whole-recovery"):
        resumed = tmp_path / name.replace("whole", "resumed")
        files = {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()}
        assert files == {file.name: file.read_bytes() for file in resumed.iterdir()}


def test_a_recovery_folder_of_another_round_is_refused(start: Path, tmp_path: Path) -> None:
    trainer = round_of(start)
    trainer.step([sampled_group(start)])
    trainer.save_recovery(tmp_path / "recovery")
    trainer.save_weights(tmp_path / "weights")
    trainer.close()
    for arguments, what in (({"seed": 2}, "seed"), ({"beta": 0.1}, "grpo"), ({"steps": 9}, "total_steps")):
        with pytest.raises(TrainingFault, match=f"another round: {what}"):
            round_of(start, recovery=tmp_path / "recovery", **arguments)  # type: ignore[arg-type]
    with pytest.raises(TrainingFault, match="another round: start"):
        round_of(tmp_path / "weights", recovery=tmp_path / "recovery")
    with pytest.raises(TrainingFault, match="not a complete recovery folder"):
        round_of(start, recovery=tmp_path / "weights")


Change = Callable[[TrainGroup], list[TrainGroup]]
WRONG: dict[str, Change] = {
    "prompts differ": lambda g: [replace(g, rollouts=[replace(g.rollouts[0], prompt_ids=(1, 2)), *g.rollouts[1:]])],
    "centred": lambda g: [with_rollouts(g, advantage=0.5)],
    "finite and centred": lambda g: [with_rollouts(g, advantage=math.nan)],
    "2 to 4": lambda g: [replace(g, rollouts=g.rollouts[:1])],
    "5 rollouts": lambda g: [replace(g, rollouts=[*g.rollouts, g.rollouts[0]])],
    "slot order": lambda g: [g, replace(g, group="other")],
    "distinct groups": lambda g: [g, replace(g, slot=1)],
    "one length": lambda g: [with_rollouts(g, logprobs=(0.0,))],
    "sampled token": lambda g: [with_rollouts(g, response_mask=lambda row: [0] * len(row.response_ids))],
    "not finite": lambda g: [with_rollouts(g, logprobs=lambda row: [math.nan] * len(row.response_ids))],
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_groups_and_numbers_not_finite_stop_the_step_and_change_nothing(
    start: Path, tmp_path: Path, message: str
) -> None:
    trainer = round_of(start)
    with pytest.raises(TrainingFault, match=message):
        trainer.step(WRONG[message](sampled_group(start)))
    assert trainer.steps_done == 0
    assert distance(weights(trainer, tmp_path / "after"), dict(load_model(start, device="cpu").state_dict())) == 0.0
    trainer.close()
