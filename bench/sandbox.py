"""How fast sandboxes are: warm calls per second, and rollouts (open, calls, close) per second.

    python bench/sandbox.py [--seconds S] [--threads N]

One line per case; the figures in docs/sandbox.md come from here.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bat_events.sandbox.bubblewrap import BubblewrapPool
from bat_events.sandbox.interface import Language, Limits

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


def _calls(pool: BubblewrapPool, language: Language, code: str, seconds: float, threads: int) -> tuple[float, float]:
    sandboxes = [pool.open(inputs=_INPUTS, files=_FILES, limits=Limits()) for _ in range(threads)]
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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="per case")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    table = Table("case", "threads", "per second", "median ms", title="bubblewrap sandbox")
    with tempfile.TemporaryDirectory() as root, BubblewrapPool(root=Path(root), prestart=4) as pool:

        def rollout(calls: int) -> None:
            with pool.open(inputs=_INPUTS, files=_FILES, limits=Limits()) as sandbox:
                for _ in range(calls):
                    sandbox.execute("python", _PYTHON)

        for threads in dict.fromkeys((1, args.threads)):
            cases: dict[str, Callable[[], tuple[float, float]]] = {
                "python call, warm, numpy": partial(_calls, pool, "python", _PYTHON, args.seconds, threads),
                "bash call": partial(_calls, pool, "bash", "echo done > out.txt", args.seconds, threads),
                "rollout of 1 call": partial(_repeat, partial(rollout, 1), args.seconds, threads),
                "rollout of 5 calls": partial(_repeat, partial(rollout, 5), args.seconds, threads),
            }
            for name, case in cases.items():
                rate, median_s = case()
                table.add_row(name, str(threads), f"{rate:.1f}", f"{median_s * 1000:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
