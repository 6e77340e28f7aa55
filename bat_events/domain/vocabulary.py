"""The closed words of the system: the same names in code, schemas, command line and documents.

Every enum here is closed by design: adding a member is a schema change (see docs/events.md). Open sets, such as
reasons, are plain strings in events and never enums. Failures are open strings too, except across the evaluation
boundary, where only a `FailureCode` passes.
"""

from enum import StrEnum


class Stage(StrEnum):
    """A stage of the staged benchmark, in the order of work."""

    S1 = "S1"  # plan
    S2 = "S2"  # setup
    S3 = "S3"  # validate
    S4 = "S4"  # infer
    S5 = "S5"  # submit


class FailureCode(StrEnum):
    """AutoMedBench's failure codes: what kind of thing went wrong in a stage."""

    E1 = "E1"  # hallucinated resource: a package, path or model that does not exist
    E2 = "E2"  # time or resources: a limit ended the work
    E3 = "E3"  # logic or no work: the wrong thing was done, or nothing
    E4 = "E4"  # exception: the code stopped with an error
    E5 = "E5"  # format: the work is there, in a form that does not count

    @property
    def meaning(self) -> str:
        """The code in words, for people."""
        return _MEANINGS[self]


_MEANINGS = {
    FailureCode.E1: "hallucinated resource",
    FailureCode.E2: "time or resources",
    FailureCode.E3: "logic or no work",
    FailureCode.E4: "exception",
    FailureCode.E5: "format",
}


class Focus(StrEnum):
    """What a practice state asks for: one stage, or the whole task end to end."""

    S1 = "S1"
    S2 = "S2"
    S3 = "S3"
    S4 = "S4"
    S5 = "S5"
    E2E = "E2E"

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that a rollout of this focus is graded on, in order."""
        return tuple(Stage) if self is Focus.E2E else (Stage(self.value),)


class Track(StrEnum):
    """A medical-imaging track of the benchmark."""

    CLASSIFICATION = "classification"
    SYNTHESIS = "synthesis"
    DETECTION = "detection"
    SEGMENTATION = "segmentation"
    VQA = "vqa"
    REPORT = "report"
    ENHANCEMENT = "enhancement"


class Outcome(StrEnum):
    """The condition that a practice state holds: nothing wrong, a fault to recover from, or a failure to own up to."""

    SUCCESS = "success"
    RECOVERY = "recovery"
    FAILURE = "failure"


class Pool(StrEnum):
    """The three pools that a GRPO step draws its groups from."""

    S_TARGET = "s_target"
    S_MIX = "s_mix"
    E2E = "e2e"


class Split(StrEnum):
    """Which plane an instance belongs to; images of one split never occur in another."""

    PRACTICE = "practice"
    HELDOUT = "heldout"
    CONFIRMATION = "confirmation"
