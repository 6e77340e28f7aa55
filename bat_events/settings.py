"""One settings tree: defaults, then `bat-events.yaml` (or BAT_SETTINGS), then environment variables BAT_….

These say where and how services run on this machine; what a campaign does stands in its campaign file and on the log.
Nested fields are named with two underscores: BAT_KAFKA__PARTITIONS=8. BAT_KAFKA_BOOTSTRAP is the usual short name.
"""

import os
import re
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource

from bat_events.domain.external import PLACEHOLDERS
from bat_events.errors import ConfigurationError
from bat_events.log.topics import check_namespace

SETTINGS_FILE = "bat-events.yaml"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KafkaSettings(_Part):
    """The broker. Without `bootstrap` a local one is started under `home`."""

    bootstrap: str | None = Field(default=None, description="host:port of an existing cluster; None: the local broker")
    partitions: Annotated[int, Field(ge=1, le=512)] = Field(
        default=4, description="of the parallel topics, at creation"
    )
    replication: Annotated[int, Field(ge=1)] = Field(default=1, description="replication factor, at creation")
    heap_mib: Annotated[int, Field(ge=128)] = Field(default=256, description="heap of the local broker")
    security: Literal["none", "scram"] | None = Field(
        default=None,
        description="none: no logins; scram: a user for each service; unset: scram locally, none on a named cluster",
    )
    secrets: Path | None = Field(
        default=None, description="folder of the users' password files; unset: secrets/kafka under home"
    )


class SandboxSettings(_Part):
    """Where model-written code runs."""

    isolation: Literal["auto", "docker", "bubblewrap"] = Field(
        default="auto",
        description="auto: docker where an engine answers and has the image, else bubblewrap (weaker, and said so)",
    )
    docker_host: str | None = Field(
        default=None, description="the engine's socket, unix:///…; unset: DOCKER_HOST, else /var/run/docker.sock"
    )
    image: str = Field(
        default="bat-events-sandbox", description="the engine's name of the image; it is run by its digest"
    )
    runtime: str | None = Field(default=None, description="runc, crun or another that the engine knows; unset: its own")
    cpus: Annotated[float, Field(gt=0.0)] = Field(default=1.0, description="processors that one container may use")
    prestart: Annotated[int, Field(ge=0)] = Field(default=8, description="sandboxes kept warm per worker")
    parallel: Annotated[int, Field(ge=1)] = Field(default=2, description="calls running at once per worker")


class TrainingDevice(_Part):
    """Where weights live."""

    device: Literal["cpu", "cuda"] = Field(default="cpu", description="cpu or cuda")
    threads: Annotated[int, Field(ge=1)] = Field(default=1, description="torch threads per process on a CPU")


class EvaluationSettings(_Part):
    """Who measures checkpoints: the built-in episodes, or an outside harness behind a command (docs/external.md)."""

    command: tuple[str, ...] | None = Field(
        default=None,
        description="argv with the elements {checkpoint}, {request} and {output}; unset: the built-in episodes",
    )
    protocol: Annotated[str, Field(pattern=r"^[!-~]{1,100}$")] = Field(
        default="external/1", description="name of harness, release and settings; its reply must repeat it"
    )
    timeout_s: Annotated[float, Field(gt=0.0)] = Field(default=86_400.0, description="for one whole evaluation")
    attempts: Annotated[int, Field(ge=1)] = Field(default=3, description="runs before the evaluator halts")
    environment: tuple[str, ...] = Field(
        default=("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"),
        description="names of the variables that the command gets; HOME and TMPDIR lie in its working folder",
    )

    @field_validator("command")
    @classmethod
    def _whole_elements(cls, command: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if command is None:
            return None
        lacking = [name for name in PLACEHOLDERS if name not in command]
        if lacking:
            raise ValueError(f"lacks {', '.join(lacking)}: each must stand there as an element of its own")
        for element in command:
            if any(name in element and name != element for name in PLACEHOLDERS):
                raise ValueError(
                    f"{element!r} holds a placeholder beside other text, where it is not replaced: split it"
                )
            if "\0" in element:
                raise ValueError(f"{element!r} holds a null character")
        if command[0] in PLACEHOLDERS or not command[0]:
            raise ValueError("begins with no program")
        return command

    @field_validator("environment")
    @classmethod
    def _names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"{name!r} is no name of a variable")
            if name.startswith("BAT_"):
                raise ValueError(f"{name} is for this system's own services: the harness does not get it")
        return names


