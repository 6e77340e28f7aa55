"""How fast sandboxes are: warm calls per second, rollouts (reset, calls, remove) per second, and what many rollouts leave behind.

    python bench/sandbox.py [--seconds S] [--threads N] [--pools bubblewrap,docker/runc,docker/crun] [--leftovers N]

The container pools run on an engine that is started for this and ended afterwards; it needs root and docker.io. The figures in
docs/sandbox.md come from here. Exit 1 where `--leftovers` finds any.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from bat_events.sandbox.bubblewrap import BubblewrapPool
from bat_events.sandbox.docker import private_engine
from bat_events.sandbox.docker.build import LOCAL, build_image
from bat_events.sandbox.docker.engine import connect
from bat_events.sandbox.docker.pool import DockerPool
from bat_events.sandbox.docker.private_engine import PrivateEngine
from bat_events.sandbox.interface import Language, Limits
from bat_events.sandbox.warm_pool import WarmPool

POOLS = ("bubblewrap", "docker/runc", "docker/crun")
_FILES = {f"data/{number}.bin": bytes(64 * 1024) for number in range(16)}
_INPUTS = {f"input/{number}.bin": bytes(64 * 1024) for number in range(16)}
_PYTHON = "import json\nprint(json.dumps({'sum': int(numpy.arange(10).sum())}))\nopen('out.txt', 'w').write('done')"


def _repeat(act: Callable[[], None], seconds: float, threads: int) -> tuple[float, float]:
    """(rate per second over all threads, median seconds of one)."""
    times: list[float] = []
    deadline = time.monotonic() + seconds

    def loop() -> None:
        while time.monotonic() < deadline:
            started = time.monotonic()
            act()
            times.append(time.monotonic() - started)

    started = time.monotonic()
    with ThreadPoolExecutor(threads) as workers:
        for future in [workers.submit(loop) for _ in range(threads)]:
            future.result()
    return len(times) / (time.monotonic() - started), sorted(times)[len(times) // 2]


def _calls(pool: WarmPool, language: Language, code: str, seconds: float, threads: int) -> tuple[float, float]:
    sandboxes = [pool.open(inputs=_INPUTS, files=_FILES, limits=Limits()) for _ in range(threads)]
    pool.settle()
    times: list[float] = []

    def loop(number: int) -> int:
        deadline, done = time.monotonic() + seconds, 0
        while time.monotonic() < deadline:
            receipt = sandboxes[number].execute(language, code)
            if receipt.exit_code != 0:
                raise RuntimeError(f"a benchmark call failed: {receipt}")
            times.append(receipt.wall_s)
            done += 1
        return done

    with ThreadPoolExecutor(threads) as workers:
        started = time.monotonic()
        done = sum(workers.map(loop, range(threads)))
        wall_s = time.monotonic() - started
    for sandbox in sandboxes:
        sandbox.close()
    return done / wall_s, sorted(times)[len(times) // 2]


def _rollout(pool: WarmPool, calls: int) -> None:
    with pool.open(inputs=_INPUTS, files=_FILES, limits=Limits(), rollout="bench") as sandbox:
        for _ in range(calls):
            sandbox.execute("python", _PYTHON)


def _measure(name: str, pool: WarmPool, seconds: float, threads: int) -> Table:
    table = Table("case", "threads", "per second", "median ms", title=f"{name}: {pool.isolation[:60]}")
    for count in dict.fromkeys((1, threads)):
        cases: dict[str, Callable[[], tuple[float, float]]] = {
            "python call, warm, numpy": partial(_calls, pool, "python", _PYTHON, seconds, count),
            "bash call": partial(_calls, pool, "bash", "echo done > out.txt", seconds, count),
            "rollout of 1 call": partial(_repeat, partial(_rollout, pool, 1), seconds, count),
            "rollout of 5 calls": partial(_repeat, partial(_rollout, pool, 5), seconds, count),
        }
        for case, run in cases.items():
            rate, median_s = run()
            table.add_row(case, str(count), f"{rate:.1f}", f"{median_s * 1000:.1f}")
    return table


def _state(root: Path, engine: PrivateEngine | None) -> dict[str, object]:
    """What a rollout could leave: processes of ours and of the engine, containers, mounts, files, open descriptors."""
    client = connect(engine.address) if engine else None
    containers = [row["Id"] for row in client.api.containers(all=True)] if client else []
    if client:
        client.close()
    deadline = time.monotonic() + 5.0  # an engine's helper ends a moment after its container
    while engine and engine.shims() and time.monotonic() < deadline:
        time.sleep(0.1)
    return {
        "processes": sorted(child.pid for child in psutil.Process().children(recursive=True)),
        "shims": engine.shims() if engine else [],
        "engine's mounts": engine.mounts() if engine else 0,
        "containers": sorted(containers),
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "files": sorted(str(path) for path in root.rglob("*")),
        "descriptors": len(os.listdir("/proc/self/fd")),
    }


def _leftovers(name: str, rollouts: int, threads: int, engine: PrivateEngine | None) -> str | None:
    """What `rollouts` rollouts, each leaving a daemon and files, changed on this machine; None for nothing."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        root.mkdir()
        before = _state(root, engine)
        with _pool(name, root, engine) as pool:

            def one(number: int) -> None:
                with pool.open(inputs=_INPUTS, files=_FILES, limits=Limits(), rollout=f"left-{number}") as sandbox:
                    sandbox.execute("bash", "(setsid sleep 600 &); head -c 1000000 /dev/zero > /tmp/x; cp /tmp/x .")

            started = time.monotonic()
            with ThreadPoolExecutor(threads) as workers:
                list(workers.map(one, range(rollouts)))
            rate = rollouts / (time.monotonic() - started)
        after = _state(root, engine)
    changed = {key: (before[key], after[key]) for key in before if before[key] != after[key]}
    Console().print(f"{name}: {rollouts} rollouts, {rate:.1f} per second, left behind: {changed or 'nothing'}")
    return str(changed) if changed else None


@contextmanager
def _pool(name: str, root: Path, engine: PrivateEngine | None) -> Iterator[WarmPool]:
    made: WarmPool
    if engine is None:
        made = BubblewrapPool(root=root, prestart=4)
    else:
        made = DockerPool(root=root, prestart=4, address=engine.address, runtime=name.rpartition("/")[2])
    with made as pool:
        yield pool


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="per case")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pools", default=",".join(POOLS))
    parser.add_argument(
        "--leftovers", type=int, default=0, metavar="N", help="instead: N rollouts leave nothing behind"
    )
    args = parser.parse_args()
    names = args.pools.split(",")
    failures = []
    with ExitStack() as stack:
        engine: PrivateEngine | None = None
        if any(name != "bubblewrap" for name in names):
            if why := private_engine.lack():
                Console().print(f"no containers here: {why}")
                names = [name for name in names if name == "bubblewrap"]
            else:
                engine = stack.enter_context(PrivateEngine())
                client = connect(engine.address)
                build_image(client, base=LOCAL)
                client.close()
        for name in names:
            own = None if name == "bubblewrap" else engine
            if args.leftovers:
                failures.append(_leftovers(name, args.leftovers, args.threads, own))
                continue
            with tempfile.TemporaryDirectory() as root, _pool(name, Path(root), own) as pool:
                Console().print(_measure(name, pool, args.seconds, args.threads))
    if any(failures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
