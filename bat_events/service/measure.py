"""Measuring what an effect costs."""

import time
from collections.abc import Callable


def stopwatch() -> Callable[[], float]:
    """A call that gives the seconds since now."""
    start = time.perf_counter()
    return lambda: time.perf_counter() - start
