"""Each limit bites, says so in the receipt, and leaves a sandbox that goes on working."""

import time

import pytest
from quick_limits import QUICK

from bat_events.sandbox.bubblewrap import BubblewrapPool
from bat_events.sandbox.interface import Limits, SandboxUnavailable
from bat_events.sandbox.selftest import require_limits, self_test
from bat_events.sandbox.session import SupervisedSandbox
from bat_events.sandbox.warm_pool import WarmPool

pytestmark = pytest.mark.sandbox

_FORK_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 3"


def test_the_self_test_finds_every_limit_of_a_real_pool_held(pool: WarmPool) -> None:
    checks = require_limits(pool)
    assert {check.limit for check in checks} >= {"memory", "processes", "network", "file system", "time-out", "disk"}


def test_the_self_test_finds_a_limit_that_does_not_bite(pool: WarmPool, monkeypatch: pytest.MonkeyPatch) -> None:
    real_open = pool.open

    def lax(**arguments: object) -> SupervisedSandbox:
        limits = arguments["limits"]
        assert isinstance(limits, Limits)
        wide = Limits(disk_bytes=limits.disk_bytes, memory_bytes=1 << 40, timeout_s=2.0, cpu_s=1.0)
        return real_open(inputs={}, files={}, limits=wide if limits.memory_bytes == 128 << 20 else limits)

    monkeypatch.setattr(pool, "open", lax)
    monkeypatch.setattr(
        "bat_events.sandbox.selftest._ENDS",
        [("memory", "memory", "x = b'1' * (300 << 20)", Limits(memory_bytes=128 << 20))],
    )
    assert [check.limit for check in self_test(pool) if not check.held] == ["memory"]
    with pytest.raises(SandboxUnavailable, match="does not enforce: memory"):
        require_limits(pool)


@pytest.mark.parametrize(
    ("end", "language", "code"),
    [
        ("memory", "python", "x = b'1' * (300 << 20)"),
        ("memory", "bash", "python -c \"x = b'1' * (300 << 20)\"; echo survived"),
        ("processes", "bash", _FORK_BOMB),
        (
            "processes",
            "python",
            "import threading, time\nfor _ in range(40): threading.Thread(target=time.sleep, args=(2,)).start()",
        ),
        ("disk", "bash", "head -c 6000000 /dev/zero > big"),
        ("disk", "bash", "head -c 6000000 /dev/zero > /tmp/big"),
        ("disk", "bash", "for i in 1 2 3; do head -c 2000000 /dev/zero > part$i; done"),
        ("disk", "python", "for i in range(5000): open(str(i), 'w')"),
        ("output", "bash", "yes"),
        ("output", "python", "import sys; sys.stderr.write('x' * 20000)"),
    ],
)
def test_a_limit_ends_the_call_and_the_next_call_works(
    sandbox: SupervisedSandbox, end: str, language: str, code: str
) -> None:
    receipt = sandbox.execute(language, code)  # type: ignore[arg-type]
    assert (receipt.end, receipt.exit_code) == (end, None), receipt
    assert len(receipt.stdout) <= QUICK.output_bytes
    assert len(receipt.stderr) <= QUICK.output_bytes
    assert sandbox.execute("bash", "rm -rf part* big /tmp/big [0-9]*; echo works").stdout == "works\n"


def test_a_call_past_its_time_is_killed_with_everything_it_started(pool: WarmPool) -> None:
    limits = Limits(timeout_s=1.0, disk_bytes=QUICK.disk_bytes)
    with pool.open(inputs={}, files={}, limits=limits) as sandbox:
        started = time.monotonic()
        receipt = sandbox.execute("bash", "trap '' TERM INT; echo begun; (setsid sleep 60 &) ; sleep 60")
        assert (receipt.end, receipt.stdout) == ("timeout", "begun\n")
        assert time.monotonic() - started < 4
        listing = "import os; print(sum(name.isdigit() for name in os.listdir('/proc')))"
        assert sandbox.execute("python", listing).stdout == "2\n"  # the supervisor and this call
        assert sandbox.execute("bash", "kill -STOP $$").end == "timeout"


def test_cpu_time_is_limited_apart_from_the_clock(pool: WarmPool) -> None:
    with pool.open(inputs={}, files={}, limits=Limits(timeout_s=30, cpu_s=1, disk_bytes=QUICK.disk_bytes)) as sandbox:
        ignoring = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
        assert sandbox.execute("python", ignoring).end == "timeout"
        assert sandbox.execute("python", "import os, signal; os.kill(os.getpid(), signal.SIGXCPU)").exit_code == 152


def test_exactly_the_limit_of_output_is_not_over_it(sandbox: SupervisedSandbox) -> None:
    receipt = sandbox.execute("bash", f"head -c {QUICK.output_bytes} /dev/zero | tr '\\0' x")
    assert (receipt.end, len(receipt.stdout)) == ("exited", QUICK.output_bytes)


@pytest.mark.parametrize("end", ["memory", "processes"])
def test_without_a_control_group_the_supervisor_counts(tmp_path_factory: pytest.TempPathFactory, end: str) -> None:
    with (
        BubblewrapPool(
            root=tmp_path_factory.mktemp("plain"), preimports=(), packages=(), prestart=0, use_cgroup=False
        ) as pool,
        pool.open(inputs={}, files={}, limits=QUICK) as sandbox,
    ):
        code = {
            "memory": "x = b'1' * (300 << 20)\nimport time; time.sleep(1)",
            "processes": f"import os; os.execlp('bash', 'bash', '-c', '{_FORK_BOMB}')",
        }
        assert sandbox.execute("python", code[end]).end == end
        shared = """
import os, time
x = b"1" * (60 << 20)
for _ in range(6):
    if os.fork() == 0:
        time.sleep(0.3)
        os._exit(0)
time.sleep(0.3)
"""
        assert sandbox.execute("python", shared).end == "exited"  # shared pages count once
