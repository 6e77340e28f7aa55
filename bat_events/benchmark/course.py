"""The course of work of an instance: the right steps from its starting point, and the workspace that it starts from."""

import json
from collections.abc import Sequence
from typing import Literal

from bat_events.benchmark.actions import DROP, SCAN, action
from bat_events.benchmark.card import Choice
from bat_events.benchmark.instance import Instance, random_source
from bat_events.benchmark.runner import run_snippet
from bat_events.benchmark.skills.medskills import store
from bat_events.domain.vocabulary import Focus, Outcome, Stage

Mend = Literal["scan", "drop"]
Step = Mend | tuple[Stage, Choice]
STAGES = tuple(Stage)


def before(focus: Focus) -> tuple[Stage, ...]:
    """The stages that lie behind a state of this focus."""
    return () if focus is Focus.E2E else STAGES[: STAGES.index(Stage(focus.value))]


def right_steps(instance: Instance) -> list[Step]:
    """What a perfect policy does, one step a turn."""
    focus, outcome = instance.key.focus, instance.key.outcome
    behind = before(focus)
    first: list[Step] = []
    if outcome is Outcome.FAILURE:
        first = ["drop"]
    elif outcome is Outcome.RECOVERY:
        first = [(behind[-1], instance.right(behind[-1]))] if behind else ["scan"]
    return first + [(stage, instance.right(stage)) for stage in focus.stages]


def source(step: Step) -> str:
    """The snippet of a step."""
    if isinstance(step, str):
        return SCAN if step == "scan" else DROP
    return action(step[1])


def inputs(instance: Instance, task_text: str) -> dict[str, bytes]:
    """The read-only inputs, the unreadable case cut short."""
    card = instance.card
    request = {
        "track": instance.key.track.value,
        "card": {
            "modality": card.modality, "artefact": card.artefact, "strength": card.strength, "detail": card.detail,
        },
        "cases": instance.names,
    }  # fmt: skip
    questions = {case.name: case.reference.question for case in instance.request.cases if case.reference.question}
    if questions:
        request["questions"] = questions
    files: dict[str, bytes] = {}
    with store.using(files, []):
        for case in instance.request.cases:
            store.write_array(f"in/{case.name}.npy", case.raw)
    out = {f"input/cases/{path[3:]}": content for path, content in files.items()}
    if instance.unreadable is not None:
        path = f"input/cases/{instance.unreadable}.npy"
        out[path] = out[path][: len(out[path]) * 3 // 5]
    out["input/request.json"] = (json.dumps(request, sort_keys=True) + "\n").encode()
    out["input/TASK.md"] = task_text.encode()
    return out


def _worklist(names: Sequence[str]) -> bytes:
    return ("case\n" + "".join(f"{name}\n" for name in names)).encode()


def start(instance: Instance, given: dict[str, bytes]) -> dict[str, bytes]:
    """The writable workspace at the stage boundary: what the earlier stages left, with the planted fault if any."""
    focus, outcome, names = instance.key.focus, instance.key.outcome, instance.names
    behind = before(focus)
    files: dict[str, bytes] = {**given, "worklist.csv": _worklist(names)}
    if instance.unreadable is not None:  # earlier stages were done while the file was still whole
        case = next(case for case in instance.request.cases if case.name == instance.unreadable)
        whole: dict[str, bytes] = {}
        with store.using(whole, []):
            store.write_array("raw", case.raw)
        files[f"input/cases/{case.name}.npy"] = whole["raw"]
    for stage in behind:
        faulty = outcome is Outcome.RECOVERY and stage is behind[-1]
        choice = instance.wrong(stage, "fault") if faulty else instance.right(stage)
        ran = run_snippet(action(choice), files)
        if ran.exit_code:
            raise AssertionError(f"starting workspace of {instance.key}: {stage} stopped: {ran.stderr}")
    if outcome is Outcome.RECOVERY and not behind:
        doubled, lost = (
            int(n) for n in random_source("worklist", instance.key.seed).choice(len(names), 2, replace=False)
        )
        files["worklist.csv"] = _worklist(
            [names[doubled] if place == lost else name for place, name in enumerate(names)]
        )
    if outcome is Outcome.FAILURE and focus is Focus.S5 and instance.unreadable is not None:
        # the batch stopped at the unreadable case and went on without it
        for ending in ("npy", "json"):
            files.pop(f"outputs/{instance.unreadable}.{ending}", None)
        record = json.loads(files["outputs/run.json"])
        record["cases"].remove(instance.unreadable)
        files["outputs/run.json"] = (json.dumps(record, sort_keys=True) + "\n").encode()
    return {path: content for path, content in files.items() if not path.startswith("input/")}
