"""The examples for Kubernetes and Prometheus name what there is: services, groups, topics, principals, metrics, KEDA's fields."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from bat_events.consumers.registry import SERVICES
from bat_events.log.access import BY_PRINCIPAL
from bat_events.log.groups import GROUPS
from bat_events.log.topics import BY_NAME
from bat_events.service.metrics import Metrics
from bat_events.service.metrics_files import gathered
from bat_events.service.metrics_lag import as_metrics
from bat_events.service.runtime import Status
from bat_events.settings import Settings

_COMPOSE = Path(__file__).resolve().parents[3] / "compose"
_K8S, _PROMETHEUS = _COMPOSE / "k8s", _COMPOSE / "prometheus"

# The kafka trigger's metadata as KEDA 2.22 documents it; values are strings.
_TRIGGER = {
    "bootstrapServers",
    "consumerGroup",
    "topic",
    "lagThreshold",
    "activationLagThreshold",
    "offsetResetPolicy",
    "allowIdleConsumers",
    "scaleToZeroOnInvalidOffset",
    "excludePersistentLag",
    "limitToPartitionsWithLag",
    "ensureEvenDistributionOfPartitions",
    "version",
    "partitionLimitation",
    "sasl",
    "tls",
    "unsafeSsl",
}
_SPEC = {
    "scaleTargetRef",
    "pollingInterval",
    "cooldownPeriod",
    "initialCooldownPeriod",
    "idleReplicaCount",
    "minReplicaCount",
    "maxReplicaCount",
    "fallback",
    "advanced",
    "triggers",
}


def _documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def _all() -> list[dict[str, Any]]:
    (kustomization,) = _documents(_K8S / "kustomization.yaml")
    return [document for name in kustomization["resources"] for document in _documents(_K8S / name)]


def _of(kind: str) -> dict[str, dict[str, Any]]:
    return {document["metadata"]["name"]: document for document in _all() if document["kind"] == kind}


def test_every_file_is_a_resource_and_every_setting_is_one() -> None:
    (kustomization,) = _documents(_K8S / "kustomization.yaml")
    files = {path.name for path in _K8S.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == files
    (generated,) = kustomization["configMapGenerator"]
    literals = dict(literal.split("=", 1) for literal in generated["literals"])
    for name in literals:
        field, *rest = name.removeprefix("BAT_").lower().split("__")
        known = Settings.model_fields.get(field)
        assert known is not None, name
        assert not rest or rest[0] in known.annotation.model_fields, name  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["rollout", "judge", "monitor"])
def test_a_deployment_runs_what_it_is_called_with_its_own_password_only(name: str) -> None:
    deployment = _of("Deployment")[name]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert name in _of("ServiceAccount")
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (name, False)
    assert name in BY_PRINCIPAL
    assert container["args"] == (["lag", "--serve"] if name == "monitor" else ["serve", name])
    assert name == "monitor" or name in SERVICES
    assert [v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v] == [f"kafka-{name}"]
    assert ("replicas" in deployment["spec"]) == (name == "monitor")  # else two would set it
    rights = container["securityContext"]
    assert rights["capabilities"]["drop"] == ["ALL"]
    assert rights["readOnlyRootFilesystem"]
    stack = yaml.safe_load((_COMPOSE / "docker-compose.yml").read_text())["services"]
    added = stack[name].get("cap_add", []) if name in stack else []
    assert rights["capabilities"].get("add", []) == added
    (kustomization,) = _documents(_K8S / "kustomization.yaml")
    port = next(x for x in kustomization["configMapGenerator"][0]["literals"] if x.startswith("BAT_METRICS__PORT"))
    assert port == f"BAT_METRICS__PORT={container['ports'][0]['containerPort']}"


@pytest.mark.parametrize("name", ["rollout", "judge"])
def test_keda_scales_a_group_by_its_own_topic_as_the_monitor(name: str) -> None:
    spec = _of("ScaledObject")[name]["spec"]
    assert set(spec) <= _SPEC
    assert spec["scaleTargetRef"]["name"] == name
    assert 1 <= spec["minReplicaCount"] <= spec["maxReplicaCount"]
    (trigger,) = spec["triggers"]
    assert trigger["type"] == "kafka"
    assert trigger["useCachedMetrics"] is True
    metadata = trigger["metadata"]
    assert set(metadata) <= _TRIGGER
    assert all(isinstance(value, str) for value in metadata.values())
    assert metadata["consumerGroup"] == f"bat.{name}"
    assert metadata["topic"] == f"bat.{GROUPS[name]}"
    assert GROUPS[name] in BY_NAME
    assert int(metadata["lagThreshold"]) > int(metadata["activationLagThreshold"]) >= 0
    wanted = {"excludePersistentLag": "true", "limitToPartitionsWithLag": "true", "allowIdleConsumers": "false"}
    assert {key: metadata[key] for key in wanted} == wanted  # KEDA refuses the second together with idle consumers
    assert metadata["offsetResetPolicy"] == "earliest"  # as the services: an uncommitted partition is work, not none
    assert metadata["sasl"] == "scram_sha512"
    authentication = _of("TriggerAuthentication")[trigger["authenticationRef"]["name"]]["spec"]
    assert {ref["parameter"] for ref in authentication["secretTargetRef"]} == {"sasl", "username", "password", "tls"}
    assert {ref["name"] for ref in authentication["secretTargetRef"]} == {"kafka-monitor"}
    assert BY_PRINCIPAL["monitor"].follows_groups
    assert GROUPS[name] in BY_PRINCIPAL["monitor"].reads


def test_no_manifest_holds_a_secret() -> None:
    assert "Secret" not in {document["kind"] for document in _all()}


def test_alerts_and_scrapes_name_metrics_that_are_exported(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.follow(Status(service="gate"))
    families = [*metrics.registry.collect(), *gathered(tmp_path), *as_metrics([], 0.0)]
    exported = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    exported.add("bat_lag_observed")
    (rules,) = _documents(_PROMETHEUS / "alerts.yml")
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({alert["alert"] for alert in alerts}) == len(alerts) >= 8
    for alert in alerts:
        used = set(re.findall(r"bat_[a-z_]+", alert["expr"]))
        assert used, alert["alert"]
        assert used <= exported, alert["alert"]
        assert alert["annotations"]["summary"]
        assert alert["expr"].count("(") == alert["expr"].count(")")
    (config,) = _documents(_PROMETHEUS / "prometheus.yml")
    assert config["rule_files"] == ["alerts.yml"]
    assert {job["job_name"] for job in config["scrape_configs"]} == {"bat-events", "bat-events-pods"}
