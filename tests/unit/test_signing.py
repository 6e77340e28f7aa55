"""Signatures of receipts: the same each time, checked with the public key alone, and for nothing else."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bat_events.signing import SigningKey, verify

SECRET = bytes(range(32))
KEY = SigningKey(SECRET)
DIGEST = "ab" * 32


def test_a_signature_is_the_same_each_time_and_holds_for_its_key_and_digest_only() -> None:
    made = KEY.sign(DIGEST)
    assert made == SigningKey(SECRET).sign(DIGEST)
    assert (len(made), len(KEY.public)) == (128, 64)
    assert verify(KEY.public, DIGEST, made)
    assert not verify(KEY.public, "ac" * 32, made)
    assert not verify(SigningKey(bytes(32)).public, DIGEST, made)
    assert not verify(KEY.public, DIGEST, KEY.sign("ac" * 32))


def test_a_signature_that_the_same_key_made_of_bare_bytes_is_none_of_a_receipt() -> None:
    bare = Ed25519PrivateKey.from_private_bytes(SECRET).sign(bytes.fromhex(DIGEST)).hex()
    assert not verify(KEY.public, DIGEST, bare)


@pytest.mark.parametrize(
    ("public", "digest", "signature"),
    [("00" * 32, DIGEST, "00" * 64), ("", DIGEST, ""), (KEY.public, "zz", "00" * 64), (KEY.public, DIGEST, "00" * 63)],
)
def test_what_is_malformed_is_no_signature(public: str, digest: str, signature: str) -> None:
    assert not verify(public, digest, signature)


def test_a_key_shows_no_secret_and_has_32_bytes() -> None:
    assert SECRET.hex() not in repr(KEY) + str(vars(KEY))
    with pytest.raises(ValueError, match="32"):
        SigningKey(b"short")
