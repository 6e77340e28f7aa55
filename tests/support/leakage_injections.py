"""Ways to put held-out text into a state: what the leakage gate has to find. Each takes (random source, text, state)."""

import base64
import random
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.leakage_texts import lexicon, text

State = dict[str, Any]
Injection = Callable[[random.Random, str, State], State]

_HOMOGLYPHS = str.maketrans("aceopxyisjABCEHIKMOPTXY", "асеорхуіѕјАВСЕНІКМОРТХУ")
_INVISIBLE = ("\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad")


def quote(rng: random.Random, held: str, words: int = 40) -> str:
    """`words` neighbouring words of a text."""
    found = held.split()
    start = rng.randint(0, max(len(found) - words, 0))
    return " ".join(found[start : start + words])


def into_prompt(rng: random.Random, state: State, piece: str) -> State:
    """The piece between two lines of the prompt."""
    lines = state["prompt"].split("\n")
    lines.insert(rng.randint(1, len(lines)), piece)
    return {**state, "prompt": "\n".join(lines)}


def verbatim(rng: random.Random, held: str, state: State) -> State:
    return into_prompt(rng, state, held)


def quoted(rng: random.Random, held: str, state: State) -> State:
    """40 words inside a line, in a text of 1,640 words."""
    around = text(rng, 1600).split()[:1600]
    at = rng.randint(0, len(around))
    return {**state, "prompt": " ".join([*around[:at], quote(rng, held), *around[at:]])}


def changed(share: float) -> Injection:
    """A share of the words replaced by other words of the same lexicon."""

    def inject(rng: random.Random, held: str, state: State) -> State:
        lines = [line.split(" ") for line in held.split("\n")]
        places = [(i, j) for i, line in enumerate(lines) for j in range(len(line))]
        for i, j in rng.sample(places, round(share * len(places))):
            lines[i][j] = rng.choice(lexicon())
        return into_prompt(rng, state, "\n".join(" ".join(line) for line in lines))

    return inject


def reordered(rng: random.Random, held: str, state: State) -> State:
    lines = held.split("\n")
    rng.shuffle(lines)
    return into_prompt(rng, state, " ".join(lines))


def backwards(rng: random.Random, held: str, state: State) -> State:
    """Five words a line, the lines in reverse order: no run of eight words is left within a line."""
    words = held.split()
    lines = [" ".join(words[at : at + 5]) for at in range(0, len(words), 5)]
    return into_prompt(rng, state, "\n".join(reversed(lines)))


def base64_text(rng: random.Random, held: str, state: State) -> State:
    encoded = base64.b64encode(quote(rng, held).encode()).decode()
    return into_prompt(rng, state, f"payload: {encoded}")


def base64_wrapped(rng: random.Random, held: str, state: State) -> State:
    """Wrapped at 76 characters, glued to a word, url-safe."""
    encoded = base64.urlsafe_b64encode(held.encode()).decode()
    lines = [encoded[at : at + 76] for at in range(0, len(encoded), 76)]
    return {**state, "files": {**state["files"], "notes.txt": "x" * rng.randint(0, 3) + "\n".join(lines)}}


def base64_compressed(rng: random.Random, held: str, state: State) -> State:
    return into_prompt(rng, state, base64.b64encode(zlib.compress(quote(rng, held).encode())).decode())


def hexadecimal(rng: random.Random, held: str, state: State) -> State:
    encoded = quote(rng, held).encode().hex()
    return into_prompt(
        rng,
        state,
        encoded if rng.random() < 0.5 else " ".join(map("".join, zip(encoded[::2], encoded[1::2], strict=False))),
    )


def zero_width(rng: random.Random, held: str, state: State) -> State:
    """An invisible character inside each word, or in place of each space."""
    words = quote(rng, held).split()
    if rng.random() < 0.5:
        return into_prompt(rng, state, rng.choice(_INVISIBLE).join(words))
    broken = [word[:at] + rng.choice(_INVISIBLE) + word[at:] for word in words for at in [rng.randint(0, len(word))]]
    return into_prompt(rng, state, " ".join(broken))


def full_width(rng: random.Random, held: str, state: State) -> State:
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else "\u3000" for c in quote(rng, held))
    return into_prompt(rng, state, wide)


def homoglyphs(rng: random.Random, held: str, state: State) -> State:
    return into_prompt(rng, state, quote(rng, held).translate(_HOMOGLYPHS))


def identifiers(rng: random.Random, held: str, state: State) -> State:
    """Words run together in the names of fields: snake_case, camelCase, or one word a level."""
    words = [word.strip(".,;?").lower() for word in quote(rng, held, 24).split()]
    kind = rng.randrange(3)
    if kind == 0:
        return {**state, "meta": {"_".join(words): 1}}
    if kind == 1:
        return {**state, "meta": {words[0] + "".join(word.title() for word in words[1:]): 1}}
    nested: Any = 1
    for word in reversed(words):
        nested = {word: nested}
    return {**state, "meta": nested}


def key_text(rng: random.Random, held: str, state: State) -> State:
    return {**state, "files": {**state["files"], quote(rng, held, 24): "x"}}


def split_by_words(rng: random.Random, held: str, state: State) -> State:
    """Three words a field; field names are numbered without leading zeros and stand in the order of their letters."""
    words = quote(rng, held).split()
    pieces = {f"part{at // 3}": " ".join(words[at : at + 3]) for at in range(0, len(words), 3)}
    return {**state, "meta": dict(sorted(pieces.items()))}


def split_by_letters(rng: random.Random, held: str, state: State) -> State:
    """Five characters an item of a list, in the middle of words."""
    said = quote(rng, held)
    return {**state, "notes": [said[at : at + 5] for at in range(0, len(said), 5)]}


def split_between_texts(rng: random.Random, held: str, state: State) -> State:
    """Half at the end of one long text, half at the beginning of the next."""
    words = quote(rng, held, 24).split()
    a, b = f"{state['prompt']} {' '.join(words[:12])}", f"{' '.join(words[12:])} {text(rng, 60)}"
    return {**state, "meta": {"a": a, "b": b}}


LEXICAL: Mapping[str, Injection] = {
    "verbatim": verbatim,
    "40 words in 1,640": quoted,
    "10 % of words changed": changed(0.1),
    "20 % of words changed": changed(0.2),
    "lines reordered": reordered,
    "short lines reversed": backwards,
    "base64": base64_text,
    "base64, wrapped": base64_wrapped,
    "base64 of zlib": base64_compressed,
    "hexadecimal": hexadecimal,
    "zero-width": zero_width,
    "full-width": full_width,
    "homoglyphs": homoglyphs,
    "identifiers in keys": identifiers,
    "text as a key": key_text,
    "split over fields, by words": split_by_words,
    "split over fields, by letters": split_by_letters,
    "split between two texts": split_between_texts,
}
