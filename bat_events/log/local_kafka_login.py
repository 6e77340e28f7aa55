"""The local broker's users: the node itself, the admin, and the principals of each namespace.

Their passwords lie in one folder, BAT_HOME/secrets/kafka. Without access control there are none and everybody gets in.
"""

from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bat_events.errors import ConfigurationError
from bat_events.log.access import ADMIN, user_of
from bat_events.log.acls import set_password
from bat_events.log.cluster import CLIENT_LOGGER, Address, Cluster, client_settings
from bat_events.log.credentials import make_secret, read_secret
from bat_events.log.local_kafka_config import BROKER_USER

_LOOK_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Logins:
    """See the module. `secured` says whether the broker asks for logins."""

    folder: Path
    secured: bool

    def node_password(self) -> str | None:
        """The node's own password, made at first need; None without access control."""
        if not self.secured:
            return None
        make_secret(self.folder / BROKER_USER)
        return read_secret(self.folder / BROKER_USER, BROKER_USER)

    def node(self, bootstrap: str) -> Address:
        """The broker as its own user reaches it: needs nothing that is kept in its metadata."""
        if not self.secured:
            return bootstrap
        file = self.folder / BROKER_USER
        return Cluster(
            bootstrap=bootstrap, principal=BROKER_USER, user=BROKER_USER, password_file=file, mechanism="PLAIN"
        )

    def principal(self, bootstrap: str, principal: str, namespace: str) -> Address:
        """The broker as a principal of a namespace reaches it; the admin belongs to none."""
        if not self.secured:
            return bootstrap
        user = user_of(namespace, principal)
        return Cluster(bootstrap=bootstrap, principal=principal, user=user, password_file=self.folder / user)

    def admit_admin(self, bootstrap: str) -> None:
        """Give the admin's password, made at first need, to the broker. Raises LogError."""
        if self.secured:
            make_secret(self.folder / ADMIN)
            set_password(self.node(bootstrap), ADMIN, read_secret(self.folder / ADMIN, ADMIN))


def answers(address: Address, meta: Path) -> bool:
    """Whether the cluster there answers this user and is the one that `meta` tells of, by its cluster id."""
    try:
        login = client_settings(address)
    except ConfigurationError:
        return False  # the password is not there yet, or was taken away
    client = AdminClient({**login, "socket.timeout.ms": int(_LOOK_S * 1000), "log_level": 0}, logger=CLIENT_LOGGER)
    try:
        metadata = client.list_topics(timeout=_LOOK_S)
    except KafkaException:
        return False
    ours = f"cluster.id={metadata.cluster_id}" in meta.read_text().split()
    return ours and bool(metadata.brokers)
