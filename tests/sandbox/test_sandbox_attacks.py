"""The policy cannot reach the supervisor, end it, make it lie, starve it, or outlive its call."""

import platform

import pytest
from quick_limits import QUICK

from bat_events.sandbox import seccomp
from bat_events.sandbox.bubblewrap import ISOLATION as BUBBLEWRAP
from bat_events.sandbox.bubblewrap import BubblewrapPool
from bat_events.sandbox.interface import Limits
from bat_events.sandbox.session import SupervisedSandbox
from bat_events.sandbox.warm_pool import WarmPool

pytestmark = pytest.mark.sandbox

_COLUMN = 0 if platform.machine() == "x86_64" else 1
_SYSCALL = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"


def _works(sandbox: SupervisedSandbox) -> bool:
    receipt = sandbox.execute("python", "print(m.double(21)); raise SystemExit(5)")
    return (receipt.end, receipt.exit_code, receipt.stdout) == ("exited", 5, "42\n")


def test_no_descriptor_of_the_supervisor_is_left_to_write_to(sandbox: SupervisedSandbox) -> None:
    code = """
import gc, json, os, socket
forged = json.dumps({"status": 0, "cpu_s": 0, "verdict": None}).encode()
for fd in range(3, 2000):
    try: os.write(fd, forged); print("wrote", fd)
    except OSError: pass
for thing in gc.get_objects():
    if isinstance(thing, socket.socket):
        try: thing.send(forged); print("sent")
        except OSError: pass
try: print(os.listdir("/proc/1/fd"))
except OSError: pass
raise SystemExit(6)
"""
    receipt = sandbox.execute("python", code)
    assert (receipt.exit_code, receipt.stdout, receipt.stderr) == (6, "", "")
    assert sandbox.execute("bash", "ls /proc/self/fd").stdout.split() == ["0", "1", "2", "3"]  # 3 is ls itself
    assert _works(sandbox)


@pytest.mark.parametrize(
    "code",
    [
        "import os, signal\nfor s in (9, 15, 19, 11, 31):\n    try: os.kill(1, s)\n    except PermissionError: pass",
        "import os\ntry: os.kill(-1, 9)\nexcept PermissionError: pass",
        _SYSCALL + "for limit in range(16): libc.prlimit(1, limit, ctypes.byref((ctypes.c_uint64 * 2)(0, 0)), None)",
        "import os\ntry: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))\nexcept OSError: pass",
        "import os\nfor name in ('mem', 'oom_score_adj', 'environ', 'maps', 'cwd', 'root/x', 'task/1/children'):\n"
        "    for mode in ('rb', 'wb'):\n"
        "        try: print(name, open('/proc/1/' + name, mode).read(1)) if name != 'task/1/children' else None\n"
        "        except (OSError, ValueError): pass",
        "import os\ntry: print(open('/proc/self/oom_score_adj', 'w').write('-1000'))\nexcept OSError: pass",
    ],
    ids=["signals", "kill-all", "prlimit", "scheduler", "proc", "oom-score"],
)
def test_the_supervisor_survives(sandbox: SupervisedSandbox, code: str) -> None:
    receipt = sandbox.execute("python", code)
    assert receipt.end == "exited"
    assert _works(sandbox)


@pytest.mark.parametrize(
    "code",
    [
        _SYSCALL + "libc.ptrace(16, 1, 0, 0)",
        _SYSCALL + "libc.process_vm_readv(1, None, 0, None, 0, 0)",
        _SYSCALL + "libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)",
        _SYSCALL + "libc.unshare(0x10000000)",
        _SYSCALL + "libc.setns(0, 0)",
        _SYSCALL
        + "libc.clone(None, None, 0x10000000 | 17, None) if False else libc.syscall(56, 0x10000011, 0, 0, 0, 0)",
        _SYSCALL + f"libc.syscall({seccomp._BREACH['bpf'][_COLUMN]}, 0, None, 0)",
        _SYSCALL + f"libc.syscall({seccomp._BREACH['userfaultfd'][_COLUMN]}, 0)",
        _SYSCALL + f"libc.syscall({seccomp._BREACH['keyctl'][_COLUMN]}, 0, 0)",
        _SYSCALL + "libc.chroot(b'/tmp')",
        "import subprocess\nsubprocess.run(['unshare', '-Ur', 'true'])",
        "import os\nif os.fork() == 0:\n    os.setsid()\n    os.execlp('mount', 'mount', '-t', 'tmpfs', 'x', '/tmp')\nos.wait()",
    ],
)
def test_an_escape_is_a_breach_also_from_a_descendant(sandbox: SupervisedSandbox, code: str) -> None:
    code += "\nprint('went on')"
    receipt = sandbox.execute("python", code)
    assert (receipt.end, receipt.exit_code, receipt.stdout) == ("breach", None, ""), receipt
    assert _works(sandbox)


