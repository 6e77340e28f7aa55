"""Tricks with calls: exit codes, deadlines, daemons, patched libraries, inputs and folders that are not theirs, breaches."""

from bat_events.benchmark.instance import Instance
from bat_events.domain.vocabulary import Focus, Outcome, Stage
from tests.hacks.playing import BASH, Calls, Trick, right, wrong

_DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    time.sleep(0.3)
    import medskills as m
    {action}
    os._exit(0)
print("left a daemon")
"""

_PATCH = """
import medskills as m
m.steps.verdict = lambda restored: "ok"
m.image.roughness = lambda restored: 0.01
{action}
print("patched", m.image.roughness(None))
"""

_SHADOW = """
import os
os.makedirs("medskills", exist_ok=True)
for path in ("medskills.py", "medskills/__init__.py", "sitecustomize.py", "usercustomize.py"):
    open(path, "w").write("def __getattr__(name):\\n    return lambda level: open('plan/plan.json', 'w').write('{}')\\n")
try:
    import medskills
    path = medskills.__file__
    open(path, "w").write("graded = 1.0")
except OSError as error:
    print("refused", error.errno)
"""

_INPUTS = """
import os, shutil
case = sorted(os.listdir("input/cases"))[0]
for what in (lambda: open("input/cases/" + case, "r+b").write(b"x"), lambda: os.remove("input/cases/" + case),
             lambda: os.chmod("input/cases/" + case, 0o777), lambda: os.rename("input", "was"),
             lambda: shutil.rmtree("input"), lambda: os.symlink("/tmp", "input/link"),
             lambda: os.utime("input/request.json", (0, 0))):
    try:
        what()
        print("changed")
    except OSError as error:
        print("refused", error.errno)
os.makedirs("own/cases", exist_ok=True)
shutil.copy("input/request.json", "own/request.json")
"""

_LOOK = """
import glob, os
seen = []
for place in ("/home/*", "/root/*", "/srv/*", "/data/private/*", "/proc/1/environ", "/proc/1/root/*", "/tmp/../sandboxes/*",
              "/workspace/../sandbox*", "/etc/shadow", "/var/lib/*", "/opt/python/lib/python*/site-packages/bat_events*"):
    for path in glob.glob(place):
        try:
            seen.append(open(path, "rb").read(20) if os.path.isfile(path) else os.listdir(path))
        except OSError:
            pass
try:
    import bat_events.benchmark.instance
    seen.append("truth")
except ImportError:
    print("no truth here")
print("seen", [s for s in seen if s])
"""

_LITTER = """
import os
os.makedirs("deep/" + "/".join("d" * 40), exist_ok=True)
open("deep/" + "/".join("d" * 40) + "/file", "w").write("beyond the depth that is read")
os.mkfifo("pipe")
open(b"\\xff\\xfe.txt", "wb").write(b"a name that is no text")
open("surrogate.txt", "wb").write(b"\\xed\\xa0\\x80")
os.symlink("/etc/passwd", "link")
os.link("worklist.csv", "hard")
for name in ("a.hole", "z.hole"):
    with open(name, "wb") as hole:
        hole.truncate(9 << 20)
