"""The content-addressed store: what an event names by digest.

Blobs are kept under their SHA-256; a folder is a canonical JSON manifest of its files, and its digest is the manifest's.
Writes are atomic (a temporary name, then a rename) and idempotent; reads verify the digest. The root may be a local
folder or any fsspec address. Each plane has a root of its own.
"""

import hashlib
import json
import os
import re
import shutil
import uuid
from pathlib import Path
from typing import Any

import fsspec

from bat_events.domain.canonical import canonical_json
from bat_events.errors import BatError


class ArtifactError(BatError):
    """An artefact is missing or its bytes are not those that its digest names."""


class ArtifactStore:
    """See the module. `cache` is a local folder for materialised checkpoints."""

    def __init__(self, root: str, *, cache: Path) -> None:
        self._fs, self._root = fsspec.core.url_to_fs(root)
        self._cache = cache

    def put(self, content: bytes) -> str:
        """Store bytes; returns their SHA-256 in hex."""
        digest = hashlib.sha256(content).hexdigest()
        path = self._path(digest)
        if not self._fs.exists(path):
            self._write(path, content)
        return digest

    def put_json(self, value: Any) -> str:
        """Store canonical JSON; returns its digest."""
        return self.put(canonical_json(value))

    def get(self, digest: str) -> bytes:
        """The bytes of a digest. Raises ArtifactError when they are not there or not those."""
        path = self._path(digest)
        try:
            with self._fs.open(path, "rb") as file:
                content: bytes = file.read()
        except FileNotFoundError:
            raise ArtifactError(
                f"artefact {digest} is not in {self._root}: was it removed, or is this another BAT_HOME?"
            ) from None
        if hashlib.sha256(content).hexdigest() != digest:
            raise ArtifactError(f"artefact {digest} in {self._root} has other bytes than its name says: it was changed")
        return content

    def get_json(self, digest: str) -> Any:
        """The JSON value of a digest."""
        return json.loads(self.get(digest))

    def has(self, digest: str) -> bool:
        """Whether the digest is stored."""
        return bool(self._fs.exists(self._path(digest)))

    def remember(self, key: str, digest: str) -> None:
        """Note which artefact answers a key of 64 hex digits. The first note stays; of two made at once, either may."""
        path = self._note(key)
        if not self._fs.exists(path):
            self._write(path, digest.encode())

    def recall(self, key: str) -> str | None:
        """The digest noted under a key; None where there is none, or no digest."""
        try:
            with self._fs.open(self._note(key), "rb") as file:
                noted = str(file.read(65), "ascii", "replace")
        except FileNotFoundError:
            return None
        return noted if re.fullmatch("[0-9a-f]{64}", noted) else None

    def put_folder(self, folder: Path) -> str:
        """Store a folder of regular files; returns its manifest's digest. Raises ArtifactError on links and specials."""
        files = {}
        for path in sorted(folder.rglob("*")):
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise ArtifactError(f"{path} is no regular file: a checkpoint holds plain files only")
            if path.is_file():
                content = path.read_bytes()
                files[path.relative_to(folder).as_posix()] = {"size": len(content), "sha256": self.put(content)}
        return self.put_json({"kind": "folder", "files": files})

    def get_folder(self, digest: str) -> Path:
        """A local folder with the content of `put_folder`, made once and then reused. It must not be written to."""
        target = self._cache / digest
        if target.exists():
            return target
        manifest = self.get_json(digest)
        if not isinstance(manifest, dict) or manifest.get("kind") != "folder":
            raise ArtifactError(f"artefact {digest} is no folder")
        temporary = self._cache / f"{digest}.{uuid.uuid4().hex}.tmp"
        temporary.mkdir(parents=True)
        try:
            for name, entry in manifest["files"].items():
                path = temporary / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.get(entry["sha256"]))
            os.rename(temporary, target)
        except OSError:
            if not target.is_dir():  # otherwise another process was first
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return target

    def drop_cached(self, digest: str) -> None:
        """Remove a materialised folder from the cache."""
        shutil.rmtree(self._cache / digest, ignore_errors=True)

    def _write(self, path: str, content: bytes) -> None:
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        with self._fs.open(temporary, "wb") as file:
            file.write(content)
        self._fs.mv(temporary, path)

    def _note(self, key: str) -> str:
        return f"{self._root}/notes/{key[:2]}/{key}"

    def _path(self, digest: str) -> str:
        return f"{self._root}/{digest[:2]}/{digest}"
