"""Actors, sandboxes and trainers by the names that a campaign's plan gives them."""

from pathlib import Path

import structlog

from bat_events.benchmark.registry import benchmark, sandbox_extras
from bat_events.errors import ConfigurationError
from bat_events.events.plan import CampaignPlan
from bat_events.policy.actor import Actor, ModelActor
from bat_events.sandbox.interface import SandboxPool
from bat_events.service.context import Context
from bat_events.training.interface import TrainerBackend


class Engines:
    """Keeps one engine and one sandbox pool for a worker process. `heldout` takes weights and space of that plane."""

    def __init__(self, context: Context, *, owner: str) -> None:
        self._context = context
        self._owner = owner
        self._actor: Actor | None = None
        self._loaded: tuple[str, str] | None = None
        self._pool: SandboxPool | None = None

    def actor(self, plan: CampaignPlan, weights: str) -> Actor:
        """The actor for these weights; the last one is kept."""
        wanted = (plan.engine, weights)
        if self._actor is None or self._loaded != wanted:
            self._actor = self._make(plan, self._context.store.get_folder(weights))
            self._loaded = wanted
        return self._actor

    def pool(self, plan: CampaignPlan) -> SandboxPool:
        """The sandbox pool of this process."""
        if self._pool is None:
            from bat_events.service.sandboxes import make_pool

            paths, modules, aliases = sandbox_extras(plan.benchmark)
            self._pool = make_pool(
                self._context.settings.sandbox,
                root=self._context.settings.home.absolute() / "sandboxes" / self._owner,
                readonly_paths=paths,
                preimports=modules,
                aliases=aliases,
                warn=self._warn,
            )
        return self._pool

    def close(self) -> None:
        """Remove the sandboxes."""
        if self._pool is not None:
            self._pool.close()

    def _warn(self, text: str) -> None:
        structlog.get_logger(service=self._owner).warning("sandbox", detail=text)
        self._context.status.say(text)

    def _make(self, plan: CampaignPlan, folder: Path) -> Actor:
        if plan.engine == "scripted":
            from bat_events.policy.scripted import ScriptedActor, read_weights

            return ScriptedActor(benchmark(plan.benchmark), read_weights(folder))
        if plan.engine == "transformers":
            from bat_events.policy.chat import TokenizerChat
            from bat_events.policy.transformers_engine import TransformersEngine

            device = self._context.settings.training
            engine = TransformersEngine(device=device.device, threads=device.threads)
            engine.load(folder)
            return ModelActor(engine, TokenizerChat(folder))
        raise ConfigurationError(f"engine {plan.engine!r} is unknown: use transformers or scripted")


def trainer_backend(context: Context, plan: CampaignPlan) -> TrainerBackend:
    """The trainer that a plan names."""
    if plan.trainer == "scripted":
        from bat_events.training.scripted import ScriptedBackend

        return ScriptedBackend()
    if plan.trainer == "trl":
        from bat_events.training.from_plan import trl_backend

        return trl_backend(plan, context.settings.training)
    raise ConfigurationError(f"trainer {plan.trainer!r} is unknown: use trl or scripted")
