"""One rollout's evidence read beside the truth of its instance: who made what, how fit it is, which checks hold.

Nothing here trusts a word of the workspace: choices are measured again on the cases, records are held against the files,
and who made a file against the receipts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bat_events.benchmark import products
from bat_events.benchmark.acquisition import hand_in
from bat_events.benchmark.card import Choice
from bat_events.benchmark.formats import VALUE_TOLERANCE
from bat_events.benchmark.instance import Instance, Scale, restored_quality, scale
from bat_events.benchmark.interface import Evidence
from bat_events.benchmark.metrics import ssim
from bat_events.benchmark.skills.medskills import answers, steps
from bat_events.benchmark.skills.medskills import image as skill
from bat_events.benchmark.tracks import Output
from bat_events.domain.vocabulary import Focus, Stage

METHOD_SHARE = 0.35  # of a fitting method at a wrong level
REPAIR_BAR = 0.9


def is_output(path: str) -> bool:
    return path.startswith("outputs/") and path.endswith(".npy")


@dataclass(frozen=True)
class Inspection:
    """One rollout's evidence beside the truth of its instance."""

    instance: Instance
    evidence: Evidence

    # -- who made what ------------------------------------------------------------------------------------------------

    def made_by(self, wanted: Callable[[str], bool]) -> int | None:
        """Index of the last call that exited 0 and left one of the wanted files."""
        for receipt in reversed(self.evidence.receipts):
            if receipt.exit_code == 0 and any(c.after is not None and wanted(c.path) for c in receipt.changes):
                return receipt.index
        return None

    def made(self, stage: Stage) -> int | None:
        if stage is Stage.S4:
            return self.made_by(is_output)
        path = {
            Stage.S1: "plan/plan.json",
            Stage.S2: "setup/setup.json",
            Stage.S3: "validation/pilot.npy",
            Stage.S5: "submission.csv",
        }[stage]
        return self.made_by(lambda changed: changed == path)

    @cached_property
    def pilot_first(self) -> int | None:
        """Index of a call that left the pilot before any call touched an output."""
        for receipt in self.evidence.receipts:
            if any(is_output(change.path) for change in receipt.changes):
                return None
            left = any(c.path == "validation/pilot.npy" and c.after is not None for c in receipt.changes)
            if left and receipt.exit_code == 0:
                return receipt.index
        return None

    # -- products -----------------------------------------------------------------------------------------------------

    @cached_property
    def readable(self) -> list[str]:
        return [case.name for case in self.instance.readable]

    @cached_property
    def records(self) -> dict[Stage, products.Record | None]:
        return {stage: products.stage_record(self.evidence.files, stage) for stage in list(Stage)[:4]}

    @cached_property
    def pilot(self) -> products.Array | None:
        return products.array(self.evidence.files.get("validation/pilot.npy"))

    @cached_property
    def outputs(self) -> dict[str, Output | None]:
        """Outputs by case; None where one is not as published (wrong values, one value only, no valid answer)."""
        return {name: self._output(name, value) for name, value in products.outputs(self.evidence.files).items()}

    def _output(self, name: str, value: products.Array | None) -> Output | None:
        rules = self.instance.rules
        if value is None or not rules.permitted(value) or not float(np.ptp(value)) > 0:
            return None
        if rules.parse is None:
            return Output(array=value)
        field = answers.FIELDS[rules.track.value]
        parsed = rules.parse(products.answer(self.evidence.files.get(f"outputs/{name}.json"), field))
        return None if parsed is None else Output(array=value, answer=parsed)

    @cached_property
    def outputs_exact(self) -> bool:
        return set(self.outputs) == set(self.readable) and all(value is not None for value in self.outputs.values())

    @cached_property
    def task_metric(self) -> float:
        """The track's metric, a missing or invalid output counting 0."""
        return self.instance.rules.metric(
            [(self.outputs.get(case.name), case.reference) for case in self.instance.readable]
        )

    # -- fitness ------------------------------------------------------------------------------------------------------

    def choice(self, stage: Stage) -> Choice | None:
        found = self.records[stage]
        return None if found is None else found.choice

    def _scaled(self, stage: Stage, quality: float, recorded: Choice | None) -> float:
        """Fitness of a product of this quality; the recorded method counts only where it is the best one's."""
        known: Scale = scale(self.instance, stage)
        fits = recorded is not None and recorded.method == self.instance.right(stage).method
        return max(known.fitness(quality), METHOD_SHARE if fits else 0.0)

    @cached_property
    def plan_fitness(self) -> float:
        plan = self.choice(Stage.S1)
        if plan is None:
            return 0.0
        right = self.instance.right
        return self._scaled(
            Stage.S1, restored_quality(self.instance, plan, right(Stage.S2), right(Stage.S3), False), plan
        )

    @cached_property
    def setup_fitness(self) -> float:
        plan, setup = self.choice(Stage.S1), self.choice(Stage.S2)
        if plan is None or setup is None:
            return 0.0
        return self._scaled(
            Stage.S2, restored_quality(self.instance, plan, setup, self.instance.right(Stage.S3), False), setup
        )

    @cached_property
    def pilot_fitness(self) -> float:
        if self.pilot is None or not self.readable:
            return 0.0
        quality = ssim(self.pilot, self.instance.readable[0].scan)
        return self._scaled(Stage.S3, quality, self.choice(Stage.S3) if self._pilot_derives() else None)

    def _pilot_derives(self) -> bool:
        """Whether the recorded choices make this pilot: only then the record of a method is worth something."""
        plan, setup, merged = (self.choice(stage) for stage in (Stage.S1, Stage.S2, Stage.S3))
        if self.pilot is None or plan is None or setup is None or merged is None:
            return False
        values = skill.decode(self.instance.readable[0].raw, *setup)
        again = skill.clean(skill.merge(values, *merged), *plan)
        return bool(np.allclose(again, self.pilot, atol=0.01))

    @cached_property
    def outputs_fitness(self) -> float:
        if not self.outputs_exact:
            return 0.0
        return self._scaled(Stage.S4, self.task_metric, self.choice(Stage.S4) if self._outputs_derive() else None)

    def _outputs_derive(self) -> bool:
        plan, setup, merged, posed = (self.choice(stage) for stage in list(Stage)[:4])
        if plan is None or setup is None or merged is None or posed is None:
            return False
        for case in self.instance.readable:
            restored = skill.clean(skill.merge(skill.decode(case.raw, *setup), *merged), *plan)
            again = hand_in(self.instance.rules, restored, posed, case)
            output = self.outputs[case.name]
            if output is None or output.answer != again.answer or not np.allclose(again.array, output.array, atol=0.01):
                return False
        return True

    @cached_property
    def submission_fitness(self) -> float:
        rows = products.submission(self.evidence.files)
        right = self.instance.right(Stage.S5)
        if not rows or any(row["measure"] != right.method for row in rows):
            return 0.0
        unit = skill.UNITS[right.level - 1]
        chosen = 1.0 if all(row["unit"] == unit for row in rows) else METHOD_SHARE
        return chosen * max(METHOD_SHARE, self.outputs_fitness)

    def fitness(self, stage: Stage) -> float:
        return {
            Stage.S1: lambda: self.plan_fitness,
            Stage.S2: lambda: self.setup_fitness,
            Stage.S3: lambda: self.pilot_fitness,
            Stage.S4: lambda: self.outputs_fitness,
            Stage.S5: lambda: self.submission_fitness,
        }[stage]()

    # -- checks -------------------------------------------------------------------------------------------------------

    def checks(self, stage: Stage) -> dict[str, bool]:
        """The checks of formats.ITEMS but the choice."""
        made = self.made(stage) is not None
        found = self.records.get(stage)
        if stage is Stage.S1:
            return {"plan_made": made and found is not None, "plan_cases": self._lists_readable(found)}
        if stage is Stage.S2:
            return {"setup_made": made and found is not None, "setup_true": self._setup_true(found)}
        if stage is Stage.S3:
            return {
                "pilot_made": made and self.pilot is not None and self._pilot_case(found),
                "pilot_first": self.pilot_first is not None and self.pilot is not None,
                "pilot_record": self._pilot_record(found),
            }
        if stage is Stage.S4:
            return {
                "outputs_made": made,
                "outputs_exact": self.outputs_exact,
                "run_record": self._lists_readable(found) and self.outputs_exact,
            }
        rows = products.submission(self.evidence.files)
        return {
            "submission_made": made and rows is not None,
            "submission_exact": self.submission_exact,
            "submission_values": self.submission_values,
        }

    def _lists_readable(self, found: products.Record | None) -> bool:
        return found is not None and products.cases(found.fields) == self.readable

    def _setup_true(self, found: products.Record | None) -> bool:
        if found is None or not self._lists_readable(found):
            return False
        truth = {case.name: [int(case.raw.min()), int(case.raw.max())] for case in self.instance.readable}
        return bool(found.fields["ranges"] == truth)

    def _pilot_case(self, found: products.Record | None) -> bool:
        return found is not None and found.fields["case"] == self.readable[0]

    def _pilot_record(self, found: products.Record | None) -> bool:
        if found is None or self.pilot is None or not self._pilot_case(found):
            return False
        mean, rough = products.number(found.fields["mean"]), products.number(found.fields["roughness"])
        return (
            mean is not None
            and abs(mean - float(self.pilot.mean())) <= VALUE_TOLERANCE
            and rough is not None
            and abs(rough - skill.roughness(self.pilot)) <= VALUE_TOLERANCE
            and found.fields["verdict"] == steps.verdict(self.pilot)
        )

    @cached_property
    def submission_exact(self) -> bool:
        rows = products.submission(self.evidence.files)
        if rows is None or sorted(row["case"] for row in rows) != sorted(self.instance.names):
            return False
        words = {(row["measure"], row["unit"]) for row in rows}
        failed = {row["case"] for row in rows if row["status"] == "failed"}
        return (
            len(words) == 1
            and all(measure in skill.MEASURES and unit in skill.UNITS for measure, unit in words)
            and all(row["status"] in ("done", "failed") for row in rows)
            and failed == set(self.instance.names) - set(self.readable)
            and all((row["value"] == "") == (row["status"] == "failed") for row in rows)
        )

    @cached_property
    def submission_values(self) -> bool:
        rows = products.submission(self.evidence.files)
        if not rows or not self.submission_exact or not self.outputs_exact:
            return False
        for row in rows:
            output = self.outputs.get(row["case"])
            if output is None:
                continue
            value = products.number(row["value"])
            if value is None or abs(value - skill.measure(output.array, row["measure"], row["unit"])) > VALUE_TOLERANCE:
                return False
        return True

    @property
    def task_done(self) -> bool:
        """Whether the submission is exact and follows from the outputs."""
        return self.submission_exact and self.submission_values

    def mended_by(self, focus: Focus) -> int | None:  # noqa: ARG002
        """The call that mended the planted fault; rubric 1 does not ask."""
        return None

    @property
    def declared_by(self) -> int | None:
        """The call that declared the failure; rubric 1 does not ask."""
        return None

    @property
    def earlier_gone(self) -> bool:
        """Whether artefacts of earlier stages are gone; rubric 1 does not ask."""
        return False

    def mended(self, focus: Focus) -> bool:
        """Whether the planted fault of a recovery state is gone."""
        if focus in (Focus.S1, Focus.E2E):
            return products.worklist(self.evidence.files) == self.instance.names
        bar = {
            Focus.S2: lambda: self.plan_fitness,
            Focus.S3: lambda: self.setup_fitness,
            Focus.S4: lambda: self.pilot_fitness,
            Focus.S5: lambda: self.outputs_fitness,
        }[focus]()
        return bar >= REPAIR_BAR

    @property
    def declared_exactly(self) -> bool:
        return sorted(products.declared(self.evidence.files)) == sorted(set(self.instance.names) - set(self.readable))
