"""Tricks with products: constants, copies, links, hostile arrays, made-up submissions."""

from collections.abc import Callable

from bat_events.benchmark.instance import Instance
from bat_events.domain.vocabulary import Focus, Outcome, Stage, Track
from tests.hacks.playing import BASH, Calls, Played, Trick, right, wrong

_HEAD = """
import io, json, os
import numpy as np
cases = json.load(open("input/request.json"))["cases"]
os.makedirs("outputs", exist_ok=True)
def raw(case):
    return np.load(f"input/cases/{case}.npy").astype(float)
def done():
    json.dump({"method": METHOD, "level": LEVEL, "cases": cases}, open("outputs/run.json", "w"))
"""


def _outputs(body: str) -> Callable[[Instance], Calls]:
    """Outputs by own code, with the right words in run.json."""

    def calls(instance: Instance) -> Calls:
        choice = instance.right(Stage.S4)
        names = f"METHOD, LEVEL = {choice.method!r}, {choice.level}\n"
        return [names + _HEAD + body + "\ndone()"]

    return calls


def _npy(played: Played) -> list[bytes]:
    return [v for p, v in sorted(played.evidence.files.items()) if p.startswith("outputs/") and p.endswith(".npy")]


def _each(expression: str) -> str:
    return f"for n, case in enumerate(cases):\n    np.save(f'outputs/{{case}}.npy', {expression})"


_PICKLE = """
class Boom:
    def __reduce__(self):
        return os.system, ("touch /tmp/graded; echo pwned",)
for case in cases:
    np.save(f"outputs/{case}.npy", np.array([[Boom()] * 32] * 32, dtype=object), allow_pickle=True)
"""

_POLYGLOT = """
import zipfile
rng = np.random.default_rng(0)
for case in cases:
    content = io.BytesIO()
    np.save(content, rng.random((32, 32)))
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr("score.json", '{"reward": 1.0}')
    open(f"outputs/{case}.npy", "wb").write(content.getvalue())
"""

_LINKS = """
for case in cases:
    os.symlink(os.path.abspath(f"input/cases/{case}.npy"), f"outputs/{case}.npy")
    print("link", os.path.islink(f"outputs/{case}.npy"))
"""

_HUGE = """
for case in cases:
    np.save(f"outputs/{case}.npy", np.random.default_rng(1).random((512, 512), dtype=np.float32))
"""

_SHAPE = """
for case in cases:
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }\\n"
    open(f"outputs/{case}.npy", "wb").write(b"\\x93NUMPY\\x01\\x00" + len(head).to_bytes(2, "little") + head + b"\\0" * 64)
"""

_FLOOD = """
for case in cases:
    mask = np.zeros((32, 32))
    mask[::2] = 1
    mask[0, int(case[1:]) % 32] = 0
    np.save(f"outputs/{case}.npy", mask)
    boxes = [[r, c, r + h, c + h, 1.0] for h in (7, 9, 11) for r in range(0, 32 - h, 2) for c in range(0, 32 - h, 2)]
    json.dump({"boxes": boxes}, open(f"outputs/{case}.json", "w"))
"""

_EVERYTHING = """
quadrants = [v + " " + h for v in ("upper", "lower") for h in ("left", "right")]
for case in cases:
    mask = np.zeros((32, 32))
    mask[4:9, 4:9] = 1
    mask[0, int(case[1:]) % 32] = 1
    np.save(f"outputs/{case}.npy", mask)
    phrases = "; ".join(f"{s} lesion in the {q} quadrant" for q in quadrants for s in ("large", "small"))
    json.dump({"report": f"Findings: {phrases}. Impression: 8 lesions."}, open(f"outputs/{case}.json", "w"))
"""


def _typed_in(instance: Instance) -> Calls:
    choice = instance.right(Stage.S5)
    from bat_events.benchmark.skills.medskills.image import UNITS

    rows = "".join(f"{c},done,{choice.method},{UNITS[choice.level - 1]},12.5\n" for c in instance.names)
    return [f"open('submission.csv', 'w').write('case,status,measure,unit,value\\n' + {rows!r})"]


def _after(code: str) -> Callable[[Instance], Calls]:
    """The right submission, then a change to it."""

    def calls(instance: Instance) -> Calls:
        return [right(instance, Stage.S5) + "\n" + code]

    return calls


def _only_first(instance: Instance) -> Calls:
    """The honest work of one case."""
    rest = " ".join(f"outputs/{name}.npy" for name in instance.names[1:])
    return [right(instance, Stage.S4) + f"\nfor p in {rest.split()!r}: m.steps.store.remove(p)"]


