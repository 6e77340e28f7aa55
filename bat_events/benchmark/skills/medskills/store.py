"""Files of the workspace: the working directory, or a mapping that stands for it (`using`)."""

import csv
import io
import json
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_mapping: ContextVar[MutableMapping[str, bytes] | None] = ContextVar("medskills_files", default=None)
_said: ContextVar[list[str] | None] = ContextVar("medskills_said", default=None)


@contextmanager
def using(files: MutableMapping[str, bytes], said: list[str]) -> Iterator[None]:
    """Read and write `files` instead of the working directory, and gather what is said instead of printing it."""
    tokens = _mapping.set(files), _said.set(said)
    try:
        yield
    finally:
        _mapping.reset(tokens[0])
        _said.reset(tokens[1])


def say(line: str) -> None:
    """The one line that a step reports."""
    said = _said.get()
    if said is None:
        print(line)
    else:
        said.append(line)


def stop(message: str) -> SystemExit:
    """The error that ends a snippet with one line and exit code 1."""
    return SystemExit(message)


def exists(path: str) -> bool:
    files = _mapping.get()
    return Path(path).is_file() if files is None else path in files


def read(path: str) -> bytes:
    files = _mapping.get()
    if not exists(path):
        raise stop(f"missing {path}")
    return Path(path).read_bytes() if files is None else files[path]


def write(path: str, content: bytes) -> None:
    files = _mapping.get()
    if files is not None:
        if path.startswith("input/"):
            raise PermissionError(path)
        files[path] = content
        return
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content)


def remove(path: str) -> None:
    files = _mapping.get()
    if files is None:
        Path(path).unlink(missing_ok=True)
    else:
        files.pop(path, None)


def read_json(path: str) -> Any:
    try:
        return json.loads(read(path))
    except ValueError:
        raise stop(f"not JSON: {path}") from None


def write_json(path: str, value: Any) -> None:
    write(path, (json.dumps(value, sort_keys=True) + "\n").encode())


def read_rows(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(read(path).decode("utf-8", "replace"), newline="")))


def write_rows(path: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    write(path, text.getvalue().encode())


def read_array(path: str) -> NDArray[Any]:
    """An array file; raises ValueError where it is not a whole .npy file."""
    try:
        array: NDArray[Any] = np.load(io.BytesIO(read(path)), allow_pickle=False)
    except (ValueError, EOFError, OSError, SyntaxError) as error:
        raise ValueError(f"unreadable {path}") from error
    return array


def write_array(path: str, array: NDArray[Any]) -> None:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    write(path, content.getvalue())
