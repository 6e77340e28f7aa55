"""A campaign's plan as the TRL backend's settings."""

from bat_events.events.plan import CampaignPlan
from bat_events.settings import TrainingDevice
from bat_events.training.settings import GrpoSettings, ModelSettings, SftSettings, TrainingSettings
from bat_events.training.trl_backend import TrlBackend


def trl_backend(plan: CampaignPlan, where: TrainingDevice) -> TrlBackend:
    """The backend that trains this plan on this machine."""
    cold, grpo = plan.cold_start, plan.grpo
    return TrlBackend(
        TrainingSettings(
            model=ModelSettings(
                pretrained=plan.model.pretrained,
                layers=plan.model.layers,
                width=plan.model.width,
                heads=plan.model.heads,
                pieces=plan.model.vocabulary,
                max_positions=plan.model.max_positions,
            ),
            sft=SftSettings(
                steps=cold.steps,
                batch_size=cold.batch_size,
                learning_rate=cold.learning_rate,
                min_valid_actions=cold.min_valid_actions,
                probe_temperature=plan.sampling.temperature,
                probe_tokens=plan.limits.max_turn_tokens,
            ),
            grpo=GrpoSettings(
                group_size=plan.group_size,
                learning_rate=grpo.learning_rate,
                beta=grpo.beta,
                temperature=plan.sampling.temperature,
                clip=grpo.clip,
                max_grad_norm=grpo.max_grad_norm,
            ),
            device=where.device,
            threads=where.threads,
        )
    )
