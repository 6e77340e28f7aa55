"""What this machine has and lacks, each lack with the line that mends it.

Nothing here is taken on trust: bubblewrap and the memory limit are tried out on a real process, the container engine and
a named cluster are asked a question. Torch is not imported, so that the whole table takes about a second.
"""

import importlib.metadata
import os
import shutil
import socket
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bat_events.cli import doctor_isolation as isolation
from bat_events.log.local_kafka import BrokerError, BrokerUnavailable, LocalKafka
from bat_events.log.local_kafka_parts import (
    INSTALL_JAVA,
    INSTALL_MAVEN,
    find_java,
    find_maven,
    jars_folder,
    jars_version,
)

MINIMUM_DISK_BYTES = 2 << 30  # a demo leaves a few hundred MiB: broker data, checkpoints, logs
MINIMUM_MEMORY_BYTES = 4 << 30  # trainer 1.5 GiB, broker 0.2 GiB, a dozen small services


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked for. `remedy` is empty only where `ok`; `required` says whether the demo needs it."""

    name: str
    ok: bool
    required: bool
    detail: str
    remedy: str = ""


def checks(
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    *,
    logins: bool = False,
    image: str = "bat-events-sandbox",
    docker_host: str | None = None,
) -> list[Check]:
    """Look at the machine. `home` is BAT_HOME, `env` the environment; both default to this process's own.

    `logins` says that a named cluster asks for them: then only its port is tried. `image` and `docker_host` are the settings'.
    """
    env = os.environ if env is None else env
    if docker_host is not None:
        env = {**env, "DOCKER_HOST": docker_host}
    home = home or Path(env.get("BAT_HOME") or ".bat")
    return [
        _python(),
        _java(env),
        _maven(env),
        _kafka(home, env, logins=logins),
        _user_namespaces(env),
        _bubblewrap(env),
        _memory_limit(),
        *_container_engine(env, image),
        _torch(),
        _gpu(env),
        _disk(home),
        _memory(),
    ]


def render(found: Iterable[Check]) -> str:
    """A plain table, one check a line, the remedy of a lack under it."""
    lines = []
    for check in found:
        mark = "ok" if check.ok else "MISSING" if check.required else "absent"
        lines.append(f"{mark:8} {check.name:18} {check.detail}".rstrip())
        if not check.ok:
            lines.append(f"{'':27} -> {check.remedy}")
    return "\n".join(lines)


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info[:2] == (3, 11)
    remedy = "" if ok else "apt-get install -y python3.11 python3.11-venv, then rm -rf .venv && make setup"
    return Check(name="python", ok=ok, required=True, detail=f"{version} in {sys.prefix}", remedy=remedy)


def _local_broker_wanted(env: Mapping[str, str]) -> bool:
    return not env.get("BAT_KAFKA_BOOTSTRAP", "").strip()


def _java(env: Mapping[str, str]) -> Check:
    try:
        java = find_java(env)
    except BrokerUnavailable as lack:
        return Check(
            name="java", ok=False, required=_local_broker_wanted(env), detail=_first_clause(lack), remedy=INSTALL_JAVA
        )
    return Check(name="java", ok=True, required=True, detail=f"{java.version} ({java.path})")


def _maven(env: Mapping[str, str]) -> Check:
    try:
        return Check(name="maven", ok=True, required=True, detail=str(find_maven(env)))
    except BrokerUnavailable:
        have_jars = not _local_broker_wanted(env) or _jars(env) is not None
        detail = "none, and none is needed: Kafka's jars are in place" if have_jars else "none on PATH"
        return Check(name="maven", ok=False, required=not have_jars, detail=detail, remedy=INSTALL_MAVEN)


def _jars(env: Mapping[str, str]) -> str | None:
    try:
        return jars_version(jars_folder(env))
    except BrokerUnavailable:
        return None


def _kafka(home: Path, env: Mapping[str, str], *, logins: bool) -> Check:
    if not _local_broker_wanted(env):
        named = env["BAT_KAFKA_BOOTSTRAP"].strip()
        return _port(named) if logins else _cluster(named)
    try:
        folder, status = jars_folder(env), LocalKafka(home, env=env).status()
    except BrokerError as lack:
        return Check(name="kafka", ok=False, required=True, detail=str(lack), remedy="run it from a clean checkout")
    if status.version is None:
        return Check(name="kafka", ok=False, required=True, detail=f"no jars in {folder} yet", remedy="make setup")
    now = f"up at {status.bootstrap} (process {status.pid})" if status.running else "not running"
    detail = f"Apache Kafka {status.version}, {now}, data {status.data_bytes / 2**20:.0f} MiB"
    return Check(name="kafka", ok=True, required=True, detail=detail)


def _cluster(bootstrap: str) -> Check:
    try:
        brokers = len(AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=3).brokers)
    except KafkaException as error:
        remedy = "start that cluster, correct BAT_KAFKA_BOOTSTRAP, or unset it to use the local broker"
        detail = f"{bootstrap} does not answer: {error.args[0].str()}"
        return Check(name="kafka", ok=False, required=True, detail=detail, remedy=remedy)
    return Check(name="kafka", ok=True, required=True, detail=f"{bootstrap} answers, {brokers} brokers")


def _port(bootstrap: str) -> Check:
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
    except (OSError, ValueError) as error:
        remedy = "start that cluster, or correct BAT_KAFKA_BOOTSTRAP"
        detail = f"{bootstrap} cannot be reached: {error}"
        return Check(name="kafka", ok=False, required=True, detail=detail, remedy=remedy)
    return Check(name="kafka", ok=True, required=True, detail=f"{bootstrap} is reachable; logins were not tried")


def _user_namespaces(env: Mapping[str, str]) -> Check:
    # Root can make the other namespaces without one.
    lack = isolation.user_namespace_lack(env)
    remedy = "as root: sysctl -w user.max_user_namespaces=15000 kernel.unprivileged_userns_clone=1"
    if Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").exists():
        remedy = "as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    return _from_lack("user namespaces", lack, "can be made", remedy, required=os.geteuid() != 0)


def _bubblewrap(env: Mapping[str, str]) -> Check:
    lack = isolation.bubblewrap_lack(env)
    good = "isolates: own pids, only the loopback device, read-only system"
    remedy = "apt-get install -y --no-install-recommends bubblewrap"
    if lack is not None and shutil.which("bwrap", path=env.get("PATH", "")):
        remedy = "see `user namespaces` above; inside a container start it with --privileged"
    return _from_lack("bubblewrap", lack, good, remedy, required=True)


def _memory_limit() -> Check:
    lack = isolation.memory_limit_lack()
    good = "a process over its limit is killed"
    remedy = "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes make demo"
    return _from_lack("cgroup memory", lack, good, remedy, required=False)


def _container_engine(env: Mapping[str, str], image: str) -> list[Check]:
    answer, lack = isolation.container_engine(env)
    remedy = "apt-get install -y --no-install-recommends docker.io, then systemctl start docker (or set DOCKER_HOST)"
    engine = _from_lack("container engine", lack, answer, remedy, required=False)
    if lack is not None:
        return [engine]
    missing = isolation.image_lack(answer.rpartition(" at ")[2], image)
    good = f"{image} is there: sandboxes are containers"
    remedy = "bat-events sandbox build (or --base local); until then sandboxes are bubblewrap's, the weaker isolation"
    return [engine, _from_lack("sandbox image", missing, good, remedy, required=False)]


def _from_lack(name: str, lack: str | None, good: str, remedy: str, *, required: bool) -> Check:
    if lack is None:
        return Check(name=name, ok=True, required=required, detail=good)
    return Check(name=name, ok=False, required=required, detail=lack, remedy=remedy)


def _torch() -> Check:
    try:
        detail = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return Check(name="torch", ok=False, required=True, detail="not in this environment", remedy="make setup")
    return Check(name="torch", ok=True, required=True, detail=detail)


def _gpu(env: Mapping[str, str]) -> Check:
    lines = isolation.output_of(["nvidia-smi", "-L"], env)
    if lines:
        return Check(name="gpu", ok=True, required=False, detail="; ".join(line.split(" (UUID")[0] for line in lines))
    remedy = "the demo needs none; on a GPU node: apt-get install -y nvidia-driver"
    return Check(name="gpu", ok=False, required=False, detail="none: training runs on the CPU", remedy=remedy)


def _disk(home: Path) -> Check:
    there = next(folder for folder in (home.absolute(), *home.absolute().parents) if folder.exists())
    free = shutil.disk_usage(there).free
    detail = f"{free / 2**30:.1f} GiB free under {home}"
    remedy = f"free {MINIMUM_DISK_BYTES >> 30} GiB there (bat-events clean), or set BAT_HOME to a larger disk"
    lack = detail if free < MINIMUM_DISK_BYTES else None
    return _from_lack("disk", lack, detail, remedy, required=True)


def _memory() -> Check:
    free = min(psutil.virtual_memory().available, isolation.memory_left_in_group())
    detail = f"{free / 2**30:.1f} GiB available, {os.cpu_count()} processors"
    remedy = f"end other programs: the demo wants {MINIMUM_MEMORY_BYTES >> 30} GiB (or try make demo ARGS=--quick)"
    lack = detail if free < MINIMUM_MEMORY_BYTES else None
    return _from_lack("memory", lack, detail, remedy, required=True)


def _first_clause(error: Exception) -> str:
    """A broker error's finding without its advice, which the table shows on a line of its own."""
    return str(error).split(": ", 1)[0]
