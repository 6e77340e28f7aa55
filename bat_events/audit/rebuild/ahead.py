"""An iterator that is run ahead by a thread: what is read next and what is written now share the processor's cores."""

import queue
import threading
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")

_END = object()


def ahead(source: Iterator[T], most: int) -> Iterator[T]:
    """The items of `source`, at most so many of them made ahead. What it raises is raised here, after what came before."""
    made: queue.Queue[object] = queue.Queue(maxsize=most)
    stop = threading.Event()

    def put(item: object) -> bool:
        while not stop.is_set():
            try:
                made.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def run() -> None:
        try:
            for item in source:
                if not put((item,)):
                    return
            put(_END)
        except BaseException as error:  # noqa: BLE001  (raised in the thread that asks)
            put(error)

    thread = threading.Thread(target=run, name="read-ahead", daemon=True)
    thread.start()
    try:
        while (item := made.get()) is not _END:
            if isinstance(item, BaseException):
                raise item
            assert isinstance(item, tuple)
            yield item[0]
    finally:
        stop.set()
        thread.join()
