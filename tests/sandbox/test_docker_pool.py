"""Containers come and go without leaving anything, are what they are said to be, and are chosen only where they hold."""

import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import open_handles, wait_until
from quick_limits import QUICK

from bat_events.sandbox.bubblewrap import ISOLATION as BUBBLEWRAP
from bat_events.sandbox.docker.engine import LABEL, Engine, connect
from bat_events.sandbox.docker.image import SUPERVISOR_LABEL, find_image
from bat_events.sandbox.docker.pool import DockerPool
from bat_events.sandbox.docker.private_engine import PrivateEngine
from bat_events.sandbox.docker.slot import DockerSlot
from bat_events.sandbox.interface import Limits, SandboxFault, SandboxUnavailable
from bat_events.sandbox.selftest import QUICK as FIRST
from bat_events.sandbox.selftest import LimitCheck, require_limits
from bat_events.service import sandboxes
from bat_events.settings import SandboxSettings

pytestmark = pytest.mark.sandbox


@pytest.fixture
def client(engine: PrivateEngine) -> Iterator[Engine]:
    made = connect(engine.address)
    yield made
    made.close()


def _containers(client: Engine) -> set[str]:
    return {row["Id"] for row in client.api.containers(all=True, filters={"label": LABEL})}


def _plain(engine: PrivateEngine, root: Path, **settings: Any) -> DockerPool:
    return DockerPool(**{"root": root, "preimports": (), "address": engine.address, "prestart": 0, **settings})


def test_rollouts_from_threads_leave_no_container_process_mount_file_or_descriptor(
    engine: PrivateEngine, client: Engine, tmp_path: Path
) -> None:
    containers, shims, layers = _containers(client), engine.shims(), engine.mounts()
    mounts, handles = Path("/proc/self/mountinfo").read_text(), open_handles()
    with _plain(engine, tmp_path, prestart=2, runtime=engine.runtimes[0]) as own:

        def rollout(number: int) -> str:
            given = {"input/n": b"%d" % number}
            with own.open(inputs=given, files={"f": b"x"}, limits=Limits(), rollout=f"group-7/{number}") as sandbox:
                sandbox.execute("bash", "(setsid sleep 60 &); cat input/n > out; head -c 100000 /dev/zero > /tmp/x")
                return sandbox.execute("python", "print(open('out').read())").stdout

        with ThreadPoolExecutor(2) as workers:
            assert list(workers.map(rollout, range(12))) == [f"{number}\n" for number in range(12)]
    assert _containers(client) == containers
    wait_until("the engine's helpers end", lambda: set(engine.shims()) <= set(shims))
    assert engine.mounts() == layers
    assert list(tmp_path.iterdir()) == []
    assert Path("/proc/self/mountinfo").read_text() == mounts
    wait_until("descriptors close", lambda: not open_handles() - handles)


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_a_container_is_shut_in_as_promised_and_named_after_its_rollout(
    engine: PrivateEngine, client: Engine, tmp_path: Path, library: Path, runtime: str
) -> None:
    if runtime not in engine.runtimes:
        pytest.skip(f"{runtime} is not installed: apt-get install {runtime}")
    with (
        _plain(engine, tmp_path, runtime=runtime, readonly_paths=[library], aliases={"m": "practice_skills"}) as pool,
        pool.open(inputs={}, files={}, limits=QUICK, rollout="group 7/3") as sandbox,
    ):
        assert isinstance(sandbox.slot, DockerSlot)
        about = client.api.inspect_container(sandbox.slot.container)
        assert about["Name"].startswith("/bat-group-7-3-")
        assert about["Image"] == find_image(client).id
        host = about["HostConfig"]
        assert (host["NetworkMode"], host["ReadonlyRootfs"], host["Runtime"]) == ("none", True, runtime)
        assert host["CapDrop"] == ["ALL"]
        assert "no-new-privileges:true" in host["SecurityOpt"]
        assert host["PidsLimit"] == QUICK.processes + 1
        assert 0 < host["Memory"] == host["MemorySwap"] <= QUICK.memory_bytes + (64 << 20)
        assert host["NanoCpus"] == 1_000_000_000
        assert host["LogConfig"]["Config"]["max-size"] == "64k"
        assert about["Config"]["User"].split(":")[0] not in ("", "0", "root")
        assert all(bind.endswith(":ro") for bind in host["Binds"])
        # then the library is the image's own, not a mount, and the receipt says what the call ran in
        assert not any(str(library) in bind for bind in host["Binds"])
        receipt = sandbox.execute("python", "print(m.double(4), m.__file__)")
        assert receipt.stdout == "8 /opt/library/0/library0/practice_skills.py\n"
        assert (receipt.engine, receipt.isolation) == ("docker", f"docker ({runtime}, {about['Image']})")
        checks = require_limits(pool, FIRST)
    assert {check.limit for check in checks} == {"memory", "processes", "network", "file system", "rights"}


