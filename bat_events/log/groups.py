"""The consumer groups that share a topic's partitions among processes: where starting more of a service does more."""

from collections.abc import Mapping

GROUPS: Mapping[str, str] = {
    "synthesizer": "bank.request",
    "leakage-gate": "bank.state",
    "leakage-gate-corpus": "training",
    "rollout": "group",
    "judge": "rollout",
    "judge-shadow": "rollout",
    "evaluator": "round",
    "evaluator-fingerprints": "campaign",
}
"""Group without namespace -> the topic that it shares."""

OPTIONAL = frozenset({"judge-shadow"})
"""Groups that there are only where a setting asks for them."""
