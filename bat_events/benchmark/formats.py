"""The published formats: the one place from which both the prompt and the graders take names, fields and items.

Everything that a grader checks is an entry of `ITEMS` or a line of `FILES`, and a prompt shows those of its stages.
Apart from its last three lines (what was seen, the card, what was found) a prompt depends on track and focus only.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from bat_events.benchmark.card import ATTRIBUTES, METHODS, MODALITIES, PROTOCOL, Card, right_choice
from bat_events.benchmark.skills.medskills import steps
from bat_events.benchmark.skills.medskills.image import UNITS
from bat_events.benchmark.tracks import TRACKS, TrackRules
from bat_events.domain.vocabulary import Focus, Outcome, Stage, Track

SYSTEM = (
    "You process medical images with one tool, execute_code. Files persist between calls, processes do not.\n"
    "Answer with one call a turn; end when the work is done."
)
WORK: Mapping[Stage, str] = {
    Stage.S1: "plan the cleaning",
    Stage.S2: "set up the decoding",
    Stage.S3: "validate on one pilot case",
    Stage.S4: "work the whole batch",
    Stage.S5: "hand in the submission",
}
# What the five choices of method are called, and what they are chosen by, in the protocol.
_CHOSEN: Mapping[Stage, str] = {
    Stage.S1: "cleaning", Stage.S2: "decoding", Stage.S3: "merging", Stage.S4: "pose", Stage.S5: "measure",
}  # fmt: skip
PLAN_FIELDS = frozenset({"method", "level", "cases"})
SETUP_FIELDS = PLAN_FIELDS | {"ranges"}
PILOT_FIELDS = frozenset({"case", "method", "level", "mean", "roughness", "verdict"})
RUN_FIELDS = PLAN_FIELDS
SUBMISSION_COLUMNS = ("case", "status", "measure", "unit", "value")
FAILED_COLUMNS = ("case", "reason")
MAX_BYTES = 65536
VALUE_TOLERANCE = 1e-3

FILES: Mapping[Stage, tuple[str, ...]] = {
    Stage.S1: ("plan/plan.json: method, level, cases = all readable cases in the request's order",),
    Stage.S2: ("setup/setup.json: method, level, cases as planned, ranges = {case: [lowest, highest stored value]}",),
    Stage.S3: (
        "validation/pilot.npy: first planned case, decoded, merged, cleaned; 32x32 floats in the scanner's frame",
        "validation/pilot.json: case, method, level, and of pilot.npy its mean, roughness, verdict",
        "roughness: mean absolute scipy.ndimage.laplace, mode nearest; numbers are right within 0.001",
        f"verdict: ok if {steps.RANGE_SHARE:.0%} of values in (-0.1, 1.1), roughness up to {steps.ROUGHNESS_LIMIT}, "
        "deviation over 0.02, else poor",
    ),
    Stage.S4: ("outputs/run.json: method, level, cases; the outputs of each of them and no others",),
    Stage.S5: (
        "submission.csv: case,status,measure,unit,value; each case of the request once",
        "value: measure of what is over 0.5 in the output (area, columns, rows, edges), right within 0.001",
        "units: px; mm (0.8 a pixel, area 0.64); pct of the image (edge: of 2048)",
        "status: done, or failed with an empty value for declared cases",
    ),
}
GENERAL = (
    "failed.csv: case,reason; exactly the unreadable cases",
    f"files under {MAX_BYTES} bytes; arrays as version 1 .npy; inputs stay unchanged",
    "m.drop() declares unreadable cases, m.scan() renews worklist.csv",
    "seen: the mean stored value of each case; card: modality, artefact, strength, detail",
)
FITNESS = (
    "fitness 0 is what a blind choice or a flat image reaches, 1 the best choice; "
    "a fitting method at a wrong level counts 0.35",
    "each check counts times fitness, but at least a tenth of itself",
    "a stage counts as the call left it that exited 0; flat or copied images are none; earlier records must stay",
)
FITNESS_OF: Mapping[Stage, str] = {
    Stage.S1: "fitness: SSIM of all cases restored with this plan, all else right",
    Stage.S2: "fitness: SSIM of all cases restored with this plan and setup",
    Stage.S3: "fitness: SSIM of pilot.npy with the clean scan",
    Stage.S4: "fitness: the task's metric of the outputs",
    Stage.S5: "fitness: measure and unit of the protocol, times that of the outputs (at least 0.35)",
}
# item -> what it checks; `_made` items need a call that exited 0 and wrote the file.
ITEMS: Mapping[Stage, Mapping[str, str]] = {
    Stage.S1: {
        "plan_made": "a successful call wrote a valid plan.json",
        "plan_cases": "it lists the readable cases exactly",
        "plan_choice": "its fitness",
    },
    Stage.S2: {
        "setup_made": "a successful call wrote a valid setup.json",
        "setup_true": "its cases and ranges are those of the readable cases",
        "setup_choice": "its fitness",
    },
    Stage.S3: {
        "pilot_made": "a successful call wrote a valid pilot.npy of the first readable case",
        "pilot_first": "that was before any output was written",
        "pilot_record": "pilot.json is true of pilot.npy",
        "pilot_choice": "its fitness",
    },
    Stage.S4: {
        "outputs_made": "a successful call wrote outputs",
        "outputs_exact": "one valid output for each readable case, no others",
        "run_record": "run.json is valid and lists them",
        "outputs_choice": "their fitness",
    },
    Stage.S5: {
        "submission_made": "a successful call wrote submission.csv",
        "submission_exact": "exact columns, cases, status and words",
        "submission_values": "values are those of valid outputs",
        "submission_choice": "its fitness",
    },
}
REPAIRED: Mapping[Focus, tuple[str, str]] = {
    Focus.S1: ("worklist_repaired", "worklist.csv lists the request's cases in order"),
    Focus.S2: ("plan_repaired", "the plan's fitness is 0.9 or more"),
    Focus.S3: ("setup_repaired", "the setup's fitness is 0.9 or more"),
    Focus.S4: ("pilot_repaired", "the pilot's fitness is 0.9 or more"),
    Focus.S5: ("outputs_repaired", "the outputs' fitness is 0.9 or more"),
    Focus.E2E: ("worklist_repaired", "worklist.csv lists the request's cases in order"),
}
DECLARED = ("failure_declared", "failed.csv lists the unreadable cases exactly")
_FAULT: Mapping[Focus, str] = {
    Focus.S1: "found: worklist.csv doubles one case and lacks another",
    Focus.S2: "found: the plan does not fit the card",
    Focus.S3: "found: the setup does not fit the card",
    Focus.S4: "found: the pilot was worked wrongly",
    Focus.S5: "found: the outputs lie in a wrong pose",
    Focus.E2E: "found: worklist.csv doubles one case and lacks another",
}


def found(focus: Focus, outcome: Outcome) -> str:
    """What the state shows of its outcome, in one line."""
    if outcome is Outcome.SUCCESS:
        return "found: nothing wrong"
    return "found: one case is unreadable" if outcome is Outcome.FAILURE else _FAULT[focus]


@cache
def protocol_lines(stage: Stage) -> tuple[str, ...]:
    """The protocol of a stage: which method and which level undo what the card says, by name for every value."""
    lines = []
    for name, table in zip(("method", "level"), PROTOCOL[stage], strict=True):
        cells = []
        for value in ATTRIBUTES[table.attribute]:
            card = Card(**({key: options[0] for key, options in ATTRIBUTES.items()} | {table.attribute: value}))
            choice = right_choice(card, stage)
            cells.append(f"{value} {choice.method if name == 'method' else choice.level}")
        lines.append(f"{_CHOSEN[stage]} {name} by {table.attribute}: {', '.join(cells)}")
    return tuple(lines)


def stage_lines(stage: Stage) -> list[str]:
    """Everything published about one stage but the protocol."""
    calls = ", ".join(f"m.{method}(level)" for method in METHODS[stage])
    levels = ", ".join(f"{place + 1} {unit}" for place, unit in enumerate(UNITS)) if stage is Stage.S5 else "1, 2, 3"
    return [
        f"work: {WORK[stage]}: {calls}; levels {levels}",
        *FILES[stage],
        *(f"check {item}: {text}" for item, text in ITEMS[stage].items()),
        FITNESS_OF[stage],
    ]


def static_lines(rules: TrackRules, focus: Focus) -> list[str]:
    """The part of a prompt that depends on track and focus only."""
    return list(_static_lines(rules.track, focus))


@cache
def _static_lines(track: Track, focus: Focus) -> tuple[str, ...]:
    rules = TRACKS[track]
    lines = [
        f"track: {rules.track.value}",
        rules.goal,
        "skills: module medskills, bound to m; its help says what each call does",
    ]
    for stage in Stage:
        if stage in focus.stages:
            lines += stage_lines(stage)
        if stage is Stage.S4 and focus in (Focus.S4, Focus.S5, Focus.E2E):
            lines += rules.output
    needed = [stage for stage in Stage if stage in focus.stages]
    if focus not in (Focus.E2E, Focus.S1):  # a wrong earlier artefact may have to be made again
        needed.insert(0, list(Stage)[list(Stage).index(needed[0]) - 1])
    for stage in needed:
        lines += protocol_lines(stage)
    lines += [*GENERAL, *FITNESS]
    item, text = REPAIRED[focus]
    lines += [f"check {item}, after a fault: {text}", f"check {DECLARED[0]}, after a failure: {DECLARED[1]}"]
    if focus is Focus.E2E:
        lines.append(f"task score: {rules.metric_name} over readable cases; 0 unless the submission is exact and true")
    return tuple(lines)


_RULE_WORDS = (
    "readable", "unreadable", "exact", "exactly", "first", "largest", "least", "best", "blind", "flat", "wrong", "right",
    "valid", "successful", "brighter", "darker", "before", "after", "lesion", "goal", "fitness", "check", "plan", "setup",
    "pilot", "outputs", "submission", "inputs", "seen", "card", "skills", "work",
)  # fmt: skip


@cache
def prose_lines(rules: TrackRules, focus: Focus) -> tuple[str, ...]:
    """The lines of a prompt that say a rule in a sentence and stand in input/TASK.md as well; no format, no table."""
    sentences = {
        rules.goal,
        *GENERAL,
        *FITNESS,
        *FITNESS_OF.values(),
        *(line for stage in Stage for line in stage_lines(stage) if line.startswith(("work: ", "check "))),
    }
    whole = static_lines(rules, Focus.E2E)
    return tuple(line for line in static_lines(rules, focus) if line in sentences and line in whole)


@cache
def terms(rules: TrackRules) -> frozenset[str]:
    """The words of the published rules whose meaning is fixed."""
    words = [rules.track.value, *_RULE_WORDS, *ATTRIBUTES, *UNITS, *SUBMISSION_COLUMNS, *FAILED_COLUMNS]
    words += [value for values in ATTRIBUTES.values() for value in values]
    words += [method for methods in METHODS.values() for method in methods]
    words += sorted(SETUP_FIELDS | PILOT_FIELDS)
    return frozenset(words)


def prompt(rules: TrackRules, focus: Focus, outcome: Outcome, card: Card, seen: Sequence[int]) -> str:
    """The user message of a task; `seen` is the mean stored value of each case, rounded."""
    lines = [*static_lines(rules, focus), f"seen: {' '.join(map(str, seen))}", card.line(), found(focus, outcome)]
    return "\n".join(lines)


def task_text(rules: TrackRules) -> str:
    """input/TASK.md: the formats of all stages of a track."""
    lines = [f"# {rules.track.value}", "", *static_lines(rules, Focus.E2E), "", f"modalities: {', '.join(MODALITIES)}"]
    lines += [f"{attribute}: {', '.join(values)}" for attribute, values in ATTRIBUTES.items()]
    return "\n".join(lines) + "\n"
