"""What a service of this process is built from: settings, broker, codec, stores, secrets, status."""

import contextlib
import os
import re
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bat_events.artifacts import ArtifactStore
from bat_events.codec import Codec, Fact
from bat_events.errors import ConfigurationError, DecodeError, ImpossibleEvent, LogError
from bat_events.events.campaign import CampaignStarted
from bat_events.log.access import user_of
from bat_events.log.admin import learn_schemas, list_topics
from bat_events.log.cluster import Address, Cluster
from bat_events.log.kafka import KafkaReader
from bat_events.service.metrics import Metrics
from bat_events.service.runtime import Status
from bat_events.settings import Settings


def secret(home: Path, name: str) -> bytes:
    """A secret of 32 bytes under `home`/secrets, made at its first use, readable by its owner only.

    It is there whole or not at all, whoever dies while it is made and whoever else makes it meanwhile. Raises
    ConfigurationError for a file that holds something else.
    """
    folder = home / "secrets"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / name
    if not path.exists():
        fresh = folder / f".{name}.{secrets.token_hex(6)}"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
        with contextlib.suppress(FileExistsError):  # another process was first: its secret counts
            os.link(fresh, path)
        fresh.unlink()
    text = path.read_text().strip()
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise ConfigurationError(f"{path} holds no secret of 32 bytes in hex: put back the one it held, or remove it")
    return bytes.fromhex(text)


def existing_secret(home: Path, name: str) -> bytes | None:
    """A secret of this home where there is one: who only reads makes none."""
    try:
        return bytes.fromhex((home / "secrets" / name).read_text().strip())
    except (OSError, ValueError):
        return None


def sign_in(settings: Settings, bootstrap: str, principal: str) -> Address:
    """The cluster as a principal of the settings' namespace reaches it: with its own password, or without any."""
    if not settings.secured:
        return bootstrap
    user = user_of(settings.namespace, principal)
    return Cluster(bootstrap=bootstrap, principal=principal, user=user, password_file=settings.kafka_secrets() / user)


@dataclass
class Context:
    """See the module."""

    settings: Settings
    bootstrap: Address
    status: Status
    stop: threading.Event = field(default_factory=threading.Event)
    metrics: Metrics = field(default_factory=Metrics)

    @cached_property
    def codec(self) -> Codec:
        """A codec that knows every schema on this namespace's log."""
        codec = Codec()
        learn_schemas(codec, self.bootstrap, self.settings.namespace)
        return codec

    @cached_property
    def partitions(self) -> Mapping[str, int]:
        """Partition counts of the topics that this principal may see. Raises LogError where topics are missing."""
        states = list_topics(self.bootstrap, self.settings.namespace)
        missing = [state.name for state in states if not state.partitions]
        if missing:
            raise LogError(f"topics {', '.join(missing)} are not there: run `bat-events topics apply`")
        return {state.spec.name: state.partitions for state in states}

    @cached_property
    def store(self) -> ArtifactStore:
        """The training plane's artefacts."""
        return ArtifactStore(self.settings.artifact_root(), cache=self.settings.home.absolute() / "cache")

    @cached_property
    def heldout_store(self) -> ArtifactStore:
        """The held-out plane's artefacts."""
        home = self.settings.home.absolute() / "heldout"
        return ArtifactStore(self.settings.heldout_artifact_root(), cache=home / "cache")

    def secret(self, name: str) -> bytes:
        """A secret of this home."""
        return secret(self.settings.home.absolute(), name)

    def read_all(self, topic: str) -> list[Fact]:
        """Every committed event of a small topic now, duplicates dropped. Records that are no events are left out."""
        reader = KafkaReader(bootstrap=self.bootstrap, namespace=self.settings.namespace, topics=[topic])
        facts: dict[str, Fact] = {}
        try:
            while not reader.caught_up():
                for record in reader.poll(500, 0.2):
                    with contextlib.suppress(DecodeError):  # who consumes the topic parks it
                        fact = self.codec.decode(record)
                        facts.setdefault(fact.id, fact)
        finally:
            reader.close()
        return list(facts.values())

    def campaign(self, campaign: str) -> CampaignStarted:
        """How a campaign began. Raises ImpossibleEvent when it did not: whatever belongs to it was true before its time."""
        if campaign not in self._campaigns:
            for fact in self.read_all("campaign"):
                if isinstance(fact.event, CampaignStarted):
                    self._campaigns.setdefault(fact.envelope.campaign, fact.event)
        if campaign not in self._campaigns:
            raise ImpossibleEvent(f"campaign {campaign} never began in namespace {self.settings.namespace}")
        return self._campaigns[campaign]

    @cached_property
    def _campaigns(self) -> dict[str, CampaignStarted]:
        return {}
