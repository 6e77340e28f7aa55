"""What a call sees, what its receipt says, and that equal calls have equal receipts."""

import hashlib
import json

import pytest
from quick_limits import QUICK

from bat_events.sandbox.interface import FileChange, Limits
from bat_events.sandbox.session import SupervisedSandbox
from bat_events.sandbox.warm_pool import WarmPool

pytestmark = pytest.mark.sandbox


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_files_persist_from_call_to_call_and_interpreter_state_does_not(sandbox: SupervisedSandbox) -> None:
    sandbox.execute("python", "kept = 1; m.calls.append(1); numpy.spoiled = 1; open('kept.txt', 'w').write('x')")
    after = sandbox.execute(
        "python", "print('kept' in globals(), m.calls, hasattr(numpy, 'spoiled'), open('kept.txt').read())"
    )
    assert after.stdout == "False [] False x\n"
    assert after.index == 1


def test_preimports_and_aliases_are_bound_and_the_library_is_importable_and_read_only(
    sandbox: SupervisedSandbox,
) -> None:
    receipt = sandbox.execute("python", "import practice_skills\nprint(m is practice_skills, m.double(numpy.int64(3)))")
    assert receipt.stdout == "True 6\n"
    assert sandbox.execute("python", "open(m.__file__, 'a')").exit_code == 1
    assert "6" in sandbox.execute("bash", "python -c 'import practice_skills as m; print(m.double(3))'").stdout


def test_a_receipt_lists_what_changed_with_digests_made_outside(sandbox: SupervisedSandbox) -> None:
    receipt = sandbox.execute("bash", "echo new > b.txt; rm notes/plan.txt; mkdir -p c/d; printf z > c/d/e")
    assert receipt.changes == (
        FileChange(path="b.txt", before=None, after=_sha(b"new\n")),
        FileChange(path="c/d/e", before=None, after=_sha(b"z")),
        FileChange(path="notes/plan.txt", before=_sha(b"plan"), after=None),
    )
    rows = [["b.txt", 4, _sha(b"new\n")], ["c/d/e", 1, _sha(b"z")]]
    assert receipt.workspace_after == _sha(json.dumps(rows, separators=(",", ":")).encode())
    assert sandbox.files() == {"b.txt": b"new\n", "c/d/e": b"z"}
    assert sandbox.execute("bash", "true").workspace_before == receipt.workspace_after


def test_a_changed_file_is_noticed_although_size_and_times_are_put_back(sandbox: SupervisedSandbox) -> None:
    code = """
import os
old = os.stat("notes/plan.txt")
open("notes/plan.txt", "w").write("PLAN")
os.utime("notes/plan.txt", ns=(old.st_atime_ns, old.st_mtime_ns))
"""
    assert [change.path for change in sandbox.execute("python", code).changes] == ["notes/plan.txt"]


def test_equal_calls_have_equal_receipts_in_different_sandboxes(pool: WarmPool) -> None:
    calls = [
        ("python", "import random\nprint(random.random(), numpy.random.rand(), hash('a'), {'x', 'y', 'z'})"),
        (
            "python",
            "import os, socket\nprint(os.getpid(), os.environ, os.getcwd(), socket.gethostname(), os.listdir())",
        ),
        ("bash", "env | sort; hostname; nosuch; printf '\\xff'"),
        ("python", "def f():\n    raise ValueError('no')\nf()"),
    ]
    seen = []
    for _ in range(2):
        with pool.open(inputs={"input/a": b"1"}, files={"b": b"2"}, limits=QUICK) as sandbox:
            seen.append([sandbox.execute(language, code) for language, code in calls])  # type: ignore[arg-type]
    assert seen[0] == seen[1]
    assert "\ufffd" in seen[0][2].stdout
    assert "nosuch: command not found" in seen[0][2].stderr


def test_tracebacks_name_the_line_of_the_code_and_hide_the_runtime(sandbox: SupervisedSandbox) -> None:
    receipt = sandbox.execute("python", "def f():\n    return 1 / 0\n\nf()\n")
    assert receipt.exit_code == 1
    assert receipt.stderr.startswith(
        'Traceback (most recent call last):\n  File "<code>", line 4, in <module>\n    f()\n'
    )
    assert "supervisor" not in receipt.stderr
    assert 'File "<code>", line 1' in sandbox.execute("python", "x = = 1").stderr


@pytest.mark.parametrize(
    ("language", "code", "exit_code"),
    [
        ("python", "pass", 0),
        ("python", "import sys; sys.exit(3)", 3),
        ("python", "exit('said')", 1),
        ("python", "raise SystemExit(None)", 0),
        ("python", "import os; os._exit(9)", 9),
        ("python", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139),
        ("python", "import sys; sys.stdout.close()", 0),
        (
            "python",
            "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()",
            0,
        ),
        ("bash", "exit 4", 4),
        ("bash", "kill -9 $$", 137),
    ],
)
def test_exit_codes_are_those_of_a_shell(sandbox: SupervisedSandbox, language: str, code: str, exit_code: int) -> None:
    receipt = sandbox.execute(language, code)  # type: ignore[arg-type]
    if exit_code != 0 or "close" not in code:
        assert (receipt.end, receipt.exit_code) == ("exited", exit_code)
    assert ("late" in receipt.stdout) == ("late" in code)


def test_long_code_runs_up_to_the_limit_and_not_beyond(sandbox: SupervisedSandbox) -> None:
    for language, comment in (("bash", "echo done #"), ("python", "print('done') #")):
        code = comment + "x" * (256 * 1024 - len(comment))
        assert sandbox.execute(language, code).stdout == "done\n"  # type: ignore[arg-type]
        refused = sandbox.execute(language, code + "x")  # type: ignore[arg-type]
        assert (refused.end, refused.exit_code, refused.stdout) == ("exited", 2, "")
        assert "262145 bytes" in refused.stderr


@pytest.mark.parametrize("code", ["print(1)\0", "print('\ud800')"])
def test_malformed_code_is_answered_and_not_run(sandbox: SupervisedSandbox, code: str) -> None:
    receipt = sandbox.execute("python", code)
    assert (receipt.end, receipt.exit_code, receipt.stdout) == ("exited", 2, "")
    assert sandbox.execute("ruby", "1").exit_code == 2  # type: ignore[arg-type]


def test_inputs_are_read_only_and_a_change_from_outside_is_noticed(sandbox: SupervisedSandbox) -> None:
    attempts = """
echo x > input/case/a.txt; rm -rf input; mv input other
chmod 777 input/case/a.txt; ln -f input/case/a.txt link; cat input/case/a.txt
"""
    receipt = sandbox.execute("bash", attempts)
    assert receipt.stdout == "alpha"
    assert receipt.changes == ()
    assert sandbox.inputs_intact()
    (sandbox.slot.inputs / "case" / "a.txt").write_text("alphb")
    assert not sandbox.inputs_intact()


def test_only_named_packages_are_importable_and_never_this_project(sandbox: SupervisedSandbox) -> None:
    for module in ("bat_events", "pytest", "pydantic", "pip"):
        assert "ModuleNotFoundError" in sandbox.execute("python", f"import {module}").stderr
    assert sandbox.execute("bash", "find / -name 'bat_events*' -not -path '/proc/*' 2>/dev/null").stdout == ""


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "input/x", ""])
def test_paths_that_lead_out_of_the_workspace_are_refused(pool: WarmPool, path: str) -> None:
    with pytest.raises(ValueError, match=r"path|input"):
        pool.open(inputs={}, files={path: b""}, limits=Limits(disk_bytes=QUICK.disk_bytes))
