"""Sandboxes come and go without leaving anything, from many threads, after kills, and for a user without rights."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from conftest import open_handles
from quick_limits import QUICK

import bat_events
from bat_events.sandbox import image
from bat_events.sandbox.bubblewrap import BubblewrapPool
from bat_events.sandbox.cgroup import find_parent
from bat_events.sandbox.interface import SandboxFault, SandboxUnavailable
from bat_events.sandbox.slot import BubblewrapSlot

pytestmark = pytest.mark.sandbox


def _plain_pool(root: Path, prestart: int = 0) -> BubblewrapPool:
    return BubblewrapPool(root=root, preimports=(), packages=(), prestart=prestart)


def _descendants() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def _groups(owner: int) -> list[str]:
    parent = find_parent()
    return [name for name, _ in parent.left_behind() if name.startswith(f"{owner}-")] if parent else []


def _wait_until(condition: str, check: object, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
        time.sleep(0.05)


@pytest.mark.parametrize("pool", ["bubblewrap"], indirect=True)
def test_fifty_rollouts_from_four_threads_leave_no_process_mount_file_group_or_descriptor(
    tmp_path: Path, pool: BubblewrapPool
) -> None:
    pool.settle()  # the shared pool must not grow while this test counts
    processes, groups = _descendants(), _groups(os.getpid())
    mounts, handles = Path("/proc/self/mountinfo").read_text(), open_handles()
    with _plain_pool(tmp_path, prestart=2) as own:

        def rollout(number: int) -> str:
            with own.open(inputs={"input/n": b"%d" % number}, files={"f": b"x"}, limits=QUICK) as sandbox:
                sandbox.execute("bash", "(setsid sleep 60 &); cat input/n > out; head -c 100000 /dev/zero > /tmp/x")
                return sandbox.execute("python", "print(open('out').read())").stdout

        with ThreadPoolExecutor(4) as workers:
            assert list(workers.map(rollout, range(50))) == [f"{number}\n" for number in range(50)]
    assert _descendants() == processes
    assert list(tmp_path.iterdir()) == []
    assert _groups(os.getpid()) == groups
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert open_handles() - handles == Counter()


@pytest.mark.parametrize("pool", ["bubblewrap"], indirect=True)
def test_a_warm_call_costs_few_milliseconds_of_processor_time(pool: BubblewrapPool) -> None:
    with pool.open(inputs={}, files={"f": b"x"}, limits=QUICK) as sandbox:
        sandbox.execute("python", "pass")
        assert isinstance(sandbox.slot, BubblewrapSlot)
        supervisor = psutil.Process(sandbox.slot.pid).children()[0]
        before, runtime_s = supervisor.cpu_times(), time.thread_time()
        for _ in range(40):
            sandbox.execute("python", "print(numpy.arange(3).sum())")
        after, runtime_s = supervisor.cpu_times(), time.thread_time() - runtime_s
    # Two cores at 40 calls/s allow 50 ms; an import that is not warm costs more than the rest of a call.
    assert (sum(after[:4]) - sum(before[:4]) + runtime_s) / 40 < 0.018


def test_closing_a_pool_closes_what_is_still_open(tmp_path: Path) -> None:
    processes = _descendants()
    pool = _plain_pool(tmp_path, prestart=1)
    sandbox = pool.open(inputs={}, files={}, limits=QUICK)
    pool.close()
    with pytest.raises(SandboxFault, match="closed"):
        sandbox.execute("bash", "true")
    with pytest.raises(SandboxFault, match="closed"):
        pool.open(inputs={}, files={}, limits=QUICK)
    assert list(tmp_path.iterdir()) == []
    assert _descendants() == processes


def test_a_killed_supervisor_is_a_fault_of_the_infrastructure(tmp_path: Path) -> None:
    with _plain_pool(tmp_path) as pool, pool.open(inputs={}, files={}, limits=QUICK) as sandbox:
        with ThreadPoolExecutor(1) as worker:
            call = worker.submit(sandbox.execute, "bash", "sleep 30")
            time.sleep(0.3)
            assert isinstance(sandbox.slot, BubblewrapSlot)
            os.kill(sandbox.slot.pid, signal.SIGKILL)
            with pytest.raises(SandboxFault):
                call.result(timeout=10)
        with pytest.raises(SandboxFault):
            sandbox.execute("bash", "true")


def test_a_killed_worker_leaves_no_process_and_its_files_go_at_the_next_start(tmp_path: Path) -> None:
    code = f"""
        from pathlib import Path
        from bat_events.sandbox.bubblewrap import BubblewrapPool
        from bat_events.sandbox.interface import Limits
        pool = BubblewrapPool(root=Path({str(tmp_path)!r}), preimports=(), packages=(), prestart=1)
        sandbox = pool.open(inputs={{"input/a": b"1"}}, files={{}}, limits=Limits())
        print("ready", flush=True)
        sandbox.execute("bash", "sleep 60")
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        _wait_until("the call runs", lambda: b"sleep" in _command_lines(worker.pid))
        started = [psutil.Process(worker.pid), *psutil.Process(worker.pid).children(recursive=True)]
        worker.kill()
    _wait_until("every process is gone", lambda: not any(_alive(process) for process in started))
    left = {path.name for path in tmp_path.iterdir()}
    assert left
    with _plain_pool(tmp_path) as pool:
        assert set(pool.reaped) == left
        assert not left & {path.name for path in tmp_path.iterdir()}
    assert _groups(worker.pid) == []


