"""Reading and writing a sandbox's folders from outside, on content that the policy may have shaped to hurt the reader.

A folder is a descriptor into the sandbox's own file system; every step below it opens one name relative to its parent and
follows no link, so no path can lead out. Links, FIFOs, sockets and names that are not UTF-8 are left out. Totals are bounded
(`max_bytes` of file sizes, holes included; FILES_MAX entries; DEPTH_MAX levels): what lies beyond is left out and reported,
so a sparse file or a million names cost the reader nothing.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from bat_events.sandbox.interface import FileChange

FILES_MAX = 4096
DEPTH_MAX = 32
_BLOCK_BYTES = 1 << 20
_INPUTS = "input"


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The regular files of a workspace: path -> (size, SHA-256 hex); `over` when something was beyond the bounds."""

    files: Mapping[str, tuple[int, str]]
    over: bool

    @property
    def digest(self) -> str:
        """SHA-256 hex of the JSON list of sorted [path, size, SHA-256]."""
        rows = [[path, size, digest] for path, (size, digest) in sorted(self.files.items())]
        return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()


def take_snapshot(folder: int, *, max_bytes: int) -> Snapshot:
    """Hash every regular file below `folder`, except below its input/."""
    walk = _Walk(max_bytes)
    files: dict[str, tuple[int, str]] = {}
    for path, handle, size in walk.files(folder):
        digest = hashlib.sha256()
        for block in _blocks(handle, size):
            digest.update(block)
        files[path] = (size, digest.hexdigest())
    return Snapshot(files=files, over=walk.over)


def read_files(folder: int, *, max_bytes: int) -> dict[str, bytes]:
    """The content of every regular file below `folder`, except below its input/; within the same bounds."""
    return {path: b"".join(_blocks(handle, size)) for path, handle, size in _Walk(max_bytes).files(folder)}


def compare(before: Snapshot, after: Snapshot) -> tuple[FileChange, ...]:
    """What changed between two snapshots, sorted by path."""
    changes = []
    for path in sorted(before.files.keys() | after.files.keys()):
        old, new = before.files.get(path), after.files.get(path)
        if old != new:
            changes.append(FileChange(path=path, before=old and old[1], after=new and new[1]))
    return tuple(changes)


def bytes_used(folder: int) -> int:
    """Bytes allocated in the file system that `folder` lies in."""
    state = os.fstatvfs(folder)
    return (state.f_blocks - state.f_bfree) * state.f_frsize


def names_used(folder: int) -> int:
    """Inodes in use in the file system that `folder` lies in."""
    state = os.fstatvfs(folder)
    return state.f_files - state.f_ffree


def write_files(folder: int, files: Mapping[str, bytes], *, owner: tuple[int, int] | None) -> None:
    """Create `files` below `folder` with modes 0644 and 0755, owned by `owner` (uid, gid) where one is given."""
    for path, content in files.items():
        *parents, name = checked_path(path).parts
        with _opened(folder, parents, owner) as parent:
            handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=parent.fd)
            try:
                os.fchmod(handle, 0o644)
                if owner:
                    os.fchown(handle, *owner)
                view = memoryview(content)
                while view:
                    view = view[os.write(handle, view) :]
            finally:
                os.close(handle)


def checked_path(path: str) -> PurePosixPath:
    """`path` as a relative path without "..", or ValueError."""
    pure = PurePosixPath(path)
    if not path or pure.is_absolute() or ".." in pure.parts or "\0" in path or str(pure) != path:
        raise ValueError(f"not a plain relative path: {path!r}")
    return pure


class _opened:
    """A descriptor of a folder below another, created on the way."""

    def __init__(self, folder: int, parts: list[str], owner: tuple[int, int] | None) -> None:
        self.fd = os.dup(folder)
        for part in parts:
            try:
                os.mkdir(part, 0o755, dir_fd=self.fd)
                created = True
            except FileExistsError:
                created = False
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self.fd)
            os.close(self.fd)
            self.fd = inner
            if created:
                os.fchmod(inner, 0o755)
                if owner:
                    os.fchown(inner, *owner)

    def __enter__(self) -> "_opened":
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self.fd)


class _Walk:
    def __init__(self, max_bytes: int) -> None:
        self.left = max_bytes
        self.names = 0
        self.over = False

    def files(self, folder: int) -> Iterator[tuple[str, int, int]]:
        """(path, open descriptor, size) of each regular file in sorted order; the descriptor is closed after the step."""
        root = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        try:
            yield from self._below(root, "", 0)
        finally:
            os.close(root)

    def _below(self, folder: int, prefix: str, depth: int) -> Iterator[tuple[str, int, int]]:
        for name in self._listed(folder):
            path = prefix + name
            if path == _INPUTS or not _is_text(name):
                continue
            mode = os.lstat(name, dir_fd=folder).st_mode
            if stat.S_ISDIR(mode):
                if depth == DEPTH_MAX:
                    self.over = True
                    continue
                inner = _open_readable(name, folder, os.O_DIRECTORY)
                try:
                    yield from self._below(inner, path + "/", depth + 1)
                finally:
                    os.close(inner)
            elif stat.S_ISREG(mode):
                handle = _open_readable(name, folder, os.O_NONBLOCK)
                try:
                    size = os.fstat(handle).st_size
                    if size > self.left:
                        self.over = True
                        continue
                    self.left -= size
                    yield path, handle, size
                finally:
                    os.close(handle)

    def _listed(self, folder: int) -> list[str]:
        names: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self.names += 1
                if self.names > FILES_MAX:
                    self.over = True
                    break
                names.append(entry.name)
        return sorted(names)


def _open_readable(name: str, folder: int, extra: int) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | extra
    try:
        return os.open(name, flags, dir_fd=folder)
    except PermissionError:
        # The owner may have taken its own right to read; where the runtime is that same user it gives it back.
        pinned = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
        try:
            os.chmod(f"/proc/self/fd/{pinned}", 0o700)
        finally:
            os.close(pinned)
        return os.open(name, flags, dir_fd=folder)


def _blocks(handle: int, size: int) -> Iterator[bytes]:
    while size > 0 and (block := os.read(handle, min(size, _BLOCK_BYTES))):
        size -= len(block)
        yield block


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
