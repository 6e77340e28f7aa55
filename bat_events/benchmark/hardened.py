"""Rubric 2: an inspection under which nothing scores that no receipt proves.

What is new against rubric 1, which stays for campaigns that pin it: a stage's product counts only as the call left it that
exited 0; a pilot must be the final one, made before any output; flat, copied and repeated products are none; the artefacts
of earlier stages must still be there; a repaired fault and a declared failure need their call, too.
"""

from functools import cached_property

from bat_events.benchmark import products
from bat_events.benchmark.course import before
from bat_events.benchmark.degenerate import copies_input, flat, repeated
from bat_events.benchmark.inspection import Inspection, is_output
from bat_events.benchmark.proofs import last_change, left_by, succeeded, touched
from bat_events.benchmark.tracks import Output
from bat_events.domain.vocabulary import Focus, Stage

_PRODUCT = {
    Stage.S1: "plan/plan.json",
    Stage.S2: "setup/setup.json",
    Stage.S3: "validation/pilot.npy",
    Stage.S5: "submission.csv",
}


class HardenedInspection(Inspection):
    """See the module. Not for use with other evidence than it was made of: everything is worked out once."""

    # -- who made what ------------------------------------------------------------------------------------------------

    def _left(self, path: str) -> int | None:
        return left_by(self.evidence.receipts, self.evidence.files, path)

    def made(self, stage: Stage) -> int | None:
        """Index of the call that exited 0 and left the stage's product as it is."""
        return self._outputs_left if stage is Stage.S4 else self._left(_PRODUCT[stage])

    @cached_property
    def _outputs_left(self) -> int | None:
        """The last successful call that changed an output or its record.

        An output that a failing call left takes the proof away, unless it is what the records make: then another call
        made it again, and left the same bytes.
        """
        receipts, files = self.evidence.receipts, self.evidence.files
        paths = [path for path in files if path.startswith("outputs/")]
        if not any(is_output(path) for path in paths):
            return None
        changed = [found for path in paths if (found := last_change(receipts, path)) is not None]
        unproved = [path for path in paths if touched(receipts, path) and self._left(path) is None]
        if "outputs/run.json" in unproved or (unproved and not (self.outputs_exact and self._outputs_derive())):
            return None
        return max((receipt.index for receipt, _ in changed if succeeded(receipt)), default=None)

    @cached_property
    def pilot_first(self) -> int | None:
        """Index of the call that left the pilot as it is, if no call up to it touched an output."""
        made = self.made(Stage.S3)
        if made is None:
            return None
        until = [receipt for receipt in self.evidence.receipts if receipt.index <= made]
        return None if any(is_output(c.path) for receipt in until for c in receipt.changes) else made

    # -- products -----------------------------------------------------------------------------------------------------

    @cached_property
    def pilot(self) -> products.Array | None:
        """The pilot, None where it is flat or a copy of a stored frame."""
        pilot = products.array(self.evidence.files.get("validation/pilot.npy"))
        if pilot is None or flat(pilot) or not self.readable:
            return None
        return None if copies_input(pilot, self.instance.readable[0].raw) else pilot

    @cached_property
    def outputs(self) -> dict[str, Output | None]:
        """Outputs by case; None where one is not as published, flat, a copy of its input or of another case's."""
        raw = {case.name: case.raw for case in self.instance.readable}
        found = {name: self._output(name, value) for name, value in products.outputs(self.evidence.files).items()}
        same = repeated({name: output.array for name, output in found.items() if output is not None})

        def valid(name: str, output: Output | None) -> bool:
            if output is None or name in same or flat(output.array):
                return False
            return name not in raw or not copies_input(output.array, raw[name])

        return {name: output if valid(name, output) else None for name, output in found.items()}

    # -- checks -------------------------------------------------------------------------------------------------------

    def checks(self, stage: Stage) -> dict[str, bool]:
        """Those of rubric 1; nothing holds of a stage whose product is no product or was left by no successful call."""
        held = super().checks(stage)
        if stage is Stage.S4:
            held["outputs_made"] = held["outputs_made"] and any(output is not None for output in self.outputs.values())
        product = next(iter(held))
        return held if held[product] else dict.fromkeys(held, False)

    def mended(self, focus: Focus) -> bool:
        return self.mended_by(focus) is not None and super().mended(focus)

    def mended_by(self, focus: Focus) -> int | None:
        """The call that left what was faulty as it is now."""
        if focus in (Focus.S1, Focus.E2E):
            return self._left("worklist.csv")
        return self.made(before(focus)[-1])

    @property
    def declared_exactly(self) -> bool:
        return self.declared_by is not None and super().declared_exactly

    @property
    def declared_by(self) -> int | None:
        """The call that left failed.csv."""
        return self._left("failed.csv")

    @property
    def earlier_gone(self) -> bool:
        """Whether a record that the rollout started from is gone or no longer in the published format."""
        return any(self.records[stage] is None for stage in before(self.instance.key.focus) if stage is not Stage.S5)

    @property
    def task_done(self) -> bool:
        """Whether outputs and submission are exact, true of each other, and left by calls that exited 0."""
        proved = self.made(Stage.S4) is not None and self.made(Stage.S5) is not None
        return proved and self.submission_exact and self.submission_values