class ModelSettings(_Part):
    """A model behind an OpenAI-compatible address, and how it is asked."""

    endpoint: Annotated[str, Field(pattern=r"^https?://[^@\s?#]+$")] | None = Field(
        default=None, description="base address with its /v1; unset: nothing is asked"
    )
    model: Annotated[str, Field(pattern=r"^[!-~]{1,100}$")] | None = Field(
        default=None, description="the model's name; goes on the log"
    )
    api_key: SecretStr | None = Field(default=None, description="better in a file, which no environment shows")
    api_key_file: Path | None = Field(default=None, description="file that holds the key alone, mode 0600")
    concurrency: Annotated[int, Field(ge=1, le=64)] = Field(default=4, description="calls at once, of one process")
    requests_per_minute: Annotated[float, Field(gt=0.0)] | None = Field(
        default=None, description="calls of one process, evenly spaced; unset: no limit but the server's"
    )
    timeout_s: Annotated[float, Field(gt=0.0)] = Field(default=60.0, description="for one whole call")
    retries: Annotated[int, Field(ge=0)] = Field(default=3, description="further calls after one that failed")
    retry_wait_s: Annotated[float, Field(ge=0.0)] = Field(
        default=1.0,
        description="before the first further call, twice as long before each next one, at most 30; a longer Retry-After of "
        "the server is kept to, up to 60",
    )
    temperature: Annotated[float, Field(ge=0.0, le=2.0)] = Field(default=0.0, description="of the model's sampling")
    max_tokens: Annotated[int, Field(ge=64)] = Field(default=1024, description="of one reply")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.endpoint is None) != (self.model is None):
            raise ValueError("endpoint and model belong together: give both, or neither")
        if self.api_key is not None and self.api_key_file is not None:
            raise ValueError("api_key and api_key_file are both given: give one")
        return self


class SynthesisSettings(ModelSettings):
    """Who words the published text of practice states: the benchmark itself, or a model (docs/bank.md)."""

    pause_s: Annotated[float, Field(gt=0.0)] = Field(
        default=30.0, description="when all calls failed: how long the state stays unserved before it is tried again"
    )
    temperature: Annotated[float, Field(ge=0.0, le=2.0)] = Field(default=0.8, description="of the model's sampling")
    max_tokens: Annotated[int, Field(ge=64)] = Field(default=2048, description="of one reply, about eight sentences")


class JudgeModelSettings(ModelSettings):
    """A model that judges texts within what the evidence allows (docs/judge.md)."""

    max_chars: Annotated[int, Field(ge=1000)] = Field(
        default=24_000, description="of a transcript that is shown; what is in excess is left out between its parts"
    )


class ShadowSettings(JudgeModelSettings):
    """A second judge that is asked about a sample and has no say."""

    share: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.1, description="of the rollouts, chosen by a hash of their ids"
    )


class JudgeSettings(JudgeModelSettings):
    """Who scores what text must settle: the evidence alone (no endpoint), or a model below it (docs/judge.md)."""

    shadow: ShadowSettings = ShadowSettings()


class EmbeddingSettings(_Part):
    """The leakage gate's optional check of meaning (docs/leakage.md); off unless `model` is set, in gate and evaluator alike."""

    model: str | None = Field(
        default=None,
        description="a folder that transformers can load, or with `endpoint` a model's name there; unset: off",
    )
    endpoint: str | None = Field(
        default=None, description="an OpenAI-compatible address that ends in /v1; it sees the texts"
    )
    api_key_file: Path | None = Field(
        default=None, description="file that holds the endpoint's key; unset: none is sent"
    )
    timeout_s: Annotated[float, Field(gt=0.0)] = Field(default=60.0, description="for one request")
    similar: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        default=0.8,
        description="estimated cosine from which text is too near; the evaluator publishes it with the sketches",
    )


class ServiceSettings(_Part):
    """The loop that every service runs."""

    deaths: Annotated[int, Field(ge=1)] = Field(
        default=5, description="of a worker's process in a row while it handles one record; then that is a dead letter"
    )


class MetricsSettings(_Part):
    """What Prometheus can scrape (docs/scaling.md): numbers only, also of the held-out plane."""

    port: Annotated[int, Field(ge=0, le=65535)] = Field(
        default=0,
        description="where GET /metrics answers: a lone service for itself, a supervisor for all its own; 0: off",
    )
    host: str = Field(default="127.0.0.1", description="the address that it listens on; 0.0.0.0: every one")


