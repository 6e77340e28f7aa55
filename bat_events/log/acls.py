"""Brings users and access rules of a namespace onto a cluster: what the matrix says, and nothing beside it.

What is missing is created, what the matrix no longer says is removed. A user that exists keeps its password: changing one is
to delete its file and its user, or to start the local broker anew.
"""

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from bat_events.errors import LogError
from bat_events.log.access import ADMIN, PRINCIPALS, Rule, rules, user_of
from bat_events.log.cluster import CLIENT_LOGGER, Address, check_access, client_settings, kafka_error
from bat_events.log.credentials import make_secret, read_secret

_CALL_S = 30.0
_ITERATIONS = 8192


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What `apply_access` changed."""

    users: int
    added: int
    removed: int


def apply_access(address: Address, namespace: str, secrets: Path, *, own: bool) -> Applied:
    """Create the namespace's users and make its rules those of the matrix. Raises AccessDenied or LogError.

    `own` says that the cluster belongs to these secrets (the local broker): a missing password is made anew. On another
    cluster a user whose password is not here is left alone, because it may be in use on other machines.
    """
    admin = AdminClient(client_settings(address), logger=CLIENT_LOGGER)
    try:
        there, wanted = set(_bindings(admin, namespace)), set(rules(namespace))
        # All of them, because what exists is no change; and before users are asked for, because a denial must come out
        # here: one of describe_user_scram_credentials corrupts the client's memory (confluent-kafka 2.16.1).
        _wait(admin.create_acls([binding_of(rule) for rule in sorted(wanted)]).values())
        users = _create_users(admin, namespace, secrets, own=own)
        if stale := sorted(there - wanted):
            _wait(admin.delete_acls([filter_of(rule) for rule in stale]).values())
    except KafkaException as error:
        check_access(address, kafka_error(error), "create users and access rules")
        raise LogError(f"access rules of namespace {namespace} at {address}: {kafka_error(error).str()}") from error
    return Applied(users=users, added=len(wanted - there), removed=len(stale))


def current_rules(address: Address, namespace: str) -> list[Rule]:
    """The rules of a namespace that the cluster has now, sorted."""
    return sorted(_bindings(AdminClient(client_settings(address), logger=CLIENT_LOGGER), namespace))


def rules_over(address: Address, namespace: str) -> list[Rule]:
    """Every allowing rule of a namespace's users, and whoever's over its topics, sorted. Raises AccessDenied or LogError."""
    try:
        return sorted(_bindings(AdminClient(client_settings(address), logger=CLIENT_LOGGER), namespace, everybody=True))
    except KafkaException as error:
        check_access(address, kafka_error(error), "read access rules")
        raise LogError(f"access rules of namespace {namespace} at {address}: {kafka_error(error).str()}") from error


def set_password(address: Address, user: str, password: str) -> None:
    """Create a user, or change its password. Raises LogError."""
    admin = AdminClient(client_settings(address), logger=CLIENT_LOGGER)  # kept: its futures end with it
    try:
        _wait(admin.alter_user_scram_credentials([_upsertion(user, password)]).values())
    except KafkaException as error:
        raise LogError(f"user {user} could not be created at {address}: {kafka_error(error).str()}") from error


def _create_users(admin: AdminClient, namespace: str, secrets: Path, *, own: bool) -> int:
    users = [user_of(namespace, principal.name) for principal in PRINCIPALS if principal.name != ADMIN]
    there = _users(admin, users)
    changes: list[UserScramCredentialAlteration] = []
    for user in users:
        path = secrets / user
        if user in there and not path.exists() and not own:
            continue
        if make_secret(path) or user not in there:
            changes.append(_upsertion(user, read_secret(path, user)))
    if changes:
        _wait(admin.alter_user_scram_credentials(changes).values())
    return len(changes)


def _users(admin: AdminClient, names: list[str]) -> set[str]:
    """Which of these users the cluster knows."""
    found = set()
    answers = admin.describe_user_scram_credentials(names, request_timeout=_CALL_S)
    assert isinstance(answers, dict)  # for named users; for all of them it would be one future
    for name, future in answers.items():
        try:
            if future.result().scram_credential_infos:
                found.add(name)
        except KafkaException as error:
            if kafka_error(error).code() != KafkaError.RESOURCE_NOT_FOUND:
                raise
    return found


def _upsertion(user: str, password: str) -> UserScramCredentialUpsertion:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
    return UserScramCredentialUpsertion(user, info, password.encode())


def _bindings(admin: AdminClient, namespace: str, *, everybody: bool = False) -> Iterable[Rule]:
    """The allowing rules of this namespace's users, and the admin's on this namespace's names.

    With `everybody` also those of other users that reach one of its topics.
    """
    everything = AclBindingFilter(
        ResourceType.ANY,
        None,  # type: ignore[arg-type]
        ResourcePatternType.ANY,
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        AclOperation.ANY,
        AclPermissionType.ALLOW,
    )
    for binding in admin.describe_acls(everything, request_timeout=_CALL_S).result():
        user = binding.principal.removeprefix("User:")
        ours = user.startswith(f"{namespace}.") or (user == ADMIN and binding.name.startswith(f"{namespace}."))
        if everybody and binding.restype == ResourceType.TOPIC:
            prefixed = binding.resource_pattern_type == ResourcePatternType.PREFIXED
            inside = binding.name.startswith(f"{namespace}.")
            ours = ours or inside or binding.name == "*" or (prefixed and f"{namespace}.".startswith(binding.name))
        if ours and binding.restype != ResourceType.BROKER:
            yield Rule(
                user=user,
                resource=binding.restype.name,
                name=binding.name,
                pattern=binding.resource_pattern_type.name,
                operation=binding.operation.name,
            )


def binding_of(rule: Rule) -> AclBinding:
    """A rule as Kafka's client takes it."""
    return AclBinding(
        ResourceType[rule.resource],
        rule.name,
        ResourcePatternType[rule.pattern],
        f"User:{rule.user}",
        "*",
        AclOperation[rule.operation],
        AclPermissionType.ALLOW,
    )


def filter_of(rule: Rule) -> AclBindingFilter:
    """What finds exactly this rule."""
    one = binding_of(rule)
    return AclBindingFilter(
        one.restype,
        one.name,
        one.resource_pattern_type,
        one.principal,
        one.host,
        one.operation,
        one.permission_type,
    )


def _wait(futures: Iterable["Future[object]"]) -> None:
    for future in futures:
        future.result(_CALL_S)
