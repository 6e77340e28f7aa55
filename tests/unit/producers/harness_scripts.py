"""Harnesses as real scripts: what each does to the command contract stands in its name. All are run as processes."""

import json
import sys
from pathlib import Path

HEAD = """
import json, os, subprocess, sys, time
checkpoint, request_path, output = sys.argv[1:4]
request = json.load(open(request_path))

def cell(track, repeat):
    # Uneven on purpose: a track's score and failures are a function of its place.
    place = request["tracks"].index(track)
    score = (place + 1) / 4 + repeat / 100
    return {
        "track": track, "task_id": track + "-lite", "repeat": repeat, "valid": True, "task_score": score,
        "stages": {"S1": score, "S2": score, "S3": score, "S4": score, "S5": None if place else score},
        "failures": ["S3:E8"] if repeat == 0 else [], "turns": 3,
    }

def reply(**changes):
    made = {
        "schema": 1, "status": "complete", "request": request["request"],
        "checkpoint": request["checkpoint"]["digest"], "protocol": request["protocol"],
        "cells": [cell(t, r) for t in request["tracks"] for r in range(request["repeats"])],
    }
    made.update(changes)
    return made

def write(value):
    with open(output, "w") as file:
        json.dump(value, file)
"""

SCRIPTS = {
    "good": "print('progress 1/4'); print('progress 4/4', flush=True); write(reply())",
    "telling": "print('gold\\nprogress 3/70\\nprogress gold/70', flush=True)\n"
    "while not os.path.exists(os.environ['GO']): time.sleep(0.05)\nwrite(reply())",
    "crashing": "print('the gold answer is 3'); sys.exit(3)",
    "killed": "import signal; os.kill(os.getpid(), signal.SIGKILL)",
    "silent": "pass",
    "garbage": "open(output, 'wb').write(b'\\xff\\x00 nothing')",
    "not_json": "open(output, 'w').write('complete')",
    "empty_list": "write([])",
    "huge_reply": "open(output, 'w').write('[' + '0,' * (9 << 20) + '0]')",
    "huge_log": "sys.stdout.write('x' * (5 << 20)); sys.stdout.write('last words'); sys.stdout.flush(); write(reply())",
    "pipe": "os.mkfifo(output)",
    "link": "os.symlink(request_path, output)",
    "folder": "os.mkdir(output)",
    "wrong_checkpoint": "write(reply(checkpoint='0' * 64))",
    "wrong_request": "write(reply(request='0' * 32))",
    "half": "write(reply(cells=reply()['cells'][1:]))",
    "one_invalid": "r = reply(); r['cells'][1].update(valid=False, detail='the GPU was lost'); write(r)",
    "most_invalid": "r = reply(); [c.update(valid=False) for c in r['cells'][1:]]; write(r)",
    "environment": "json.dump({'env': dict(os.environ), 'cwd': os.getcwd(), 'argv': sys.argv[1:],"
    " 'files': sorted(os.listdir(checkpoint))}, open(os.environ['SEEN'], 'w')); write(reply())",
    "meddling": "open(os.path.join(checkpoint, 'weights.json'), 'w').write('spoilt'); write(reply())",
    # Children: one in the group, one in a session of its own; both would live for ten minutes.
    "hanging": "children = [subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
    " start_new_session=own) for own in (False, True)]; print(*[c.pid for c in children], flush=True); time.sleep(600)",
    "deaf": "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
    "leaving": "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True);"
    " write(reply())",
    "second_time": "n = os.environ['COUNT']; first = not os.path.exists(n); open(n, 'a').write('x');"
    " sys.exit(1) if first else write(reply())",
}


def command(folder: Path, name: str, *more: str) -> tuple[str, ...]:
    """The argv of a harness, its script written into `folder`."""
    path = folder / f"{name}.py"
    path.write_text(HEAD + SCRIPTS[name] + "\n")
    return (sys.executable, "-E", "-S", str(path), "{checkpoint}", "{request}", "{output}", *more)


def seen(path: Path) -> dict[str, object]:
    """What the harness called environment saw."""
    found: dict[str, object] = json.loads(path.read_text())
    return found
