"""Evidence for tests."""

from bat_events.benchmark.play import Rollout, digest, rollout, workspace_digest

__all__ = ["Rollout", "digest", "rollout", "workspace_digest"]
