"""The stack of compose/docker-compose.yml gives each service what the access matrix gives it, and nothing beside it."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from bat_events.consumers.registry import SERVICES
from bat_events.log.access import BY_PRINCIPAL

_FILE = Path(__file__).resolve().parents[3] / "compose" / "docker-compose.yml"
_SECRETS, _INSIDE, _NAMESPACE = "${BAT_SECRETS:-./secrets}", "/run/secrets/kafka", "${BAT_NAMESPACE:-bat}"
_KEEPERS = {"broker": {"broker", "admin"}, "setup": {""}}


@pytest.fixture
def stack() -> dict[str, Any]:
    text = _FILE.read_text().replace(_SECRETS, "SECRETS").replace(_NAMESPACE, "bat")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def _violations(stack: dict[str, Any]) -> list[str]:
    """Where services, networks, passwords or volumes differ from the matrix."""
    found = []
    services = stack["services"]
    if set(services) != {"broker", "setup", *SERVICES}:
        found.append(f"services: {sorted(set(services) ^ {'broker', 'setup', *SERVICES})}")
    for name, service in services.items():
        mounts = [volume.split(":") for volume in service["volumes"]]
        passwords = {m[0].removeprefix("SECRETS").lstrip("/") for m in mounts if m[1].startswith(_INSIDE)}
        if passwords != _KEEPERS.get(name, {f"bat.{name}"}):
            found.append(f"{name} has the passwords {sorted(passwords)}")
        if any(m[-1] != "ro" for m in mounts if m[0].startswith("SECRETS")):
            found.append(f"{name} may write secrets")
        if name in _KEEPERS:
            continue
        heldout = BY_PRINCIPAL[name].plane == "heldout"
        if service["networks"] != (["heldout"] if heldout else ["training"]):
            found.append(f"{name} is on {service['networks']}")
        own = {m[0] for m in mounts if not m[0].startswith("SECRETS")} - {"artifacts"}
        if own != {name} | ({"heldout"} if heldout else set()):
            found.append(f"{name} has the volumes {sorted(own)}")
        if heldout and ["artifacts", "/var/lib/bat/artifacts"] in mounts:
            found.append(f"{name} may write the training plane's artefacts")
        if service["command"] != ["serve", name]:
            found.append(f"{name} runs {service['command']}")
        if service["environment"]["BAT_KAFKA__SECURITY"] != "scram":
            found.append(f"{name} does not log in")
    return found


def test_the_stack_agrees_with_the_matrix(stack: dict[str, Any]) -> None:
    assert _violations(stack) == []
    assert stack["services"]["broker"]["networks"] == ["training", "heldout"]
    assert {name: network["internal"] for name, network in stack["networks"].items()} == {
        "training": True,
        "heldout": True,
    }


@pytest.mark.parametrize(
    ("service", "key", "value", "seen"),
    [
        ("trainer", "volumes", "heldout:/var/lib/bat/heldout", "trainer has the volumes"),
        (
            "trainer",
            "volumes",
            "SECRETS/bat.evaluator:/run/secrets/kafka/bat.evaluator:ro",
            "trainer has the passwords",
        ),
        ("judge", "volumes", "SECRETS:/run/secrets/kafka:ro", "judge has the passwords"),
        ("gate", "networks", "heldout", "gate is on"),
        ("evaluator", "volumes", "artifacts:/var/lib/bat/artifacts", "evaluator may write"),
    ],
)
def test_a_stack_that_gives_more_is_noticed(
    stack: dict[str, Any], service: str, key: str, value: str, seen: str
) -> None:
    more = copy.deepcopy(stack)
    more["services"][service][key] = [*more["services"][service][key], value]
    assert any(line.startswith(seen) for line in _violations(more))


def test_only_services_with_sandboxes_have_rights(stack: dict[str, Any]) -> None:
    for name, service in stack["services"].items():
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"]
        assert ("cap_add" in service) == (name in ("rollout", "evaluator"))
        assert "privileged" not in service
