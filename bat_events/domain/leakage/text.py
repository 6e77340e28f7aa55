"""How the gate reads characters and words: one folding for held-out text and for what is checked against it.

Width, case, accents, invisible characters and letters that only look like ASCII do not count. A line is the unit that is
read once and kept, because practice states repeat published lines.
"""

import re
import unicodedata
from functools import cache

# Scripts without spaces are read letter by letter; everywhere else a word is a run of letters and digits.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_DIGITS = re.compile(r"\d+")
_MAXIMUM_FOLDS = 4
# Where Unicode's list gives the other letter of the group 1, I, l.
_CORRECTED = {"Ι": "i", "Ӏ": "l", "ӏ": "l"}


@cache
def _look_alikes() -> dict[int, str]:
    """Non-ASCII letters and digits -> the ASCII that they are mistaken for (Unicode's confusables, case folded)."""
    from confusable_homoglyphs.confusables import confusables_data

    table: dict[int, str] = {}
    for character, others in sorted(confusables_data.items()):
        if len(character) == 1 and not character.isascii():
            plain = [other["c"] for other in others if other["c"].isascii() and other["c"].isalnum()]
            if plain:
                capital = character.isupper()
                # Of several, a letter before a digit, one letter before two, and the same case (l and not I for a small one).
                best = min(plain, key=lambda c: (not c.isalpha(), len(c), c.isupper() is not capital, c))
                table[ord(character)] = best.lower()
    table.update({ord(character): plain for character, plain in _CORRECTED.items()})
    for code in sorted(
        table
    ):  # a small letter is mistaken for what its capital is mistaken for, so that case is no evasion
        small = chr(code).lower()
        if len(small) == 1 and not small.isascii():
            table.setdefault(ord(small), table[code])
    return table


def visible(text: str) -> str:
    """Full-width characters made plain and invisible ones dropped; case and punctuation kept."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", text)
    return "".join(character for character in plain if unicodedata.category(character) != "Cf")


def fold(text: str) -> str:
    """Lower case, NFKC, without accents and invisible characters, look-alikes made ASCII. Folding twice changes nothing."""
    if text.isascii():
        return text.lower()
    for _ in range(_MAXIMUM_FOLDS):
        before = text
        # Look-alikes go first, while capitals still look like capitals, and again at each turn for what came apart.
        text = unicodedata.normalize("NFKD", text).translate(_look_alikes()).casefold()
        text = "".join(c for c in text if unicodedata.category(c) not in ("Cf", "Mn", "Me"))
        text = unicodedata.normalize("NFKC", text)
        if text == before:
            break
    return text


def normalise(text: str) -> str:
    """Letters and digits of the folded text only: spacing and punctuation do not count."""
    if text.isascii():
        return "".join(filter(str.isalnum, text.lower()))
    joined = "".join(filter(str.isalnum, fold(text)))
    # Once more at the end: Korean letters that stood apart compose when what parted them is gone.
    return "".join(filter(str.isalnum, fold(joined)))


def words(text: str) -> list[str]:
    """The words of a folded text, in order."""
    return _ASCII_WORD.findall(text) if text.isascii() else _WORD.findall(text)


def masked(word: str) -> str:
    """The word with each number in it as `0`: "c37" and "c4" are one word."""
    return _DIGITS.sub("0", word)


def encoded(text: str) -> bytes:
    """UTF-8; lone surrogates, which JSON can carry, are kept apart from everything else."""
    return text.encode("utf-8", "surrogatepass")