def _command_lines(pid: int) -> bytes:
    with contextlib.suppress(psutil.Error):
        return " ".join(
            part for child in psutil.Process(pid).children(recursive=True) for part in child.cmdline()
        ).encode()
    return b""


def _alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def test_without_bubblewrap_nothing_runs_and_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap"):
        _plain_pool(tmp_path)


def test_a_bubblewrap_that_cannot_isolate_is_refused_with_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    root = tmp_path / "root"
    monkeypatch.setattr(image.shutil, "which", lambda _: str(fake))
    with pytest.raises(
        SandboxUnavailable, match=r"(?s)user\.max_user_namespaces.*No permissions to create new namespace"
    ):
        _plain_pool(root)
    assert list(root.iterdir()) == []


def test_a_module_that_cannot_be_imported_inside_is_named(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="No module named 'nosuch'"):
        BubblewrapPool(root=tmp_path, preimports=["nosuch"], packages=(), prestart=0)


@pytest.fixture
def for_everyone() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="bat-nobody-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests already run as a normal user")
def test_a_normal_user_gets_the_same_isolation(for_everyone: Path) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [f"{sys.base_prefix}/bin/{version}", f"/usr/bin/{version}"]
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    usable = [
        path for path in candidates if subprocess.run([*nobody, path, "-c", ""], capture_output=True).returncode == 0
    ]
    if not usable:
        pytest.skip(f"no {version} that a normal user may run: apt-get install {version}")
    package = Path(bat_events.__file__).parent
    shutil.copytree(package / "sandbox", for_everyone / "bat_events" / "sandbox")
    for name in ("__init__.py", "errors.py"):
        shutil.copy(package / name, for_everyone / "bat_events")
    (for_everyone / "root").mkdir()
    os.chown(for_everyone / "root", 65534, 65534)
    code = """
        from pathlib import Path
        from bat_events.sandbox.bubblewrap import BubblewrapPool
        from bat_events.sandbox.selftest import require_limits
        with BubblewrapPool(root=Path("root"), preimports=(), packages=(), prestart=1) as pool:
            assert not pool.as_root
            print(len(require_limits(pool)))
    """
    # given a user without rights, whose only wall is a user name space
    done = subprocess.run(
        [*nobody, usable[0], "-B", "-c", textwrap.dedent(code)],
        cwd=for_everyone,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(for_everyone)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    # then every limit still holds
    assert (done.returncode, done.stdout) == (0, "11\n"), done.stderr
    assert list((for_everyone / "root").iterdir()) == []