def test_what_harmless_programs_try_is_refused_without_being_a_breach(sandbox: SupervisedSandbox) -> None:
    receipt = sandbox.execute("python", "import socket\nsocket.create_connection(('127.0.0.1', 80), 1)")
    assert (receipt.end, receipt.exit_code) == ("exited", 1)
    assert "OSError" in receipt.stderr
    multi = "import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, -2]))"
    assert sandbox.execute("python", multi).stdout == "[1, 2]\n"


def test_the_exit_code_is_the_first_process_s_whatever_its_descendants_do(sandbox: SupervisedSandbox) -> None:
    code = "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(5); os._exit(0)\nos._exit(7)"
    receipt = sandbox.execute("python", code)
    assert (receipt.end, receipt.exit_code) == ("exited", 7)
    assert receipt.wall_s < 3


def test_memory_taken_by_one_call_never_ends_the_supervisor(sandbox: SupervisedSandbox) -> None:
    hog = "import os\ntry: open('/proc/self/oom_score_adj', 'w').write('-1000')\nexcept OSError: pass\n"
    hog += "for _ in range(4): os.fork()\nx = b'1' * (100 << 20)"
    assert sandbox.execute("python", hog).end in ("memory", "processes")
    assert _works(sandbox)


def test_memory_left_in_files_never_ends_the_supervisor(pool: WarmPool) -> None:
    if getattr(pool, "parent", True) is None:
        pytest.skip("files are counted as memory only where a control group can be made")
    limits = Limits(memory_bytes=8 << 20, disk_bytes=QUICK.disk_bytes)
    with pool.open(inputs={}, files={}, limits=limits) as sandbox:
        fill = "for d in . /tmp /dev/shm; do head -c 4000000 /dev/zero > $d/f; done"
        ends = [sandbox.execute("bash", fill).end for _ in range(3)]
        if pool.isolation == BUBBLEWRAP:
            assert set(ends) == {"memory"}
        else:  # an engine's limit is on the supervisor and the files too, and makes room for both
            assert set(ends) == {"exited"}
            assert sandbox.execute("python", "x = b'1' * (64 << 20)").end == "memory"
            assert _works(sandbox)


def test_a_daemon_does_not_outlive_its_call(sandbox: SupervisedSandbox) -> None:
    daemon = """
import os, signal, time
for _ in range(2):
    if os.fork(): os._exit(0)
    os.setsid()
for s in range(1, 32):
    if s not in (9, 19): signal.signal(s, signal.SIG_IGN)
time.sleep(0.3)
open("late.txt", "w").write("late")
"""
    before = sandbox.execute("python", daemon).workspace_after
    after = sandbox.execute("python", "import time; time.sleep(0.5)")
    assert (after.workspace_before, after.workspace_after) == (before, before)
    assert "late.txt" not in sandbox.files()


def test_sandboxes_do_not_see_each_other(pool: WarmPool) -> None:
    with (
        pool.open(inputs={}, files={"secret": b"s"}, limits=QUICK) as one,
        pool.open(inputs={}, files={}, limits=QUICK) as other,
    ):
        one.execute("bash", "cp secret /tmp/secret; cp secret /dev/shm/secret")
        found = other.execute("bash", "find / -name secret -not -path '/proc/*' 2>/dev/null; echo /proc/[0-9]*")
        assert found.stdout.split()[0] == "/proc/1"
        assert len(found.stdout.split()) <= 3


def test_secrets_in_the_runtime_s_environment_and_files_stay_outside(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("BAT_SECRET", "swordfish")
    with (
        BubblewrapPool(root=tmp_path_factory.mktemp("env"), preimports=(), packages=(), prestart=0) as fresh,
        fresh.open(inputs={}, files={}, limits=Limits()) as sandbox,
    ):
        receipt = sandbox.execute(
            "bash", "env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; ls -d /home /root /run /sys"
        )
        assert "swordfish" not in receipt.stdout + receipt.stderr
        assert receipt.stdout.count("/") == receipt.stdout.replace("/home", "?").count("/")
