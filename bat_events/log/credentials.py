"""Passwords of the broker's users: one file each, readable by its owner only, made at first need, never shown.

A password travels from its file into a client's configuration in memory and nowhere else: not into arguments, not
into the environment, not into logs.
"""

import os
import secrets
from pathlib import Path

from bat_events.errors import ConfigurationError


def make_secret(path: Path) -> bool:
    """Write 32 random bytes in hex to `path` unless it is there; returns whether it was made now."""
    for folder in reversed(path.parents):  # each, because mkdir(parents=True) gives the mode to the last one only
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(32))
    return True


def read_secret(path: Path, user: str) -> str:
    """A user's password. Raises ConfigurationError where the file is missing, empty, or readable by others."""
    try:
        mode = path.stat().st_mode
        text = path.read_text().strip()
    except FileNotFoundError:
        raise ConfigurationError(
            f"the password of Kafka user {user} is not there ({path}): `bat-events topics apply` makes it for the local "
            "broker; for another cluster put it there, mode 0600, or set kafka.security to none"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"the password of Kafka user {user} cannot be read: {error}") from None
    if mode & 0o077:
        raise ConfigurationError(f"{path} holds a password and may be read by others: chmod 600 {path}")
    if not text:
        raise ConfigurationError(f"{path} is empty: it must hold the password of Kafka user {user}")
    return text
