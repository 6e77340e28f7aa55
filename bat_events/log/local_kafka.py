"""A real Apache Kafka for one machine: a single KRaft node as a child process, its data kept under BAT_HOME/kafka.

Promises:
- `up` returns only when the broker answers, reuses one that runs, and keeps port, cluster id and data between runs.
- The broker has a process group of its own: neither Ctrl-C in the terminal nor the death of whoever started it ends it.
- Only a process that is certainly this home's broker, told by its command line, is ever signalled.
- It listens on 127.0.0.1 only, unless it is told how other machines name it (`advertise`, host:port): then to them by SCRAM.
- It knows its users and denies what no rule allows (`secured`, the default); their passwords lie in BAT_HOME/secrets/kafka.

`BAT_KAFKA_BOOTSTRAP` names an existing cluster instead: see `bootstrap_for`.
"""

import base64
import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

import psutil

from bat_events.log import local_kafka_config as config
from bat_events.log.access import ADMIN
from bat_events.log.cluster import Address
from bat_events.log.local_kafka_login import Logins, answers
from bat_events.log.local_kafka_parts import (
    BrokerBusy,
    BrokerError,
    BrokerUnavailable,
    Java,
    Progress,
    ensure_jars,
    find_java,
    jars_folder,
    jars_version,
    locked,
    quiet,
)
from bat_events.log.local_kafka_state import (
    BrokerStatus,
    State,
    bytes_on_disk,
    port_open,
    read_state,
    with_free_ports,
    write_state,
)

__all__ = [
    "BrokerBusy",
    "BrokerError",
    "BrokerFailed",
    "BrokerStatus",
    "BrokerUnavailable",
    "LocalKafka",
    "bootstrap_for",
]

_LINES_SHOWN = 15


class BrokerFailed(BrokerError):
    """The broker did not start or did not answer; the message ends with the last lines of its log."""


