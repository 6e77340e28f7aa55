"""Bytes as texts: what is text, what unpacks to text, and the readable stretches of what is neither.

Unpacked are gzip, zlib, bzip2, xz, zip (also .npz) and tar, inside one another; text arrays of NumPy are read. Every
other piece gives its digest, which finds a held-out file, and its readable stretches. What is beyond the limits is reported
to `cut`, for it was not searched.
"""

import bz2
import gzip
import hashlib
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Cut = Callable[[str], None]
MAXIMUM_DEPTH = 4  # packings inside packings
MAXIMUM_BYTES = 64 << 20  # of one unpacked piece
MAXIMUM_MEMBERS = 2_000  # of one archive
_STRETCH = re.compile(rb"[\t\n\r\x20-\x7e]{16,}")
_WIDE = re.compile(rb"(?:[\t\n\r\x20-\x7e]\x00){16,}")
_WORDS = re.compile(r"[A-Za-z]{2,}")
_FEWEST_WORDS = 3  # of a stretch: numbers that happen to be letters seldom make words
_BROKEN = (OSError, EOFError, ValueError, KeyError, RuntimeError, NotImplementedError, zlib.error, lzma.LZMAError)
_BROKEN_ARCHIVE = (*_BROKEN, zipfile.BadZipFile, tarfile.TarError)


def texts(content: bytes, cut: Cut, label: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """(how it was read, text) of everything in these bytes; of a file that is no text also `sha256 HEX`, as the gate has it."""
    try:
        yield label or "text", content.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return
    yield label or "file", f"sha256 {hashlib.sha256(content).hexdigest()}"
    if depth >= MAXIMUM_DEPTH:
        cut(f"packed more than {MAXIMUM_DEPTH} deep")
        return
    known = False
    for how, member in _members(content, cut):
        known = True
        yield from texts(member, cut, f"{label}, {how}".lstrip(", "), depth + 1)
    if not known:
        for stretch in readable(content):
            yield f"{label}, readable stretch".lstrip(", "), stretch


def readable(content: bytes) -> Iterator[str]:
    """Stretches of 16 characters or more that hold words, of one or two bytes a character."""
    for match in _STRETCH.finditer(content):
        text = match[0].decode("ascii")
        if len(_WORDS.findall(text)) >= _FEWEST_WORDS:
            yield text
    for match in _WIDE.finditer(content):
        yield match[0].decode("utf-16-le")


def _members(content: bytes, cut: Cut) -> Iterator[tuple[str, bytes]]:
    if content[:2] == b"\x1f\x8b":
        yield from _stream("gzip", gzip.open, content, cut)
    elif content[:3] == b"BZh":
        yield from _stream("bzip2", bz2.open, content, cut)
    elif content[:6] == b"\xfd7zXZ\x00":
        yield from _stream("xz", lzma.open, content, cut)
    elif content[:4] == b"PK\x03\x04":
        yield from _zip(content, cut)
    elif content[257:262] == b"ustar":
        yield from _tar(content, cut)
    elif content[:6] == b"\x93NUMPY":
        yield from _array(content)
    elif content[:1] == b"\x78" and len(content) > 2 and int.from_bytes(content[:2], "big") % 31 == 0:
        try:
            unpacker = zlib.decompressobj()
            found = unpacker.decompress(content, MAXIMUM_BYTES)
        except zlib.error:
            return
        if unpacker.unconsumed_tail:
            cut(f"unpacks to more than {MAXIMUM_BYTES} bytes")
        yield "zlib", found


def _stream(how: str, opener: Callable[[io.BytesIO], Any], content: bytes, cut: Cut) -> Iterator[tuple[str, bytes]]:
    try:
        with opener(io.BytesIO(content)) as file:
            found: bytes = file.read(MAXIMUM_BYTES + 1)
    except _BROKEN as error:
        cut(f"{how} that does not unpack ({type(error).__name__})")
        return
    if len(found) > MAXIMUM_BYTES:
        cut(f"unpacks to more than {MAXIMUM_BYTES} bytes")
    yield how, found[:MAXIMUM_BYTES]


def _zip(content: bytes, cut: Cut) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if archive.comment:
                yield "zip comment", archive.comment
            for number, info in enumerate(archive.infolist()):
                if number >= MAXIMUM_MEMBERS:
                    cut(f"an archive of more than {MAXIMUM_MEMBERS} members")
                    return
                yield "zip name", info.filename.encode("utf-8", "surrogatepass")
                with archive.open(info) as file:
                    found = file.read(MAXIMUM_BYTES + 1)
                if len(found) > MAXIMUM_BYTES:
                    cut(f"unpacks to more than {MAXIMUM_BYTES} bytes")
                yield "zip", found[:MAXIMUM_BYTES]
    except _BROKEN_ARCHIVE as error:
        cut(f"zip that does not unpack ({type(error).__name__})")


def _tar(content: bytes, cut: Cut) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for number, info in enumerate(archive):
                if number >= MAXIMUM_MEMBERS:
                    cut(f"an archive of more than {MAXIMUM_MEMBERS} members")
                    return
                yield (
                    "tar name",
                    f"{info.name}\n{info.linkname}\n{info.uname}\n{info.gname}".encode("utf-8", "surrogateescape"),
                )
                file = archive.extractfile(info) if info.isfile() else None
                if file is not None:
                    found = file.read(MAXIMUM_BYTES + 1)
                    if len(found) > MAXIMUM_BYTES:
                        cut(f"unpacks to more than {MAXIMUM_BYTES} bytes")
                    yield "tar", found[:MAXIMUM_BYTES]
    except _BROKEN_ARCHIVE as error:
        cut(f"tar that does not unpack ({type(error).__name__})")


def _array(content: bytes) -> Iterator[tuple[str, bytes]]:
    """A NumPy array of text as its text. Numbers, pickles and broken arrays have their digest and readable stretches."""
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except _BROKEN:
        return
    if array.dtype.kind == "U":
        yield "array of text", "\n".join(array.ravel().tolist()).encode("utf-8", "surrogatepass")
    elif array.dtype.kind == "S":
        yield "array of text", b"\n".join(array.ravel().tolist())
