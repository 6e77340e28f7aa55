"""Ed25519 signatures of digests: the runtime signs receipts with its private key, anybody checks them with the public one.

Signing is deterministic: the same key and digest give the same signature, so a rollout done again has the same body. The
private key is a secret of BAT_HOME that no sandbox and no policy process input ever holds.
"""

from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

RECEIPT_KEY = "receipts.ed25519"
"""The secret's name under BAT_HOME/secrets: 32 bytes, one key for a namespace's rollout workers."""

_CONTEXT = b"bat-events receipt\n"  # a signature made for anything else is none of a receipt


class SigningKey:
    """A private key; `public` is its public half as 64 hex digits. Its repr shows no secret."""

    def __init__(self, secret: bytes) -> None:
        """Take a secret of 32 bytes. Raises ValueError for another length."""
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public: str = self._key.public_key().public_bytes_raw().hex()

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public})"

    def sign(self, digest: str) -> str:
        """The signature of a digest of 64 hex digits, as 128 hex digits."""
        return self._key.sign(_CONTEXT + bytes.fromhex(digest)).hex()


def verify(public: str, digest: str, signature: str) -> bool:
    """Whether the holder of the public key signed the digest. False for anything malformed, too."""
    try:
        _public_key(public).verify(bytes.fromhex(signature), _CONTEXT + bytes.fromhex(digest))
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=64)
def _public_key(public: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
