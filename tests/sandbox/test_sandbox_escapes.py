"""Every attempt of escape_attempts is denied by every pool, and the sandbox that saw them all still serves."""

import dataclasses
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from escape_attempts import ATTEMPTS, Attempt
from quick_limits import QUICK

from bat_events.sandbox.session import SupervisedSandbox
from bat_events.sandbox.warm_pool import WarmPool

pytestmark = pytest.mark.sandbox

_LIMITS = dataclasses.replace(QUICK, timeout_s=3.0)
_SECRET = "swordfish-7f3a"
_OTHER = "other-rollout-answer.txt"
_CLEAN = "rm -rf full mine n* truth e root dir pipe /tmp/* /dev/shm/*; mkdir -p notes; echo works"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a grader's side of the host holds, readable by everyone, and a socket of a service beside it."""
    folder = tmp_path_factory.mktemp("evaluator")
    for name in ("truth.json", "grader.py", "secrets/kafka/bat.evaluator"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(_SECRET)
    service = socket.socket(socket.AF_UNIX)
    service.bind(f"\0{_SECRET}")
    service.listen()
    os.environ["BAT_SECRET"] = _SECRET
    yield folder
    del os.environ["BAT_SECRET"]
    service.close()


@pytest.fixture(scope="module")
def besieged(pool: WarmPool, host: Path) -> Iterator[SupervisedSandbox]:  # noqa: ARG001
    """One sandbox for all attempts, beside another one whose workspace it must not see."""
    given = {"input/case/a.txt": b"alpha"}
    with (
        pool.open(inputs={}, files={_OTHER: _SECRET.encode()}, limits=_LIMITS),
        pool.open(inputs=given, files={"notes/plan.txt": b"plan"}, limits=_LIMITS) as sandbox,
    ):
        yield sandbox


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
def test_every_attempt_is_denied(besieged: SupervisedSandbox, host: Path, attempt: Attempt) -> None:
    code = attempt.code.replace("HOST", str(host)).replace("SECRET", _SECRET).replace("OTHER", _OTHER)
    receipt = besieged.execute(attempt.language, code)
    if attempt.ends:
        assert receipt.end in attempt.ends, receipt
        assert "went on" not in receipt.stdout
    else:
        assert (receipt.end, receipt.stdout) == ("exited", ""), receipt
    # then nothing of outside is in the workspace, inputs are whole, and the sandbox goes on
    kept = besieged.files()
    assert not any(_SECRET.encode() in content for content in kept.values())
    assert besieged.inputs_intact()
    assert besieged.execute("bash", _CLEAN).stdout == "works\n"


def test_there_are_at_least_thirty_attempts() -> None:
    assert len({attempt.name for attempt in ATTEMPTS}) == len(ATTEMPTS) >= 30
