"""The rubric's versions: what a call is worth, and what a proof must be."""

import pytest

from bat_events.domain.rubric import NEWEST, VERSIONS, Call, breached, execution_cap, proof_fault

RAN = Call(exit_code=0, end="exited", changed=False)
WORKED = Call(exit_code=0, end="exited", changed=True)
FAILED = Call(exit_code=1, end="exited", changed=True)
CUT = Call(exit_code=None, end="timeout", changed=True)
BREACH = Call(exit_code=None, end="breach", changed=True)


@pytest.mark.parametrize(
    ("calls", "first", "second"),
    [
        ([], 0.0, 0.0),
        ([RAN], 0.0, 0.0),
        ([FAILED], 0.0, 0.0),
        ([CUT], 0.0, 0.0),
        ([WORKED], 1.0, 1.0),
        ([FAILED, RAN], 1.0, 0.0),
        ([CUT, RAN], 1.0, 0.0),
        ([BREACH, RAN], 1.0, 0.0),
        ([RAN, RAN], 0.0, 0.0),
        ([FAILED, WORKED], 1.0, 1.0),
        ([WORKED, BREACH], 1.0, 1.0),
        ([WORKED, BREACH, BREACH], 0.0, 0.0),
    ],
)
def test_the_cap_asks_for_an_exit_of_zero_and_a_change_and_version_2_for_both_in_one_call(
    calls: list[Call], first: float, second: float
) -> None:
    assert (execution_cap(1, calls), execution_cap(2, calls)) == (first, second)


def test_the_second_breach_ends_a_rollout_not_the_first() -> None:
    assert not breached([BREACH, WORKED])
    assert breached([BREACH, WORKED, BREACH])


def test_what_scores_cites_a_call_that_worked() -> None:
    calls = [FAILED, WORKED, CUT, RAN]
    assert proof_fault(2, score=0.5, proof=1, calls=calls) is None
    assert proof_fault(2, score=0.0, proof=None, calls=calls) is None
    assert proof_fault(2, score=0.5, proof=None, calls=calls) == "scores without a proof"
    assert "cites receipt 4 of 4" in str(proof_fault(2, score=0.5, proof=4, calls=calls))
    for place in (0, 2, 3):
        assert f"cites receipt {place}, which proves nothing" in str(
            proof_fault(2, score=0.5, proof=place, calls=calls)
        )


def test_version_1_asks_no_proof_but_a_cited_one_must_hold() -> None:
    assert proof_fault(1, score=0.5, proof=None, calls=[]) is None
    assert proof_fault(1, score=0.5, proof=0, calls=[FAILED]) is not None


@pytest.mark.parametrize("version", [0, NEWEST + 1])
def test_a_version_that_is_not_here_is_named(version: int) -> None:
    with pytest.raises(ValueError, match=f"rubric version {version} is not here: known are 1, 2"):
        execution_cap(version, [])
    assert version not in VERSIONS
