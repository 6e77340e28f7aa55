"""Proof at start that the limits of a pool bite on this machine: each is attacked inside a real sandbox.

An engine that ignores a limit silently (some container set-ups do) is found here, before any policy runs.
"""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bat_events.sandbox.interface import CallEnd, Limits, Receipt, Sandbox, SandboxPool, SandboxUnavailable

_LIMITS = Limits(
    timeout_s=5.0,
    memory_bytes=128 << 20,
    processes=8,
    output_bytes=4096,
    disk_bytes=4 << 20,
    cpu_s=5.0,
    code_bytes=64 << 10,
)


@dataclass(frozen=True, kw_only=True)
class LimitCheck:
    """Whether one limit held against an attack, and what was seen."""

    limit: str
    held: bool
    detail: str


# What an engine is most likely to ignore, and what costs little to try.
QUICK = ("memory", "processes", "network", "file system", "rights")


def self_test(pool: SandboxPool, only: Sequence[str] | None = None) -> list[LimitCheck]:
    """Attack every limit of `pool`, or those in `only`; a few seconds. Raises SandboxFault where the sandbox itself fails."""
    checks = [_ends(pool, *attack) for attack in _ENDS if only is None or attack[0] in only]
    for limit, code in _DENIALS:
        if only is None or limit in only:
            checks.append(_denies(pool, limit, code.replace("HIDDEN", repr(tuple(pool.hidden)))))
    return checks + ([_leftovers(pool)] if only is None else [])


def require_limits(pool: SandboxPool, only: Sequence[str] | None = None) -> list[LimitCheck]:
    """`self_test`, but raises SandboxUnavailable naming the limits that do not hold."""
    checks = self_test(pool, only)
    if broken := [f"{check.limit} ({check.detail})" for check in checks if not check.held]:
        raise SandboxUnavailable(f"this machine does not enforce: {'; '.join(broken)}. No policy code is run on it.")
    return checks


def _code(text: str) -> str:
    return textwrap.dedent(text).strip() + "\n"


_ENDS: tuple[tuple[str, CallEnd, str, Limits], ...] = (
    ("memory", "memory", "blocks = []\nwhile True: blocks.append(b'1' * (1 << 20))", _LIMITS),
    (
        "processes",
        "processes",
        _code("""
            import os, time
            for _ in range(64):
                try:
                    if os.fork() == 0: time.sleep(60)
                except OSError:
                    pass
            time.sleep(2)
        """),
        _LIMITS,
    ),
    ("disk", "disk", "with open('big', 'wb') as f:\n  while True: f.write(bytes(1 << 16)), f.flush()", _LIMITS),
    ("output", "output", "while True: print('x' * 1000)", _LIMITS),
    ("system calls", "breach", "import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0)", _LIMITS),
    ("time-out", "timeout", "import time; time.sleep(600)", Limits(timeout_s=0.5)),
    ("cpu", "timeout", "while True: pass", Limits(timeout_s=30.0, cpu_s=1.0)),
)

# Each prints what it reached; nothing printed and exit 0 means that all was denied.
_DENIALS: tuple[tuple[str, str], ...] = (
    (
        "network",
        _code("""
            import socket
            for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, 40):
                try: socket.socket(family, socket.SOCK_DGRAM); print('socket', family)
                except OSError: pass
            devices = [line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in line]
            if devices != ['lo']: print(devices)
        """),
    ),
    (
        "file system",
        _code("""
            import os
            for path in '/x /usr/x /usr/bin/x /opt/x /opt/packages/x /etc/x /dev/x input/x /proc/sys/kernel/hostname'.split():
                try: open(path, 'w'); print('wrote', path)
                except OSError: pass
            for path in HIDDEN:
                if os.path.exists(path): print('sees', path)
            for line in open('/proc/self/mountinfo'):
                path = line.split()[4]
                if path in ('/workspace', '/tmp', '/dev/shm') or not os.path.isdir(path): continue
                try: open(os.path.join(path, 'x'), 'w'); print('wrote to the mount', path)
                except OSError: pass
            if set(os.environ) & {'AWS_SECRET_ACCESS_KEY', 'SSH_AUTH_SOCK', 'VIRTUAL_ENV'}: print('environment')
        """),
    ),
    (
        "rights",
        _code("""
            import os
            status = {name: value.strip() for name, _, value in (line.partition(':') for line in open('/proc/self/status'))}
            for field in ('CapInh', 'CapPrm', 'CapEff', 'CapAmb'):
                if int(status[field], 16): print(field, status[field])
            if status['NoNewPrivs'] != '1' or status['Seccomp'] != '2' or 0 in (os.getuid(), os.geteuid()): print(status)
            for path in ('/proc/1/mem', '/proc/1/environ', '/proc/1/fd/3', '/proc/1/root/x'):
                try: open(path, 'rb'); print('opened', path)
                except OSError: pass
        """),
    ),
)


def _attack(pool: SandboxPool, limits: Limits, act: Callable[[Sandbox], Receipt]) -> Receipt:
    with pool.open(inputs={"input/given": b"1"}, files={}, limits=limits) as sandbox:
        return act(sandbox)


def _ends(pool: SandboxPool, limit: str, expected: CallEnd, code: str, limits: Limits) -> LimitCheck:
    receipt = _attack(pool, limits, lambda sandbox: sandbox.execute("python", code))
    return LimitCheck(limit=limit, held=receipt.end == expected, detail=_describe(receipt))


def _denies(pool: SandboxPool, limit: str, code: str) -> LimitCheck:
    receipt = _attack(pool, Limits(), lambda sandbox: sandbox.execute("python", code))
    held = receipt.end == "exited" and receipt.exit_code == 0 and not receipt.stdout
    return LimitCheck(limit=limit, held=held, detail=_describe(receipt))


def _leftovers(pool: SandboxPool) -> LimitCheck:
    """A daemon that one call leaves must be gone at the next."""

    def act(sandbox: Sandbox) -> Receipt:
        sandbox.execute("bash", "setsid sh -c 'sleep 0.3; touch late' >/dev/null 2>&1 & sleep 0.1")
        return sandbox.execute(
            "python",
            "import os, time\ntime.sleep(0.5)\nothers = [p for p in os.listdir('/proc') if p.isdigit()]\n"
            "print(len(others), os.path.exists('late'))",
        )

    receipt = _attack(pool, Limits(), act)
    return LimitCheck(limit="leftovers", held=receipt.stdout == "2 False\n", detail=_describe(receipt))


def _describe(receipt: Receipt) -> str:
    text = f"end {receipt.end}, exit {receipt.exit_code}"
    seen = (receipt.stdout + receipt.stderr).strip()
    return f"{text}: {seen[:200]}" if seen and receipt.end == "exited" else text