class LocalKafka:
    """The broker of one BAT_HOME. Cheap to make: nothing is started or written before `up`."""

    def __init__(
        self,
        home: Path,
        *,
        heap_mb: int = 256,
        start_timeout_s: float = 90.0,
        env: Mapping[str, str] | None = None,
        secured: bool = True,
        secrets: Path | None = None,
        advertise: str | None = None,
    ) -> None:
        if advertise is not None and not secured:
            raise BrokerError("a broker that other machines reach needs access rules: set kafka.security to scram")
        self._advertise = advertise
        self._layout = config.Layout(root=home.absolute() / "kafka")
        self._logins = Logins(folder=secrets or self._layout.secrets, secured=secured)
        self._heap_mb = heap_mb
        self._start_timeout_s = start_timeout_s
        self._env: Mapping[str, str] = os.environ if env is None else env
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """`127.0.0.1:port`; raises BrokerError before the first `up`."""
        state = self._read_state()
        if state is None:
            raise BrokerError(f"no broker was started under {self._layout.root} yet: call up first")
        return state.bootstrap

    @property
    def secrets(self) -> Path:
        """The folder of its users' passwords."""
        return self._logins.folder

    @property
    def authorizer_log(self) -> Path:
        """What it denied to whom."""
        return self._layout.authorizer_log

    def login(self, principal: str = ADMIN, namespace: str = "") -> Address:
        """The broker as one principal of a namespace reaches it; the admin belongs to none."""
        return self._logins.principal(self.bootstrap, principal, namespace)

    def up(self, progress: Progress = quiet) -> str:
        """Start the broker, or reuse the one that runs; returns its bootstrap address once it answers.

        Raises BrokerUnavailable (Java, Maven or jars are missing), BrokerFailed (it does not start or answer, or runs
        with another setting of access control) or BrokerBusy (another process has been starting or stopping it for too
        long).
        """
        state = self._read_state()
        if state is not None and self._running() is not None:
            self._check_secured(state)
            # As the admin, because whoever starts it just now makes that login work last.
            if answers(self.login(), self._layout.meta):
                return state.bootstrap
        with self._locked(progress):
            state, process = self._read_state(), self._running()
            if process is None:
                state = self._start(progress)
            elif state is None:
                raise BrokerFailed(
                    f"the broker runs as process {process.pid}, but {self._layout.state} with its port is gone: stop "
                    "it with `bat-events broker down`, then start it again"
                )
            self._check_secured(state)
            self._wait_until_it_answers(state, progress)
            self._logins.admit_admin(state.bootstrap)
            return state.bootstrap

    def _check_secured(self, state: State) -> None:
        if state.secured != self._logins.secured:
            runs, wanted = ("with", "none") if state.secured else ("without", "scram")
            raise BrokerFailed(
                f"the local broker runs {runs} access control, but kafka.security asks for {wanted}: stop it with "
                "`bat-events broker down`; the next start follows the setting"
            )

    def down(self, *, timeout_s: float = 30.0) -> bool:
        """Stop the broker, first by asking (SIGTERM), after `timeout_s` by force; False where none was running."""
        if self._running() is None:
            return False
        with self._locked(quiet):
            process = self._running()
            if process is None:
                return False
            self._stop(process, timeout_s)
            return True

    def status(self) -> BrokerStatus:
        """What is there now; starts nothing and needs neither Java nor Maven."""
        process, state = self._running(), self._read_state()
        version = None
        with contextlib.suppress(BrokerUnavailable):
            version = jars_version(jars_folder(self._env))
        return BrokerStatus(
            running=process is not None,
            pid=process.pid if process else None,
            port=state.port if state else None,
            bootstrap=state.bootstrap if state else None,
            version=version,
            secured=process is not None and state is not None and state.secured,
            data_bytes=bytes_on_disk(self._layout.data),
            log=self._layout.log,
        )

    # -- starting

    def _start(self, progress: Progress) -> State:
        java, jars = find_java(self._env), ensure_jars(self._env, progress)
        self._layout.logs.mkdir(parents=True, exist_ok=True)
        state = with_free_ports(self._read_state())
        settings = config.server_properties(
            self._layout, state.port, state.controller_port, self._logins.node_password(), self._advertise
        )
        config.write_properties(self._layout.log4j, config.log4j_properties(self._layout))
        if not self._layout.meta.is_file():
            self._format(java, jars, settings)
        config.write_properties(self._layout.properties, settings)
        progress(f"starting Apache Kafka {jars_version(jars)} on {state.bootstrap}")
        with self._layout.console.open("wb") as console:
            self._child = subprocess.Popen(
                self._java_command(java, jars, "kafka.Kafka", str(self._layout.properties)),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                cwd=self._layout.root,
                env=dict(self._env),
                start_new_session=True,
            )
        started = psutil.Process(self._child.pid).create_time()
        state = State(
            port=state.port,
            controller_port=state.controller_port,
            pid=self._child.pid,
            started=started,
            secured=self._logins.secured,
        )
        write_state(self._layout.state, state)
        return state

    def _format(self, java: Java, jars: Path, settings: Mapping[str, str]) -> None:
        """Format the storage in a folder of another name and rename it, so that half a format is never started from."""
        fresh = self._layout.data.with_name("data.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        properties = self._layout.properties.with_name("format.properties")
        config.write_properties(properties, {**settings, "log.dirs": str(fresh)})
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # With "=", because one id in 64 begins with a dash and would be read as an option.
        arguments = ["format", f"--cluster-id={cluster_id}", "--config", str(properties)]
        done = subprocess.run(
            self._java_command(java, jars, "kafka.tools.StorageTool", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            cwd=self._layout.root,
            env=dict(self._env),
        )
        if done.returncode != 0:
            raise BrokerFailed(f"Kafka's storage could not be formatted under {fresh}:\n{done.stdout.strip()}")
        try:
            fresh.rename(self._layout.data)
        except OSError as error:
            raise BrokerFailed(
                f"{self._layout.data} holds files but no meta.properties, so it is no storage of Kafka's: move it away"
            ) from error
        properties.unlink()

    def _java_command(self, java: Java, jars: Path, main_class: str, *arguments: str) -> list[str]:
        flags = config.jvm_flags(self._layout, self._heap_mb)
        return [str(java.path), *flags, "-cp", f"{jars}/*", main_class, *arguments]

    def _wait_until_it_answers(self, state: State, progress: Progress) -> None:
        began = told = time.monotonic()
        while not (port_open(state.port) and answers(self._logins.node(state.bootstrap), self._layout.meta)):
            now = time.monotonic()
            if self._running() is None:
                raise BrokerFailed(f"Kafka ended while starting. {self._last_lines()}")
            if now - began > self._start_timeout_s:
                raise BrokerFailed(
                    f"Kafka does not answer on {state.bootstrap} after {now - began:.0f} s; stop it with "
                    f"`bat-events broker down`. {self._last_lines()}"
                )
            if now - told >= 5:
                progress(f"waiting for Kafka to answer, {now - began:.0f} s")
                told = now
            time.sleep(0.05)

    def _last_lines(self) -> str:
        parts = []
        for path in (self._layout.log, self._layout.console):
            with contextlib.suppress(OSError):
                lines = path.read_text(errors="replace").splitlines()[-_LINES_SHOWN:]
                if lines:
                    parts.append("\n".join((f"Last lines of {path}:", *lines)))
        return "\n".join(parts) or f"It logged nothing under {self._layout.logs}"

    # -- stopping

    def _stop(self, process: psutil.Process, timeout_s: float) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
            deadline = time.monotonic() + timeout_s
            while time.monotonic() < deadline:
                if not self._is_ours(process):
                    return
                time.sleep(0.05)
        raise BrokerFailed(
            f"process {process.pid} does not end, not even by SIGKILL: see ps -o stat,wchan {process.pid}"
        )

    # -- which process it is

    def _running(self) -> psutil.Process | None:
        """This home's broker, whoever started it. Looked for by command line where the state names a dead process."""
        if self._child is not None:
            self._child.poll()  # reaps it
        state = self._read_state()
        if state is not None and state.pid is not None and state.started is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(state.pid)
                if abs(process.create_time() - state.started) < 2 and self._is_ours(process):
                    return process
        if not self._layout.properties.exists():
            return None
        return next((process for process in psutil.process_iter() if self._is_ours(process)), None)

    def _is_ours(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error):
            alive = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
            return alive and process.cmdline()[-2:] == ["kafka.Kafka", str(self._layout.properties)]
        return False

    # -- what is kept

    def _locked(self, progress: Progress) -> contextlib.AbstractContextManager[None]:
        self._layout.root.mkdir(parents=True, exist_ok=True)
        what = "starts or stops this broker"
        return locked(self._layout.lock, timeout_s=self._start_timeout_s + 600, what=what, progress=progress)

    def _read_state(self) -> State | None:
        return read_state(self._layout.state)


def bootstrap_for(home: Path, env: Mapping[str, str] | None = None, progress: Progress = quiet) -> str:
    """The cluster to use: BAT_KAFKA_BOOTSTRAP where it is set, else the local broker of `home`, started if need be."""
    settings: Mapping[str, str] = os.environ if env is None else env
    return settings.get("BAT_KAFKA_BOOTSTRAP", "").strip() or LocalKafka(home, env=settings).up(progress)