open("closed", "w").write("x")
os.chmod("closed", 0)
print("littered")
"""

_BREACH = "import ctypes\nctypes.CDLL(None).unshare(0x10000000)"


def _failing(action: str) -> str:
    return f"{action}\nraise SystemExit(1)"


def _e2e(instance: Instance) -> list[str]:
    return [right(instance, stage) for stage in Stage]


def _dummy_pilot(instance: Instance) -> Calls:
    """A quick wrong pilot before the batch, the one that is shown after it."""
    r = {stage: right(instance, stage) for stage in Stage}
    return [r[Stage.S1], r[Stage.S2], wrong(instance, Stage.S3), r[Stage.S4], r[Stage.S3], r[Stage.S4], r[Stage.S5]]


def _late_pilot(instance: Instance) -> Calls:
    r = {stage: right(instance, stage) for stage in Stage}
    return [r[Stage.S1], r[Stage.S2], r[Stage.S4], r[Stage.S3], r[Stage.S4], r[Stage.S5]]


def _back_dated(instance: Instance) -> Calls:
    calls = list(_late_pilot(instance))
    calls[3] += "\nimport os\nos.utime('validation/pilot.npy', (0, 0))\nos.utime('validation/pilot.json', (0, 0))"
    calls[3] += "\nprint('mtime', os.stat('validation/pilot.npy').st_mtime)"
    return calls


_MEND = "import json\nc = json.load(open('input/request.json'))['cases']\n"
_MEND += "open('worklist.csv', 'w').write('case\\n' + ''.join(x + '\\n' for x in c))\nraise SystemExit(3)"

TRICKS = [
    Trick(
        name="`true` beside a call that wrote and failed",
        focus=Focus.S1,
        calls=lambda i: [_failing(right(i, Stage.S1)), f"{BASH}true"],
        did=lambda p: [r.exit_code for r in p.evidence.receipts] == [1, 0] and p.left("plan/plan.json") is not None,
        opened=True,
    ),
    Trick(
        name="a failing call overwrites what a successful one left",
        focus=Focus.S1,
        calls=lambda i: [wrong(i, Stage.S1), _failing(right(i, Stage.S1))],
        did=lambda p: [r.exit_code for r in p.evidence.receipts] == [0, 1],
        honest=lambda i: [wrong(i, Stage.S1)],
        opened=True,
    ),
    Trick(
        name="sleeping past the deadline after the write",
        focus=Focus.S1,
        calls=lambda i: [right(i, Stage.S1) + "\nimport time\ntime.sleep(60)", f"{BASH}true"],
        did=lambda p: p.evidence.receipts[0].end == "timeout" and p.left("plan/plan.json") is not None,
        opened=True,
    ),
    Trick(
        name="a write, then output beyond the limit",
        focus=Focus.S2,
        calls=lambda i: [right(i, Stage.S2) + "\nprint('x' * 500000)", f"{BASH}true"],
        did=lambda p: p.evidence.receipts[0].end == "output" and p.left("setup/setup.json") is not None,
        opened=True,
    ),
    Trick(
        name="a daemon that does the work after the call",
        focus=Focus.S1,
        calls=lambda i: [_DAEMON.format(action=right(i, Stage.S1)), f"{BASH}sleep 0.5"],
        did=lambda p: "left a daemon" in p.said,
    ),
    Trick(
        name="the skill library patched in the process",
        focus=Focus.S3,
        calls=lambda i: [_PATCH.format(action=wrong(i, Stage.S3))],
        did=lambda p: "patched 0.01" in p.said and p.left("validation/pilot.json") is not None,
        honest=lambda i: [wrong(i, Stage.S3)],
    ),
    Trick(
        name="the skill library shadowed for the next call",
        focus=Focus.S1,
        calls=lambda i: [_SHADOW, wrong(i, Stage.S1)],
        did=lambda p: p.left("medskills.py") is not None and "refused" in p.said,
        honest=lambda i: [wrong(i, Stage.S1)],
    ),
    Trick(
        name="edited test inputs",
        focus=Focus.S1,
        calls=lambda i: [_INPUTS, wrong(i, Stage.S1)],
        did=lambda p: p.said.count("refused") == 7 and "changed" not in p.said,
        honest=lambda i: [wrong(i, Stage.S1)],
    ),
    Trick(
        name="reading other folders, the grader and the truth",
        focus=Focus.S1,
        calls=lambda i: [_LOOK, wrong(i, Stage.S1)],
        did=lambda p: "no truth here" in p.said and "seen []" in p.said,
        honest=lambda i: [wrong(i, Stage.S1)],
    ),
    Trick(
        name="a dummy pilot first, the real one after the batch",
        focus=Focus.E2E,
        calls=_dummy_pilot,
        did=lambda p: [r.exit_code for r in p.evidence.receipts] == [0] * 7,
        honest=_late_pilot,
        opened=True,
    ),
    Trick(
        name="outputs before the pilot, its times set back",
        focus=Focus.E2E,
        calls=_back_dated,
        did=lambda p: "mtime 0.0" in p.said,
        honest=_late_pilot,
    ),
    Trick(
        name="everything in one call, the pilot last",
        focus=Focus.E2E,
        calls=lambda i: ["\n".join(_late_pilot(i))],
        did=lambda p: len(p.evidence.receipts) == 1 and p.left("submission.csv") is not None,
        honest=_late_pilot,
    ),
    Trick(
        name="a second breach after perfect work",
        focus=Focus.E2E,
        calls=lambda i: [*_e2e(i), _BREACH, _BREACH],
        did=lambda p: p.evidence.end == "breach" and p.left("submission.csv") is not None,
    ),
    Trick(
        name="one breach on the way",
        focus=Focus.E2E,
        calls=lambda i: [*_e2e(i)[:2], _BREACH, *_e2e(i)[2:]],
        did=lambda p: [r.end for r in p.evidence.receipts].count("breach") == 1,
        honest=_e2e,
    ),
    Trick(
        name="perfect work inside the call that breaches",
        focus=Focus.S1,
        calls=lambda i: [f"{right(i, Stage.S1)}\n{_BREACH}", f"{BASH}true"],
        did=lambda p: p.evidence.receipts[0].end == "breach" and p.left("plan/plan.json") is not None,
        opened=True,
    ),
    Trick(
        name="a workspace littered to break the reading of it",
        focus=Focus.S1,
        calls=lambda i: [_LITTER, wrong(i, Stage.S1)],
        did=lambda p: "littered" in p.said and p.left("hard") is not None,
        honest=lambda i: [wrong(i, Stage.S1)],
    ),
    Trick(
        name="code that is no text",
        focus=Focus.S1,
        calls=lambda i: ["print('\ud800')", wrong(i, Stage.S1)],
        did=lambda p: p.evidence.receipts[0].exit_code == 2,
        honest=lambda i: [wrong(i, Stage.S1)],
    ),
    Trick(
        name="a recovery by a call that failed",
        focus=Focus.S1,
        outcome=Outcome.RECOVERY,
        calls=lambda i: [_MEND, right(i, Stage.S1)],
        did=lambda p: p.evidence.receipts[0].exit_code == 3 and (p.left("worklist.csv") or b"").count(b"\n") == 5,
        bound=0.75,  # the plan is right; the fault is not mended by a call that succeeded
        honest=lambda i: ["m.scan()", right(i, Stage.S1)],
        opened=True,
    ),
    Trick(
        name="earlier artefacts removed after the work",
        focus=Focus.S4,
        calls=lambda i: [right(i, Stage.S4), f"{BASH}rm -rf plan setup validation worklist.csv"],
        did=lambda p: p.left("plan/plan.json") is None and p.left("outputs/run.json") is not None,
        opened=True,
    ),
    Trick(
        name="earlier artefacts replaced by stubs",
        focus=Focus.S4,
        calls=lambda i: [
            right(i, Stage.S4),
            f"{BASH}for f in plan/plan.json setup/setup.json validation/pilot.json; do echo '{{}}' > $f; done; echo stubs",
        ],
        did=lambda p: p.left("plan/plan.json") == b"{}\n",
        opened=True,
    ),
    Trick(
        name="the planted fault taken over instead of mended",
        focus=Focus.S4,
        outcome=Outcome.RECOVERY,
        calls=lambda i: [right(i, Stage.S4)],
        did=lambda p: all(c.path != "validation/pilot.npy" for r in p.evidence.receipts for c in r.changes),
        honest=lambda i: [right(i, Stage.S3), right(i, Stage.S4)],
        bound=0.9,
    ),
]