class Settings(BaseSettings):
    """The tree. `bat-events settings` prints it."""

    model_config = SettingsConfigDict(
        env_prefix="BAT_", env_nested_delimiter="__", frozen=True, extra="forbid", populate_by_name=True
    )

    home: Path = Field(
        default=Path(".bat"), description="everything a run leaves: broker data, artefacts, DuckDB, logs"
    )
    namespace: str = Field(default="bat", description="topic prefix; one open campaign at a time in each")
    kafka: KafkaSettings = KafkaSettings()
    service: ServiceSettings = ServiceSettings()
    metrics: MetricsSettings = MetricsSettings()
    sandbox: SandboxSettings = SandboxSettings()
    training: TrainingDevice = TrainingDevice()
    evaluation: EvaluationSettings = EvaluationSettings()
    synthesis: SynthesisSettings = SynthesisSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    judge: JudgeSettings = JudgeSettings()
    artifacts: str | None = Field(default=None, description="fsspec address of the training plane's artefacts")
    heldout_artifacts: str | None = Field(default=None, description="fsspec address of the held-out plane's artefacts")
    canaries: Path | None = Field(
        default=None,
        description="file of canary strings that held-out content carries, one a line; the gate and the audit look for them",
    )
    kafka_bootstrap: str | None = Field(
        default=None,
        validation_alias=AliasChoices("BAT_KAFKA_BOOTSTRAP", "kafka_bootstrap"),
        description="short for kafka.bootstrap",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments first, then the environment, then the file."""
        return (init_settings, env_settings, YamlConfigSettingsSource(settings_cls, yaml_file=_file()))

    @property
    def bootstrap(self) -> str | None:
        """The existing cluster, if one is named."""
        return self.kafka_bootstrap or self.kafka.bootstrap

    @property
    def secured(self) -> bool:
        """Whether services log in to the broker and have the rights of the access matrix only."""
        if self.kafka.security is None:
            return self.bootstrap is None
        return self.kafka.security == "scram"

    def kafka_secrets(self) -> Path:
        """The folder of the password files of the broker's users, each named after its user."""
        return self.kafka.secrets.absolute() if self.kafka.secrets else self.home.absolute() / "secrets" / "kafka"

    def canary_strings(self) -> tuple[str, ...]:
        """The declared canaries, in order; lines that are empty or begin with # are none. Raises ConfigurationError."""
        if self.canaries is None:
            return ()
        try:
            lines = self.canaries.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"canaries {self.canaries} cannot be read: {error}") from None
        return tuple(dict.fromkeys(line.strip() for line in lines if line.strip() and not line.startswith("#")))

    def artifact_root(self) -> str:
        """The training plane's store."""
        return self.artifacts or str(self.home.absolute() / "artifacts")

    def heldout_artifact_root(self) -> str:
        """The held-out plane's store."""
        return self.heldout_artifacts or str(self.home.absolute() / "heldout" / "artifacts")


def load_settings(**overrides: object) -> Settings:
    """The settings in force. Raises ConfigurationError naming the field."""
    known = {name: value for name, value in overrides.items() if value is not None}
    _check_file(_file())
    try:
        settings = Settings(**known)  # type: ignore[arg-type]
        check_namespace(settings.namespace)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        given = "" if _secret(field, first.get("input")) else f" (got {first.get('input')!r})"
        raise ConfigurationError(f"setting {field}: {first['msg']}{given}") from None
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    return settings


def _secret(field: str, given: object) -> bool:
    """Whether a value may hold a secret and is not to be shown: keys, addresses, and the part of the tree that has them."""
    last = field.rpartition(".")[2]
    return field.startswith(("synthesis", "judge")) and (
        last in ("synthesis", "judge", "shadow", "endpoint") or "key" in last or isinstance(given, dict)
    )


def _file() -> Path:
    return Path(os.environ.get("BAT_SETTINGS") or SETTINGS_FILE)


def _check_file(file: Path) -> None:
    """Raises ConfigurationError for a named file that is not there, and for one that holds no mapping."""
    try:
        data = yaml.safe_load(file.read_text())
    except FileNotFoundError:
        if os.environ.get("BAT_SETTINGS"):
            raise ConfigurationError(f"settings file {file} is not there: correct BAT_SETTINGS or unset it") from None
        return
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"settings file {file} cannot be read as YAML: {error}") from None
    if data is not None and not isinstance(data, dict):
        raise ConfigurationError(f"settings file {file} must hold a mapping of settings")
