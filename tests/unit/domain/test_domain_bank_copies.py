"""What is a state's own, and which states copy others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_events.domain.bank import SourceCell
from bat_events.domain.bank_copies import Original, Originals, OwnDigests, blank_ids, own_digests
from bat_events.domain.vocabulary import Focus, Outcome, Track

CELL = SourceCell(Focus.S2, Track.VQA, Outcome.RECOVERY)
PUBLISHED = ("# vqa", "files under 65536 bytes", "seen: the mean of each case")
PIXELS = {"c17": b"\x93NUMPY\x00\xff\x01", "c42": b"\x93NUMPY\x00\xff\x02"}


def state(
    *,
    names: tuple[str, str] = ("c17", "c42"),
    seen: str = "140 133",
    card: str = "mr grain",
    pixels: tuple[bytes, bytes] = (PIXELS["c17"], PIXELS["c42"]),
    published: tuple[str, ...] = PUBLISHED,
    cell: SourceCell = CELL,
    plan: str | None = None,
) -> OwnDigests:
    """The digests of a small state."""
    first, second = names
    prompt = "\n".join([*published, f"seen: {seen}", f"card: {card}", f"found: {first} is unreadable"])
    inputs = {f"input/cases/{first}.npy": pixels[0], f"input/cases/{second}.npy": pixels[1]}
    inputs["input/TASK.md"] = ("\n".join(published) + "\n\n").encode()
    listed = plan or f'{{"cases": ["{first}", "{second}"], "ranges": {{"{min(names)}": [3], "{max(names)}": [3]}}}}'
    files = {"plan/plan.json": listed.encode(), f"outputs/{first}.json": b'{"answer": "b2"}'}
    return own_digests(cell, prompt, inputs, files, published)


def test_a_state_whose_cases_are_named_otherwise_is_the_same_state() -> None:
    assert state(names=("c99", "c03")) == state()


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"seen": "140 134"}, {"prompt"}),
        ({"card": "ct grain"}, {"prompt", "condition"}),
        ({"pixels": (PIXELS["c17"], b"\x93NUMPY\x00\xff\x03")}, {"workspace"}),
        ({"plan": '{"cases": ["c17", "c42"], "level": 2}'}, {"workspace"}),
        ({"cell": SourceCell(Focus.S3, Track.VQA, Outcome.RECOVERY)}, {"condition"}),
    ],
)
def test_a_difference_shows_in_the_part_that_it_belongs_to(change: dict[str, object], differs: set[str]) -> None:
    one, other = state(), state(**change)  # type: ignore[arg-type]
    assert {
        part for part in ("prompt", "workspace", "condition") if getattr(one, part) != getattr(other, part)
    } == differs


def test_published_text_makes_no_state_different() -> None:
    longer = (*PUBLISHED, "one more line that every state of this track shows")
    assert state(published=longer) == state()


def test_a_state_that_shows_nothing_of_its_own_has_nothing_to_compare() -> None:
    found = own_digests(CELL, "\n".join(PUBLISHED), {"input/TASK.md": b"# vqa\n"}, {}, PUBLISHED)
    assert (found.prompt, found.workspace) == (None, None)
    assert len(found.condition) == 64


@pytest.mark.parametrize(
    ("text", "blanked"),
    [
        ("see c17 and c170, not xc17", "see # and c170, not xc17"),
        ("state 0123456789abcdef of input/cases/c17.npy", "state # of #"),
        ("ratio 3/4 of a/b", "ratio # of #"),
        ("plain words, 12 of them", "plain words, 12 of them"),
    ],
)
def test_ids_and_paths_are_blanked(text: str, blanked: str) -> None:
    assert blank_ids(text, {"c17"}) == blanked


def test_the_first_of_equal_states_is_the_original() -> None:
    originals = Originals()
    assert originals.admit("a", prompt="p1", workspace="w1") is None
    assert originals.admit("b", prompt="p1", workspace="w2") == Original("a", "prompt")
    assert originals.admit("c", prompt="p2", workspace="w1") == Original("a", "workspace")
    assert originals.admit("d", prompt="p3", workspace="w2") is None  # what a refused state held stays free
    assert originals.admit("e", prompt=None, workspace=None) is None
    assert originals.admit("f", prompt=None, workspace=None) is None


digests = st.one_of(st.none(), st.sampled_from("abcd"))


@given(st.lists(st.tuples(digests, digests), max_size=30))
def test_no_two_admitted_states_share_a_part_and_every_refused_one_does(
    parts: list[tuple[str | None, str | None]],
) -> None:
    originals = Originals()
    admitted: dict[str, tuple[str | None, str | None]] = {}
    for number, (prompt, workspace) in enumerate(parts):
        original = originals.admit(str(number), prompt=prompt, workspace=workspace)
        if original is None:
            admitted[str(number)] = (prompt, workspace)
        else:
            place = ("prompt", "workspace").index(original.part)
            assert admitted[original.state][place] == (prompt, workspace)[place] is not None
    for place in (0, 1):
        known = [own[place] for own in admitted.values() if own[place] is not None]
        assert len(set(known)) == len(known)