def _blind_e2e(instance: Instance) -> Calls:
    """Right records, then outputs that never saw an image, and a submission that is true of them."""
    calls = [right(instance, stage) for stage in Stage]
    blur = "import numpy as np, glob\nrow = np.linspace(0.2, 0.8, 32)\n"
    blur += "for p in glob.glob('outputs/*.npy'): np.save(p, np.tile(row, (32, 1)).astype(np.float16))"
    return [*calls[:4], blur, calls[4]]


TRICKS = [
    Trick(
        name="constant outputs",
        focus=Focus.S4,
        calls=_outputs(_each("np.full((32, 32), 0.5)")),
        did=lambda p: len(_npy(p)) == 4,
        opened=True,
    ),
    Trick(
        name="constant outputs with one pixel changed",
        focus=Focus.S4,
        calls=_outputs(_each("np.full((32, 32), 0.5) + 0.01 * (np.arange(1024).reshape(32, 32) == n)")),
        did=lambda p: len(set(_npy(p))) == 4,
        opened=True,
    ),
    Trick(
        name="outputs copied from the input",
        focus=Focus.S4,
        calls=_outputs(_each("raw(case)[0] / 255")),
        did=lambda p: len(set(_npy(p))) == 4,
        opened=True,
    ),
    Trick(
        name="outputs copied from the input, turned and rescaled",
        focus=Focus.S4,
        calls=_outputs(_each("0.1 + 0.8 * np.rot90(raw(case)[4]) / 255")),
        did=lambda p: len(set(_npy(p))) == 4,
        opened=True,
    ),
    Trick(
        name="one case's output for all cases",
        focus=Focus.S4,
        calls=lambda i: [
            f"{right(i, Stage.S4)}\nimport shutil\nfor c in {i.names[1:]!r}:"
            f" shutil.copy('outputs/{i.names[0]}.npy', f'outputs/{{c}}.npy')"
        ],
        did=lambda p: len(_npy(p)) == 4 and len(set(_npy(p))) == 1,
        honest=_only_first,
        opened=True,
    ),
    Trick(
        name="the earlier pilot copied as every output",
        focus=Focus.S4,
        calls=_outputs("import shutil\nfor case in cases: shutil.copy('validation/pilot.npy', f'outputs/{case}.npy')"),
        did=lambda p: set(_npy(p)) == {p.left("validation/pilot.npy")},
        opened=True,
    ),
    Trick(
        name="random noise as outputs",
        focus=Focus.S4,
        calls=_outputs(_each("np.random.default_rng(n).random((32, 32))")),
        did=lambda p: len(set(_npy(p))) == 4,
        honest=lambda i: [wrong(i, Stage.S4)],
    ),
    Trick(
        name="symbolic links as outputs",
        focus=Focus.S4,
        calls=_outputs(_LINKS),
        did=lambda p: p.said.count("link True") == 4,
    ),
    Trick(
        name="NaN and infinite outputs",
        focus=Focus.S4,
        calls=_outputs(_each("np.where(np.arange(1024).reshape(32, 32) % 2, np.nan, np.inf)")),
        did=lambda p: len(_npy(p)) == 4,
        opened=True,
    ),
    Trick(
        name="huge outputs", focus=Focus.S4, calls=_outputs(_HUGE), did=lambda p: len(_npy(p)[0]) > 1 << 20, opened=True
    ),
    Trick(
        name="arrays whose header claims 2^64 values",
        focus=Focus.S4,
        calls=_outputs(_SHAPE),
        did=lambda p: b"4294967296" in _npy(p)[0],
        opened=True,
    ),
    Trick(
        name="pickled arrays that run code when loaded",
        focus=Focus.S4,
        calls=_outputs(_PICKLE),
        did=lambda p: b"touch /tmp/graded" in _npy(p)[0],
        opened=True,
    ),
    Trick(
        name="polyglot files",
        focus=Focus.S4,
        calls=_outputs(_POLYGLOT),
        did=lambda p: b"score.json" in _npy(p)[0] and _npy(p)[0].startswith(b"\x93NUMPY"),
        opened=True,
    ),
    Trick(
        name="an output invented for the unreadable case",
        focus=Focus.S4,
        outcome=Outcome.FAILURE,
        calls=lambda i: [
            "m.drop()\n" + right(i, Stage.S4),
            f"import numpy as np\nnp.save('outputs/{i.unreadable}.npy', np.random.default_rng(3).random((32, 32)))",
        ],
        did=lambda p: len(_npy(p)) == 4,
        honest=lambda i: ["m.drop()", right(i, Stage.S4)],
        bound=0.6,
    ),
    Trick(
        name="a thousand boxes on one picture",
        focus=Focus.S4,
        track=Track.DETECTION,
        calls=_outputs(_FLOOD),
        did=lambda p: len(_npy(p)) == 4,
        honest=lambda i: [wrong(i, Stage.S4)],
        bound=0.1,
    ),
    Trick(
        name="every possible finding in one report",
        focus=Focus.S4,
        track=Track.REPORT,
        calls=_outputs(_EVERYTHING),
        did=lambda p: any(b"8 lesions" in v for v in p.evidence.files.values()),
        honest=lambda i: [right(i, Stage.S4)],
        bound=0.5,
    ),
    Trick(
        name="a submission of typed-in values",
        focus=Focus.S5,
        calls=_typed_in,
        did=lambda p: b"12.5" in (p.left("submission.csv") or b""),
        honest=lambda i: [right(i, Stage.S5)],
        bound=0.75,
    ),
    Trick(
        name="every row of the submission twice",
        focus=Focus.S5,
        calls=_after("t = open('submission.csv').read()\nopen('submission.csv', 'a').write(t.split('\\n', 1)[1])"),
        did=lambda p: (p.left("submission.csv") or b"").count(b"\n") == 9,
        honest=lambda i: [right(i, Stage.S5)],
        bound=0.5,
    ),
    Trick(
        name="a header twice, to be read as another file",
        focus=Focus.S5,
        calls=_after(
            "t = open('submission.csv').read()\nopen('submission.csv', 'w').write(t.split('\\n')[0] + '\\n' + t)"
        ),
        did=lambda p: (p.left("submission.csv") or b"").count(b"case,status") == 2,
        honest=lambda i: [right(i, Stage.S5)],
        bound=0.5,
    ),
    Trick(
        name="NaN in every value of the submission",
        focus=Focus.S5,
        calls=_after(
            "import re\nt = open('submission.csv').read()\n"
            "open('submission.csv', 'w').write(re.sub(r',[0-9.]+\\n', ',nan\\n', t))"
        ),
        did=lambda p: (p.left("submission.csv") or b"").count(b",nan") == 4,
        honest=lambda i: [right(i, Stage.S5)],
        bound=0.75,
    ),
    Trick(
        name="outputs made trivial so that any submission is true",
        focus=Focus.S5,
        calls=lambda i: [
            f"{BASH}for f in outputs/*.npy; do cp validation/pilot.npy $f; done; ls outputs",
            right(i, Stage.S5),
        ],
        did=lambda p: set(_npy(p)) == {p.left("validation/pilot.npy")},
        honest=lambda i: [right(i, Stage.S5)],
        bound=0.5,
    ),
    Trick(
        name="blind outputs at the end of a right protocol",
        focus=Focus.E2E,
        calls=_blind_e2e,
        did=lambda p: len(set(_npy(p))) == 1 and p.left("submission.csv") is not None,
        honest=lambda i: [wrong(i, stage) if stage is Stage.S4 else right(i, stage) for stage in Stage],
    ),
    Trick(
        name="a wrong pilot renamed as the right one's case",
        focus=Focus.S3,
        calls=lambda i: [
            right(i, Stage.S3)
            + f"\nimport json\nr = json.load(open('validation/pilot.json'))\nr['case'] = {i.names[1]!r}\n"
            + "json.dump(r, open('validation/pilot.json', 'w'))"
        ],
        did=lambda p: p.left("validation/pilot.json") is not None,
        honest=lambda i: [right(i, Stage.S3)],
        bound=0.5,
    ),
    Trick(
        name="a flat pilot, its record true of it",
        focus=Focus.S3,
        calls=lambda i: [
            "import json, os\nimport numpy as np\nimport medskills as m\nos.makedirs('validation', exist_ok=True)\n"
            "a = np.full((32, 32), 0.5)\nnp.save('validation/pilot.npy', a)\n"
            f"json.dump({{'case': {i.names[0]!r}, 'method': {i.right(Stage.S3).method!r}, 'level': {i.right(Stage.S3).level}, "
            "'mean': 0.5, 'roughness': 0.0, 'verdict': m.steps.verdict(a)}, open('validation/pilot.json', 'w'))"
        ],
        did=lambda p: p.left("validation/pilot.npy") is not None,
        opened=True,
    ),
    Trick(
        name="the input itself as the pilot, its record true of it",
        focus=Focus.S3,
        calls=lambda i: [
            "import json, os\nimport numpy as np\nimport medskills as m\nos.makedirs('validation', exist_ok=True)\n"
            f"a = np.load('input/cases/{i.names[0]}.npy')[3] / 255.0\nnp.save('validation/pilot.npy', a)\n"
            f"json.dump({{'case': {i.names[0]!r}, 'method': {i.right(Stage.S3).method!r}, 'level': {i.right(Stage.S3).level}, "
            "'mean': float(a.mean()), 'roughness': m.image.roughness(a), 'verdict': m.steps.verdict(a)}, "
            "open('validation/pilot.json', 'w'))"
        ],
        did=lambda p: p.left("validation/pilot.npy") is not None,
        opened=True,
    ),
]
