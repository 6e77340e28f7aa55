"""The configuration of the local broker: one KRaft node for one machine, small, quick to start, forgetting nothing.

What differs from Kafka's defaults and why:
- Offsets and records never expire: the log is the system, and a campaign may rest for months.
- Groups find a dead member within 6 s (KIP-848 sets the session time-out on the broker, 45 s by default).
- One node: internal topics have one replica and few partitions, so that the first commit does not wait for 50 of them.
- A transaction left open by a killed producer is aborted within a second of its time-out, because it holds back every
  read-committed reader; that time-out itself is the producer's `transaction.timeout.ms`.
- Who is not known is refused, and what no rule allows is denied (see `listeners`).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bat_events.log.access import ADMIN

HOST = "127.0.0.1"
NEVER = 2_147_483_647  # the largest value that Kafka takes for a duration held in an int
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
LOGS_KEPT = 3
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
BROKER_USER = "broker"
"""The node itself: how it speaks to its own listeners, and how `up` reaches it before any other user exists."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the broker keeps its files, all under `root`, which is BAT_HOME/kafka."""

    root: Path

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def log(self) -> Path:
        return self.logs / "broker.log"

    @property
    def authorizer_log(self) -> Path:
        """What was denied to whom; what is allowed is not logged."""
        return self.logs / "authorizer.log"

    @property
    def secrets(self) -> Path:
        """One file per user of the broker, named after it: BAT_HOME/secrets/kafka."""
        return self.root.parent / "secrets" / "kafka"

    @property
    def console(self) -> Path:
        """What the JVM itself prints; empty unless it could not start."""
        return self.logs / "console.log"

    @property
    def properties(self) -> Path:
        return self.root / "server.properties"

    @property
    def log4j(self) -> Path:
        return self.root / "log4j2.properties"

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def meta(self) -> Path:
        """Written when the storage is formatted; holds the cluster id."""
        return self.data / "meta.properties"


def listeners(
    port: int, controller_port: int, broker_password: str | None, advertise: str | None = None
) -> dict[str, str]:
    """The two listeners, and who may speak to them; without a password everybody on this machine may do everything.

    `advertise`, host:port, adds one for other machines, on every interface: by SCRAM only, so never for the node's own user.

    With one, clients log in by SCRAM-SHA-512 and have the rights that access rules give them. The node's own user logs in
    by PLAIN, whose users stand in this configuration: it must exist before the metadata that holds the others can be
    read, and the controller's listener cannot use SCRAM at all.
    """
    protocol = "PLAINTEXT" if broker_password is None else "SASL_PLAINTEXT"
    settings = {
        "listeners": f"CLIENT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"CLIENT://{HOST}:{port}",
        "listener.security.protocol.map": f"CLIENT:{protocol},CONTROLLER:{protocol}",
        "inter.broker.listener.name": "CLIENT",
        "controller.listener.names": "CONTROLLER",
    }
    if broker_password is None:
        return settings
    plain = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{BROKER_USER}" password="{broker_password}" user_{BROKER_USER}="{broker_password}";'
    )
    if advertise is not None:
        settings["listeners"] += f",NETWORK://0.0.0.0:{advertise.rpartition(':')[2]}"
        settings["advertised.listeners"] += f",NETWORK://{advertise}"
        settings["listener.security.protocol.map"] += f",NETWORK:{protocol}"
        settings["listener.name.network.sasl.enabled.mechanisms"] = "SCRAM-SHA-512"
        settings["listener.name.network.scram-sha-512.sasl.jaas.config"] = _SCRAM
    return settings | {
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": plain,
        "listener.name.controller.plain.sasl.jaas.config": plain,
        "listener.name.client.scram-sha-512.sasl.jaas.config": _SCRAM,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": f"User:{ADMIN};User:{BROKER_USER}",
    }


