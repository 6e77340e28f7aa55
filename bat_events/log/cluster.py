"""Where the log is and as whom one speaks to it: what every Kafka client of this package is configured from.

A plain string is a cluster without access control. A `Cluster` logs in with SASL/SCRAM-SHA-512 as one user. Errors that
mean "you may not" become AccessDenied or LoginRefused, which say who, what and what to do; they are never retried.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from bat_events.errors import AccessDenied, LoginRefused
from bat_events.log.credentials import read_secret

CLIENT_LOGGER = logging.getLogger("kafka")
CLIENT_LOGGER.addHandler(logging.NullHandler())  # the client's remarks go to a service's log, never to a terminal

MECHANISM = "SCRAM-SHA-512"
_DENIALS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "cluster",
}


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster with access control. `principal` is a row of the access matrix, `user` its name on the broker."""

    bootstrap: str
    principal: str
    user: str
    password_file: Path
    mechanism: str = MECHANISM

    def __str__(self) -> str:
        return self.bootstrap


Address = str | Cluster


def client_settings(address: Address) -> dict[str, Any]:
    """What a client needs to reach the cluster. Reads the password. Raises ConfigurationError where it cannot."""
    if isinstance(address, str):
        return {"bootstrap.servers": address}
    return {
        "bootstrap.servers": address.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": address.mechanism,
        "sasl.username": address.user,
        "sasl.password": read_secret(address.password_file, address.user),
        "error_cb": _Refusals(address),
    }


class _Refusals:
    """Raises a refusal out of the client's next poll, once: closing a refused client is no second error."""

    def __init__(self, address: Cluster) -> None:
        self._address, self._told = address, False

    def __call__(self, error: KafkaError) -> None:
        if not self._told:
            try:
                check_login(self._address, error)
            except LoginRefused:
                self._told = True
                raise


def group_of(address: Address, namespace: str, group: str) -> str:
    """The group id of a reader that commits nothing: below its principal's name, where its rights lie."""
    return f"{namespace}.{group}" if isinstance(address, str) else f"{namespace}.{address.principal}.{group}"


def check_login(address: Address, error: KafkaError) -> None:
    """Raises LoginRefused where the broker refused user or password; a connection lost in mid-login is no refusal."""
    if error.code() == KafkaError._AUTHENTICATION and "uthentication failed" in error.str():
        assert isinstance(address, Cluster)
        raise LoginRefused(
            f"Kafka at {address} refuses user {address.user} with the password in {address.password_file}: "
            "`bat-events topics apply` makes users and passwords of the local broker; on another cluster the two must agree"
        )


def check_access(address: Address, error: KafkaError, doing: str) -> None:
    """Raises AccessDenied where the error means that this user may not; `doing` ends "may not …"."""
    kind = _DENIALS.get(error.code())
    if kind is not None:
        user = address.user if isinstance(address, Cluster) else "(no login)"
        raise AccessDenied(
            f"Kafka user {user} may not {doing} ({kind} authorization failed): docs/access.md has the matrix of rights; "
            "`bat-events topics apply` sets them on the local broker, `bat-events topics acls` prints them for another. "
            "Nothing is tried again"
        )


def kafka_error(error: KafkaException) -> KafkaError:
    """The error inside an exception."""
    inner: KafkaError = error.args[0]
    return inner
