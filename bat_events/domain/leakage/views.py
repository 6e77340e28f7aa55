"""Other readings of a text: what it says once decoded. A view is checked as the text itself is.

Looked for: base64 (also url-safe, wrapped, begun at any character), base32, hexadecimal, percent, HTML and backslash escapes,
zlib and gzip inside those, UTF-16, identifiers that run words together, invisible characters in place of spaces, character codes.
"""

import base64
import binascii
import hashlib
import html
import re
import unicodedata
import urllib.parse
import zlib
from collections.abc import Iterator

MAXIMUM_DEPTH = 3  # encodings inside encodings
MAXIMUM_DECODED = 1 << 20  # bytes of one decoded text; what is longer is cut
_MINIMUM_DECODED = 6  # bytes
_MINIMUM_READABLE = 12  # characters of readable text inside other bytes; random bytes hold no such stretch
_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd]+")

_SUSPECT = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20}|&#|&[a-z]+;|%[0-9A-Fa-f]{2}|\\[xuU][0-9A-Fa-f]{2}")
# Digits in pairs, or codes; each with or without 0x before it. Its first character is one that the engine can look for.
_PAIR = r"[0-9A-Fa-f](?<!\w.)(?:[0-9A-Fa-f]{1,2}|(?<=0)x[0-9A-Fa-f]{2,3})[\s:,;-]+"
_PAIRS = re.compile(f"{_PAIR}(?:{_PAIR}){{5}}")
_HUMP = re.compile(r"[a-z0-9][A-Z]")
# How a file that is no text stands in a document: no encoding of anything.
DIGEST = re.compile(r"sha256 [0-9a-f]{64}\Z")
# Runs are sought from their first letter on (looking back is cheaper than trying each letter of a shorter run).
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,}(?:[ \t]*\r?\n[ \t]*[A-Za-z0-9+/_-]+)*={0,2}")
_MIXED = re.compile(r"[a-z].*[A-Z]|[A-Z].*[a-z]", re.DOTALL)  # as base64 of any text is; paths and names seldom are
_BASE32 = re.compile(r"[A-Z2-7]{24,}(?:\r?\n[ \t]*[A-Z2-7]+)*={0,6}")
_HEX = re.compile(
    r"(?:[0-9A-Fa-f]{2}){8,}[0-9A-Fa-f]?|(?:(?:0x|\\x)[0-9A-Fa-f]{2}){8,}"
    r"|(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[\s:,;-]+){7,}(?:0x|\\x)?[0-9A-Fa-f]{2}"
)
_CODES = re.compile(r"\d{2,3}[\s,;]+(?:\d{2,3}[\s,;]+){6,}\d{2,3}")  # a first digit that the engine can look for
_ESCAPE = re.compile(r"\\x([0-9A-Fa-f]{2})|\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[a-z])")
_HUMPED = re.compile(r"\b\w*[a-z0-9][A-Z]\w*[a-z0-9][A-Z]\w*\b")


def suspect(line: str) -> bool:
    """Whether a line may hold an encoding: a cheap look, so that most text is spared the rest."""
    longest = max(map(len, line.split()), default=0)
    if longest >= 12 and (_SUSPECT.search(line) is not None or _HUMP.search(line) is not None):
        return True
    if any(mark in line for mark in "%&\\") and _SUSPECT.search(line) is not None:
        return True
    return len(line) >= 16 and _PAIRS.search(line) is not None


def views(text: str, encoded: bool) -> Iterator[tuple[str, str]]:
    """(what was done, the decoded text) of everything in `text` that decodes to text; one level deep.

    `encoded`: whether a line of it is suspect, or its lines are a few characters each.
    """
    if not encoded or DIGEST.match(text):
        return
    for match in _BASE64.finditer(text):
        if _MIXED.search(match[0]):
            compact = re.sub(r"\s+", "", match[0]).rstrip("=").replace("-", "+").replace("_", "/")
            for start in range(4):  # a letter before it shifts the whole
                yield from _found("base64", _base64(compact[start:]))
    for match in _BASE32.finditer(text):
        yield from _found("base32", _base32(re.sub(r"[\s=]+", "", match[0])))
    for match in _HEX.finditer(text):
        digits = re.sub(r"0x|\\x|[^0-9A-Fa-f]", "", match[0])
        for start in range(1 + len(digits) % 2):
            yield from _found("hexadecimal", bytes.fromhex(digits[start : start + (len(digits) - start) // 2 * 2]))
    for match in _CODES.finditer(text):
        codes = [int(code) for code in re.findall(r"\d+", match[0])]
        yield from _found("character codes", bytes(code for code in codes if code < 256))
    if "%" in text:
        yield from _changed("percent escapes", text, urllib.parse.unquote_plus(text))
    if "&" in text:
        yield from _changed("HTML escapes", text, html.unescape(text))
    if "\\" in text:
        yield from _changed("backslash escapes", text, _ESCAPE.sub(_character, text))
    if _HUMPED.search(text):
        yield "words run together", _HUMPS.sub(" ", text)


def spaced(text: str) -> str | None:
    """The text with spaces in place of invisible characters, which may part words as well as stand inside them."""
    if text.isascii():
        return None
    plain = unicodedata.normalize("NFKC", text)
    other = "".join(" " if unicodedata.category(c) == "Cf" else c for c in plain)
    return None if other == plain else other


def _changed(label: str, text: str, other: str) -> Iterator[tuple[str, str]]:
    if other != text:
        yield label, other


def _found(label: str, content: bytes) -> Iterator[tuple[str, str]]:
    """The decoded bytes as text, unpacked where they are compressed, and their digest."""
    if len(content) < _MINIMUM_DECODED:
        return
    if content[:2] == b"\x1f\x8b" or content[:1] == b"\x78":
        unpacked = _decompressed(content)
        if unpacked is not None:
            yield from _found(f"{label}, compressed", unpacked)
    text = _readable(content)
    if text is not None:
        yield label, text
    elif len(content) > 64:
        yield f"{label} of a file", f"sha256 {hashlib.sha256(content).hexdigest()}"


def _readable(content: bytes) -> str | None:
    """The longest stretch that is text, or None. Wrong bytes around it come from letters taken for part of the encoding."""
    content = content[:MAXIMUM_DECODED]
    if content.count(0) * 3 > len(content):
        text = content.decode("utf-16-be" if content[0] == 0 else "utf-16-le", "ignore")
    else:
        text = content.decode("utf-8", "replace")
    best = max(_UNREADABLE.split(text), key=len)
    return best if len(best) >= min(_MINIMUM_READABLE, len(text)) else None


def _base64(compact: str) -> bytes:
    usable = len(compact) - (len(compact) % 4 == 1)
    try:
        return base64.b64decode(compact[:usable] + "=" * (-usable % 4))
    except binascii.Error:
        return b""


def _base32(compact: str) -> bytes:
    usable = compact[: len(compact) // 8 * 8]
    try:
        return base64.b32decode(usable)
    except binascii.Error:
        return b""


def _decompressed(content: bytes) -> bytes | None:
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(content, MAXIMUM_DECODED)
    except zlib.error:
        return None


def _character(match: re.Match[str]) -> str:
    code = int(next(group for group in match.groups() if group), 16)
    return chr(code) if code < 0x110000 else ""
