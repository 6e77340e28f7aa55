"""The runtime reads a workspace that the policy shaped: nothing in it leads out, hangs, or costs more than its limit."""

import time

import pytest
from quick_limits import QUICK

from bat_events.sandbox.session import SupervisedSandbox

pytestmark = pytest.mark.sandbox


def test_links_and_special_files_are_left_out(sandbox: SupervisedSandbox) -> None:
    code = """
ln -s /etc/hostname a; ln -s /proc/self/mem b; ln -s .. up; ln -s /workspace/notes/plan.txt inside; ln -s /dev/zero zero
ln -s input/case linked; mkfifo pipe; mkdir plain; echo x > plain/file; ln plain/file hard
python - <<'END'
import os, socket
socket.socket(socket.AF_UNIX).bind('socket')
open(b'bad\\xff', 'w').write('x')
os.makedirs(b'bad\\xfe/dir'); open(b'bad\\xfe/dir/file', 'w').write('x')
END
"""
    receipt = sandbox.execute("bash", code)
    assert receipt.exit_code == 0, receipt.stderr
    assert sandbox.files() == {"notes/plan.txt": b"plan", "plain/file": b"x\n", "hard": b"x\n"}
    assert [change.path for change in receipt.changes] == ["hard", "plain/file"]


def test_a_file_or_folder_replaced_by_a_link_is_gone(sandbox: SupervisedSandbox) -> None:
    receipt = sandbox.execute("bash", "mv notes /tmp/notes; ln -s /tmp/notes notes; cat notes/plan.txt")
    assert receipt.stdout == "plan"
    assert sandbox.files() == {}
    assert [(change.path, change.after) for change in receipt.changes] == [("notes/plan.txt", None)]


@pytest.mark.parametrize(
    "code",
    [
        "truncate -s 100G sparse",
        "for i in $(seq 40); do truncate -s 3M sparse$i; done",
        "head -c 3000000 /dev/zero > f; for i in $(seq 40); do ln f link$i; done",
    ],
    ids=["one-sparse-file", "many-sparse-files", "many-hard-links"],
)
def test_size_without_content_ends_as_disk_or_is_refused_and_stays_cheap(sandbox: SupervisedSandbox, code: str) -> None:
    receipt = sandbox.execute("bash", code)
    assert receipt.end == "disk" or "File too large" in receipt.stderr or receipt.exit_code == 153, receipt
    started = time.monotonic()
    assert sum(map(len, sandbox.files().values())) <= QUICK.disk_bytes
    assert time.monotonic() - started < 1
    assert sandbox.execute("bash", "rm -f sparse* link*; echo works").stdout == "works\n"


def test_many_and_deep_names_end_as_disk(sandbox: SupervisedSandbox) -> None:
    deep = "import os\nfor _ in range(200): os.mkdir('d'); os.chdir('d')\nopen('f', 'w').write('x')"
    assert sandbox.execute("python", deep).end == "disk"
    assert list(sandbox.files()) == ["notes/plan.txt"]
    assert (
        sandbox.execute("python", "import os\nos.mkdir('many')\nfor i in range(9000): os.mkdir(f'many/{i}')").end
        == "disk"
    )
    assert sandbox.execute("bash", "rm -rf d many; echo works").stdout == "works\n"


@pytest.mark.parametrize(
    "code",
    [
        "chmod 000 /workspace /tmp /dev/shm 2>/dev/null; true",
        # an access list that shuts out user 0 by name: header, then owner, user 0, group, mask, others
        """python - <<'END'
import os, struct
entries = [(1, 7, -1), (2, 0, 0), (4, 0, -1), (16, 0, -1), (32, 0, -1)]
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
try: os.setxattr("/workspace", "system.posix_acl_access", acl)
except OSError as error: print(error)
END""",
        "rm -rf /workspace /tmp 2>/dev/null; mv /workspace /w 2>/dev/null; true",
    ],
    ids=["modes", "access-list", "removal"],
)
def test_closing_or_removing_the_workspace_itself_does_not_fail_the_next_call(
    sandbox: SupervisedSandbox, code: str
) -> None:
    assert sandbox.execute("bash", code).end == "exited"
    assert sandbox.execute("bash", "echo works > new; cat new").stdout == "works\n"
    assert sandbox.files()["new"] == b"works\n"


def test_files_that_their_owner_made_unreadable_are_read(sandbox: SupervisedSandbox) -> None:
    receipt = sandbox.execute("bash", "echo x > closed; chmod 000 closed notes")
    assert receipt.end == "exited"
    assert sandbox.files() == {"closed": b"x\n", "notes/plan.txt": b"plan"}
    assert [change.path for change in receipt.changes] == ["closed"]
