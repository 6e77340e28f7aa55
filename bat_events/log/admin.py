"""Creating and listing a namespace's topics, and putting the schemas on the log."""

import time
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata  # type: ignore[attr-defined]

from bat_events.codec import Codec
from bat_events.errors import LogError
from bat_events.log.access import topics_of
from bat_events.log.cluster import CLIENT_LOGGER, Address, Cluster, check_access, client_settings, kafka_error
from bat_events.log.interface import Outgoing
from bat_events.log.kafka import KafkaReader, KafkaWriter
from bat_events.log.topics import BY_NAME, SCHEMA_TOPIC, TopicSpec, broker_name, check_namespace

_CALL_S = 30.0
_LOOK_S = 3.0


@dataclass(frozen=True, kw_only=True)
class TopicState:
    """A topic of a namespace as the broker has it; partitions is 0 where it is not there."""

    spec: TopicSpec
    name: str
    partitions: int


def admin_client(bootstrap: Address) -> AdminClient:
    """An admin client. Raises ConfigurationError where its password cannot be read."""
    return AdminClient(client_settings(bootstrap), logger=CLIENT_LOGGER)


def list_topics(bootstrap: Address, namespace: str) -> list[TopicState]:
    """Every topic of the namespace that this user may see, whether it exists or not."""
    known = _known_topics(bootstrap)
    visible = topics_of(bootstrap.principal) if isinstance(bootstrap, Cluster) else BY_NAME
    states = []
    for spec in (BY_NAME[name] for name in visible):
        name = broker_name(namespace, spec.name)
        states.append(TopicState(spec=spec, name=name, partitions=len(known[name].partitions) if name in known else 0))
    return states


def _known_topics(address: Address) -> dict[str, TopicMetadata]:
    """What this user may see. Raises LoginRefused, LogError where nothing answers."""
    admin = admin_client(address)
    deadline = time.monotonic() + _CALL_S
    while True:
        try:
            return admin.list_topics(timeout=_LOOK_S).topics
        except KafkaException as error:
            admin.poll(0)  # a refused login comes out of here
            if time.monotonic() > deadline:
                raise LogError(f"no Kafka answers at {address}: {kafka_error(error).str()}") from error


def namespaces(bootstrap: Address) -> list[str]:
    """Every namespace that has a campaign topic on this broker."""
    names = _known_topics(bootstrap)
    return sorted(name.removesuffix(".campaign") for name in names if name.endswith(".campaign"))


def apply_topics(bootstrap: Address, namespace: str, *, partitions: int = 4, replication: int = 1) -> list[TopicState]:
    """Create what is missing (nothing that exists is changed) and publish the schemas. Returns all topics."""
    check_namespace(namespace)
    admin = admin_client(bootstrap)
    wanted = []
    for state in list_topics(bootstrap, namespace):
        if state.partitions:
            continue
        cleanup = "compact" if state.spec.compacted else "delete"
        config = {
            "cleanup.policy": cleanup,
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "max.message.bytes": str(8 << 20),
        }
        count = partitions if state.spec.parallel else 1
        wanted.append(NewTopic(state.name, num_partitions=count, replication_factor=replication, config=config))
    if wanted:
        for name, future in admin.create_topics(wanted, operation_timeout=_CALL_S).items():
            try:
                future.result()
            except KafkaException as error:
                check_access(bootstrap, kafka_error(error), f"create topic {name}")
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise LogError(f"topic {name} could not be created: {error.args[0].str()}") from error
    publish_schemas(bootstrap, namespace)
    return list_topics(bootstrap, namespace)


def publish_schemas(bootstrap: Address, namespace: str) -> int:
    """Put every known schema on the schema topic, keyed by digest, unless it is there; returns how many were new."""
    reader = KafkaReader(bootstrap=bootstrap, namespace=namespace, topics=[SCHEMA_TOPIC])
    there: set[str] = set()
    while not reader.caught_up():
        there |= {record.key.decode() for record in reader.poll(1000, 0.5)}
    reader.close()
    missing = [schema for schema in Codec().schemas() if schema.digest not in there]
    if missing:
        writer = KafkaWriter(bootstrap=bootstrap, namespace=namespace, name="admin")
        writer.publish(
            [
                Outgoing(topic=SCHEMA_TOPIC, partition=0, key=s.digest.encode(), value=s.text, headers=())
                for s in missing
            ]
        )
    return len(missing)


def learn_schemas(codec: Codec, bootstrap: Address, namespace: str) -> None:
    """Teach a codec every schema that the namespace's log was written with."""
    reader = KafkaReader(bootstrap=bootstrap, namespace=namespace, topics=[SCHEMA_TOPIC])
    while not reader.caught_up():
        for record in reader.poll(1000, 0.5):
            codec.learn(record.value)
    reader.close()


def delete_namespace(bootstrap: Address, namespace: str) -> int:
    """Delete a namespace's topics (used by `clean`, after it asked); returns how many there were."""
    names = [state.name for state in list_topics(bootstrap, namespace) if state.partitions]
    if names:
        admin = admin_client(bootstrap)  # kept: its futures end with it
        for future in admin.delete_topics(names, operation_timeout=_CALL_S).values():
            future.result()
    return len(names)


def committed_offsets(bootstrap: Address, group: str) -> dict[tuple[str, int], int]:
    """A group's committed offsets by (broker topic, partition)."""
    admin = admin_client(bootstrap)  # kept: its futures end with it
    futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    partitions = futures[group].result().topic_partitions or []
    return {(tp.topic, tp.partition): tp.offset for tp in partitions}


def group_offsets(admin: AdminClient, group: str) -> tuple[dict[tuple[str, int], int], int]:
    """A group's committed offsets by (broker topic, partition), and how many members it has. Raises KafkaException."""
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
    described = admin.describe_consumer_groups([group])[group]
    known = {(tp.topic, tp.partition): tp.offset for tp in offsets.result(_CALL_S).topic_partitions or []}
    try:
        return known, len(described.result(_CALL_S).members)
    except KafkaException as error:
        if kafka_error(error).code() == KafkaError.GROUP_ID_NOT_FOUND:  # nobody ever joined it, or all left
            return known, 0
        raise


__all__ = [
    "TopicState",
    "admin_client",
    "apply_topics",
    "committed_offsets",
    "delete_namespace",
    "group_offsets",
    "learn_schemas",
    "list_topics",
    "namespaces",
    "publish_schemas",
]