def server_properties(
    layout: Layout,
    port: int,
    controller_port: int,
    broker_password: str | None = None,
    advertise: str | None = None,
) -> dict[str, str]:
    """Every setting of the broker that is not Kafka's default. `broker_password` switches access control on."""
    settings: dict[str, str | int] = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        **listeners(port, controller_port, broker_password, advertise),
        "log.dirs": str(layout.data),
        # Topics are created by `topics apply` with fixed partition counts, never by a typing error.
        "auto.create.topics.enable": "false",
        "message.max.bytes": MAX_MESSAGE_BYTES,
        "log.retention.ms": -1,
        "log.retention.bytes": -1,
        "offsets.retention.minutes": NEVER,
        "transactional.id.expiration.ms": NEVER,
        # One node.
        "default.replication.factor": 1,
        "min.insync.replicas": 1,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 10,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 10,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 3,
        # Transactions: long work may hold one, a dead producer may not.
        "transaction.max.timeout.ms": 15 * 60 * 1000,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        # Groups: `group.consumer` is KIP-848's, `group.share` KIP-932's, the last two are the classic protocol's.
        "group.consumer.session.timeout.ms": 6000,
        "group.consumer.min.session.timeout.ms": 6000,
        "group.consumer.heartbeat.interval.ms": 1000,
        "group.consumer.min.heartbeat.interval.ms": 1000,
        "group.share.session.timeout.ms": 6000,
        "group.share.min.session.timeout.ms": 6000,
        "group.share.heartbeat.interval.ms": 1000,
        "group.share.min.heartbeat.interval.ms": 1000,
        "group.min.session.timeout.ms": 6000,
        "group.initial.rebalance.delay.ms": 0,
        # After a kill the controller waits out the dead broker's session before it takes the new one: 9 s by default.
        "broker.session.timeout.ms": 5000,
        "broker.heartbeat.interval.ms": 1000,
        # Small: few threads, and no 128 MiB for a cleaner that only ever sees the schema topic and the offsets.
        "num.network.threads": 2,
        "num.io.threads": 4,
        "background.threads": 2,
        "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
        "log.index.size.max.bytes": 1024 * 1024,
    }
    return {name: str(value) for name, value in settings.items()}


def log4j_properties(layout: Layout) -> dict[str, str]:
    """The broker's own log, and apart from it what its authorizer denied: 8 MiB each, three older ones kept."""
    return {
        **_rolling("file", layout.log, "%d{ISO8601} %p %c{1} %m%n%throwable{20}"),
        **_rolling("authorizer", layout.authorizer_log, "%d{yyyy-MM-dd'T'HH:mm:ss.SSS}{UTC}Z %m%n"),
        "rootLogger.level": "INFO",
        "rootLogger.appenderRef.file.ref": "file",
        # Prints each setting of each part, hundreds of lines a start.
        "logger.config.name": "org.apache.kafka.common.config.AbstractConfig",
        "logger.config.level": "WARN",
        "logger.kafkaconfig.name": "kafka.server.KafkaConfig",
        "logger.kafkaconfig.level": "WARN",
        # Denials come at INFO, what is allowed at DEBUG.
        "logger.authorizer.name": "kafka.authorizer.logger",
        "logger.authorizer.level": "INFO",
        "logger.authorizer.additivity": "false",
        "logger.authorizer.appenderRef.authorizer.ref": "authorizer",
    }


def _rolling(name: str, path: Path, pattern: str) -> dict[str, str]:
    return {
        f"appender.{name}.type": "RollingFile",
        f"appender.{name}.name": name,
        f"appender.{name}.fileName": str(path),
        f"appender.{name}.filePattern": f"{path}.%i",
        f"appender.{name}.layout.type": "PatternLayout",
        f"appender.{name}.layout.pattern": pattern,
        f"appender.{name}.policies.type": "Policies",
        f"appender.{name}.policies.size.type": "SizeBasedTriggeringPolicy",
        f"appender.{name}.policies.size.size": "8MB",
        f"appender.{name}.strategy.type": "DefaultRolloverStrategy",
        f"appender.{name}.strategy.max": str(LOGS_KEPT),
    }


def jvm_flags(layout: Layout, heap_mb: int) -> list[str]:
    """A JVM that starts quickly and stays small: serial collector, first compiler only, no JMX for the logger."""
    return [
        "-Xms64m",
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        # A broker without memory must die, so that it is seen and started again.
        "-XX:+ExitOnOutOfMemoryError",
        f"-XX:ErrorFile={layout.logs}/jvm-crash.log",
        "-Djava.awt.headless=true",
        "-Dlog4j2.disableJmx=true",
        f"-Dlog4j2.configurationFile={layout.log4j}",
    ]


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write a Java properties file for its owner only; a backslash in a value is escaped as that format wants."""
    lines = [f"{name}={value.replace(chr(92), chr(92) * 2)}" for name, value in settings.items()]
    path.unlink(missing_ok=True)  # one that was readable by others would stay so
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write("\n".join(("# Written at every start of the local broker: changes made here are lost.", *lines, "")))
