"""Benchmarks by name."""

from pathlib import Path

from bat_events.benchmark.interface import Benchmark
from bat_events.errors import ConfigurationError

KNOWN = ("mini",)


def benchmark(name: str) -> Benchmark:
    """The benchmark of that name. Raises ConfigurationError listing the known ones."""
    if name == "mini":
        from bat_events.benchmark.mini import MiniBenchmark

        return MiniBenchmark()
    raise ConfigurationError(f"benchmark {name!r} is unknown: choose one of {', '.join(KNOWN)}")


def sandbox_extras(name: str) -> tuple[list[Path], list[str], dict[str, str]]:
    """What a benchmark's sandboxes hold: read-only folders on sys.path, modules imported beforehand, their aliases."""
    if name == "mini":
        from bat_events.benchmark.mini import MiniBenchmark

        return [MiniBenchmark.skills_path()], list(MiniBenchmark.preimports()), {"m": "medskills"}
    raise ConfigurationError(f"benchmark {name!r} is unknown: choose one of {', '.join(KNOWN)}")
