"""Token ids of a rollout as text, in the vocabulary of the weights that sampled it. Needs no torch.

What a policy wrote and what it was shown are told apart by the mask. The scripted stand-in spells bytes; other weights have
a tokenizer.json in their folder.
"""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from bat_events.events.rollouts import RolloutCompleted

Decode = Callable[[Sequence[int]], str]
_SCRIPTED, _TOKENIZER = "scripted.json", "tokenizer.json"


class Unreadable(Exception):
    """These token ids cannot be turned into text here; the message says why."""


class Vocabularies:
    """How ids become text, by the digest of weights; `read` gives an artefact's bytes."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self._of_weights: dict[str, Decode | str] = {}
        self._of_file: dict[str, Decode] = {}

    def of(self, weights: str) -> Decode:
        """Raises Unreadable."""
        if weights not in self._of_weights:
            try:
                self._of_weights[weights] = self._find(weights)
            except Unreadable as error:
                self._of_weights[weights] = str(error)
        found = self._of_weights[weights]
        if isinstance(found, str):
            raise Unreadable(found)
        return found

    def _find(self, weights: str) -> Decode:
        try:
            files: Mapping[str, Mapping[str, str]] = json.loads(self._read(weights))["files"]
            if _SCRIPTED in files:
                return _bytes
            if _TOKENIZER not in files:
                raise Unreadable(f"weights {weights[:12]}… have no {_TOKENIZER}")
            digest = files[_TOKENIZER]["sha256"]
            if digest not in self._of_file:
                self._of_file[digest] = _tokenizer(self._read(digest))
            return self._of_file[digest]
        except Unreadable:
            raise
        except ImportError:
            raise Unreadable("the package tokenizers is not installed here") from None
        except Exception as error:  # noqa: BLE001  (whatever a store or a tokenizer file does: these ids are unread)
            raise Unreadable(f"the vocabulary of weights {weights[:12]}… cannot be read: {error}") from None


def transcript(event: RolloutCompleted, decode: Decode) -> dict[str, object]:
    """{"prompt": text, "written": [texts], "shown": [texts]}. Raises Unreadable where ids and mask do not fit together."""
    try:
        prompt = struct.unpack(f"<{len(event.prompt_ids) // 4}i", event.prompt_ids)
        response = struct.unpack(f"<{len(event.response_ids) // 4}i", event.response_ids)
        parts: dict[bool, list[str]] = {True: [], False: []}
        if len(event.response_mask) != len(response):
            raise Unreadable("a rollout's mask has another length than its ids")
        at = 0
        for sampled, run in groupby(event.response_mask, key=bool):
            length = len(list(run))
            parts[sampled].append(decode(response[at : at + length]))
            at += length
        return {"prompt": decode(prompt), "written": parts[True], "shown": parts[False]}
    except Unreadable:
        raise
    except Exception as error:  # noqa: BLE001  (ids outside a vocabulary fail in the library's own ways)
        raise Unreadable(f"token ids that are none: {type(error).__name__}: {error}") from None


def _bytes(ids: Sequence[int]) -> str:
    """The scripted stand-in's ids: bytes, and one that ends a turn."""
    return bytes(number if number < 256 else 10 for number in ids).decode("utf-8", "replace")


def _tokenizer(content: bytes) -> Decode:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(content.decode("utf-8"))

    def decode(ids: Sequence[int]) -> str:
        text: str = tokenizer.decode(list(ids), skip_special_tokens=False)
        return text

    return decode
