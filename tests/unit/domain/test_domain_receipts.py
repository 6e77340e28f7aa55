"""The chain of receipts: nothing in it can be changed, moved, cut off or taken from elsewhere unseen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import pytest

from bat_events.domain.receipts import chain_faults, chain_start, changes_digest, link_digest, seal_digest


@dataclass(frozen=True, kw_only=True)
class Receipt:
    ordinal: int
    engine: str = "bubblewrap"
    isolation: str = "weaker"
    language: str = "python"
    code: str = "c" * 64
    exit_code: int | None = 0
    end: str = "exited"
    stdout: str = "d" * 64
    stderr: str = "e" * 64
    workspace_before: str
    workspace_after: str
    changes: str = "f" * 64
    changed: int = 1
    digest: str = ""
    signature: str = ""


START = chain_start(group="g", rollout="r", body="b", workspace="w")


def signature(digest: str) -> str:
    return f"signed {digest}"


def verify(digest: str, made: str) -> bool:
    return made == signature(digest)


def chain(count: int = 3, *, start: str = START) -> list[Receipt]:
    made: list[Receipt] = []
    for number in range(count):
        link = Receipt(ordinal=number, workspace_before=f"w{number}", workspace_after=f"w{number + 1}")
        digest = link_digest(made[-1].digest if made else start, link)
        made.append(replace(link, digest=digest, signature=signature(digest)))
    return made


def seal(links: Sequence[Receipt], end: str = "final") -> str:
    last = links[-1].digest if links else START
    return signature(seal_digest(last, calls=len(links), evidence="evidence", end=end))


def faults(
    links: Sequence[Receipt], *, sealed: str | None = None, end: str = "final", evidence: str = "evidence"
) -> set[str]:
    found = chain_faults(links, start=START, seal=sealed or seal(links, end), evidence=evidence, end=end, verify=verify)
    return {field for field, _, _ in found}


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_chain_as_it_was_issued_has_no_fault(count: int) -> None:
    assert faults(chain(count)) == set()


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("name", [field.name for field in fields(Receipt)])
def test_any_field_of_any_receipt_is_covered(name: str, place: int) -> None:
    links = chain()
    was = getattr(links[place], name)
    other = was + 7 if isinstance(was, int) else "another"
    changed = [replace(link, **{name: other}) if number == place else link for number, link in enumerate(links)]
    assert any(field.startswith(f"receipts[{place}]") for field in faults(changed, sealed=seal(links)))


@pytest.mark.parametrize(
    "change",
    [
        lambda links: links[:-1],
        lambda links: links[1:],
        lambda _: [],
        lambda links: links[::-1],
        lambda links: [links[0], links[0], *links[1:]],
        lambda links: [*links[:-1], *chain(start="elsewhere")[-1:]],
        lambda _: chain(start=chain_start(group="g", rollout="another", body="b", workspace="w")),
    ],
)
def test_what_is_cut_off_moved_doubled_or_foreign_is_seen(change: Callable[[list[Receipt]], list[Receipt]]) -> None:
    links = chain()
    assert faults(change(links), sealed=seal(links)) != set()


def test_the_seal_binds_evidence_and_end() -> None:
    links = chain()
    assert faults(links, sealed=seal(links), evidence="other") == {"seal"}
    assert faults(links, sealed=seal(links), end="turn_limit") == {"seal"}


@pytest.mark.parametrize(
    ("breaches", "end", "fits"),
    [
        (0, "final", True),
        (1, "final", True),
        (2, "breach", True),
        (2, "final", False),
        (1, "breach", False),
        (3, "breach", False),
    ],
)
def test_a_rollout_ends_as_a_breach_after_two_and_only_then(breaches: int, end: str, fits: bool) -> None:
    links: list[Receipt] = []
    for number in range(4):
        cut = number < breaches
        link = Receipt(
            ordinal=number,
            workspace_before="w",
            workspace_after="w",
            changed=0,
            exit_code=None if cut else 0,
            end="breach" if cut else "exited",
        )
        digest = link_digest(links[-1].digest if links else START, link)
        links.append(replace(link, digest=digest, signature=signature(digest)))
    assert (faults(links, end=end) == set()) == fits


def test_every_cause_has_a_start_of_its_own_and_changes_their_order() -> None:
    parts = {"group": "g", "rollout": "r", "body": "b", "workspace": "w"}
    assert len({START, *(chain_start(**{**parts, name: "x"}) for name in parts)}) == 5
    assert changes_digest([("a", None, "1")]) != changes_digest([("a", "1", None)]) != changes_digest([])