def test_a_container_that_ends_in_mid_call_is_a_fault_of_the_infrastructure(
    engine: PrivateEngine, client: Engine, tmp_path: Path
) -> None:
    with _plain(engine, tmp_path) as pool, pool.open(inputs={}, files={}, limits=QUICK) as sandbox:
        assert isinstance(sandbox.slot, DockerSlot)
        with ThreadPoolExecutor(1) as worker:
            call = worker.submit(sandbox.execute, "bash", "sleep 30")
            time.sleep(0.3)
            client.api.kill(sandbox.slot.container)
            with pytest.raises(SandboxFault):
                call.result(timeout=10)
        assert not sandbox.slot.alive


def test_a_killed_worker_s_containers_end_and_are_removed_at_the_next_start(
    engine: PrivateEngine, client: Engine, tmp_path: Path
) -> None:
    code = f"""
        from pathlib import Path
        from bat_events.sandbox.docker.pool import DockerPool
        from bat_events.sandbox.interface import Limits
        pool = DockerPool(root=Path({str(tmp_path)!r}), preimports=(), address={engine.address!r}, prestart=1)
        sandbox = pool.open(inputs={{"input/a": b"1"}}, files={{}}, limits=Limits())
        pool.settle()
        print("ready", flush=True)
        sandbox.execute("bash", "sleep 600")
    """
    before = _containers(client)
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        left = _containers(client) - before
        folders = {path.name for path in tmp_path.iterdir()}
        worker.kill()
    assert len(left) == len(folders) == 2
    running = {"label": LABEL, "status": "running"}
    wait_until("they end", lambda: not left & {row["Id"] for row in client.api.containers(filters=running)})
    with _plain(engine, tmp_path) as pool:
        assert set(pool.reaped) == left | folders
        assert not left & _containers(client)
        assert not folders & {path.name for path in tmp_path.iterdir()}


def test_what_cannot_serve_is_refused_with_its_remedy(engine: PrivateEngine, client: Engine, tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match=r"(?s)no container engine answers at unix:///nowhere"):
        _plain(engine, tmp_path, address="unix:///nowhere")
    with pytest.raises(SandboxUnavailable, match="not on this machine's socket"):
        _plain(engine, tmp_path, address="tcp://127.0.0.1:2375")
    with pytest.raises(SandboxUnavailable, match="bat-events sandbox build"):
        _plain(engine, tmp_path, image="nosuch")
    with pytest.raises(SandboxUnavailable, match="knows no runtime 'kata', only"):
        _plain(engine, tmp_path, runtime="kata")
    with pytest.raises(SandboxUnavailable, match="No module named 'nosuch'"):
        _plain(engine, tmp_path, preimports=["nosuch"])
    old = client.api.create_container(image=find_image(client).id, command=["true"])["Id"]
    client.api.commit(old, repository="old", changes=f'LABEL {SUPERVISOR_LABEL}="another"')
    client.api.remove_container(old)
    with pytest.raises(SandboxUnavailable, match="built for another version"):
        _plain(engine, tmp_path, image="old")
    client.api.remove_image("old")
    assert list(tmp_path.iterdir()) == []


def _chosen(settings: SandboxSettings, root: Path, said: list[str]) -> str:
    with sandboxes.make_pool(
        settings, root=root, readonly_paths=(), preimports=(), aliases={}, warn=said.append
    ) as pool:
        return pool.isolation


def test_containers_are_chosen_where_they_can_be_had_and_the_weaker_isolation_is_said(
    engine: PrivateEngine, tmp_path: Path
) -> None:
    said: list[str] = []
    here = {"docker_host": engine.address, "prestart": 0}
    assert _chosen(SandboxSettings(**here), tmp_path, said).startswith("docker (")
    assert said == []
    assert _chosen(SandboxSettings(**here, isolation="bubblewrap"), tmp_path, said) == BUBBLEWRAP
    assert said == []


def test_without_an_engine_auto_falls_back_loudly_and_docker_refuses(tmp_path: Path) -> None:
    said: list[str] = []
    nowhere = {"docker_host": "unix:///nowhere", "prestart": 0}
    assert _chosen(SandboxSettings(**nowhere), tmp_path, said) == BUBBLEWRAP
    assert "weaker" in said[0]
    assert "unix:///nowhere" in said[0]
    with pytest.raises(SandboxUnavailable, match="no container engine"):
        _chosen(SandboxSettings(**nowhere, isolation="docker"), tmp_path, said)


def test_a_pool_whose_limits_do_not_bite_does_not_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [LimitCheck(limit="memory", held=False, detail="end exited, exit 0")]
    monkeypatch.setattr("bat_events.sandbox.selftest.self_test", lambda *_: broken)
    with pytest.raises(SandboxUnavailable, match="does not enforce: memory"):
        _chosen(SandboxSettings(isolation="bubblewrap", prestart=0), tmp_path, [])
    assert list(tmp_path.iterdir()) == []
