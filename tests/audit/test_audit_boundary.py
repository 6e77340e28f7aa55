"""Given one planted crossing, `audit boundary` finds it, says where, and ends with 1; of a sound campaign it finds none."""

import base64
import dataclasses
import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_log import CANDIDATE, START, Ask, digest, ident
from boundary_scene import CANARY, IMAGE, KEY, Scene, crossed, files, gone, header, heldout, on, quote, row, unseen

from bat_events.audit.boundary import QUESTIONS, AccessRules, report
from bat_events.audit.denied import DeniedAccess, DeniedAccesses
from bat_events.audit.file import AuditFile
from bat_events.audit.materialiser import Materialiser
from bat_events.audit.schema import sql_files
from bat_events.codec import Codec
from bat_events.domain.minimum import MINIMUM_REPORT_CELLS, MINIMUM_TRACK_CELLS
from bat_events.events.bank import LeakageVerdict, StateAdmitted
from bat_events.events.boundary import EvaluationReported
from bat_events.events.corpus import CorpusScanned
from bat_events.events.fingerprints import HeldoutNgramsPublished
from bat_events.events.rollouts import RewardScored, RolloutFailed
from bat_events.events.rounds import RoundPlanned
from bat_events.events.training import TrainingStepCompleted
from bat_events.log.interface import Record
from tests.replay.memory import falsify


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_sound_campaign_is_clean_and_says_what_was_looked_at(scene: Scene) -> None:
    found = scene.look()
    assert (crossed(found), unseen(found), found.exit_code) == (set(), set(), 0)
    assert [check.name for check in found.checks] == list(QUESTIONS)
    looked = {check.name: int(check.looked_at.split()[0]) for check in found.checks if check.name != "denied_accesses"}
    assert looked["search_artefact"] == 0
    assert min(count for name, count in looked.items() if name != "search_artefact") > 0
    assert (looked["lineage"], looked["search_state"], looked["search_corpus"]) == (4, 3, 4)
    assert looked["search_rollout"] == 5 + 5  # transcripts and evidence


def test_missing_sources_are_never_clean() -> None:
    found = report(
        campaign="c1",
        log="no audit file",
        search="no key",
        rules="no admin",
        denials=DeniedAccesses(observable=False, why="another cluster"),
        namespace="audit",
        since=None,
    )
    assert unseen(found) == {check.name for check in found.checks} == set(QUESTIONS)
    assert found.exit_code == 3
    assert {check.found for check in found.checks} == {None}
    assert "not observable: no admin" in found.render("table", width=200)


def replaced(**fields: Any) -> Callable[[Record], Record]:
    return lambda record: falsify(record, body=fields)


def fewer(cells: int) -> Callable[[Record], Record]:
    def change(record: Record) -> Record:
        event = Codec().decode(record).event
        assert isinstance(event, EvaluationReported)
        tracks = tuple(track.model_copy(update={"cells": cells}) for track in event.tracks)
        return falsify(record, event=event.model_copy(update={"tracks": tracks}))

    return change


def other_body(record: Record) -> Record:
    event = Codec().decode(record).event
    assert isinstance(event, StateAdmitted)
    return falsify(record, event=event.model_copy(update={"body": digest(0xF00)}))


def blind(record: Record) -> Record:
    """A verdict of a gate that had no fingerprints, as the first gates were."""
    event = Codec().decode(record).event
    assert isinstance(event, LeakageVerdict | CorpusScanned)
    checks = tuple(c.model_copy(update={"evidence": ""}) for c in event.checks)
    return falsify(record, event=event.model_copy(update={"checks": checks}))


def outdated(record: Record) -> Record:
    """A verdict against other fingerprints than those that were published."""
    event = Codec().decode(record).event
    assert isinstance(event, LeakageVerdict)
    checks = tuple(
        c.model_copy(update={"evidence": "3 fingerprints looked for"}) if c.name == "exact_match" else c
        for c in event.checks
    )
    return falsify(record, event=event.model_copy(update={"checks": checks}))


def as_heldout(record: Record) -> Record:
    return header("ce_type", "bat.EvaluationCellScored.v1")(record)


ON_THE_LOG: dict[str, tuple[Callable[[list[Record]], list[Record]], set[str]]] = {
    "text in a report's header": (on("boundary.report", header("x-note", "the gold answer is 3")), {"crossings"}),
    "a long text in a report's header": (
        on("boundary.report", header("x-note", quote())),
        {"crossings", "search_record"},
    ),
    "an unrounded number": (on("boundary.report", replaced(overall=0.123456789)), {"crossings"}),
    "an unknown key": (on("boundary.report", lambda r: dataclasses.replace(r, key=b"cell-17")), {"crossings"}),
    "an id that is on no open topic": (on("boundary.report", replaced(checkpoint=digest(0xBAD))), {"crossings"}),
    "a report of one cell": (on("boundary.report", fewer(1)), {"small_reports"}),
    "a state admitted without a verdict": (gone(LeakageVerdict), {"admitted_states", "used_states", "lineage"}),
    "a state admitted that was rejected": (
        on("bank.verdict", replaced(cleared=False)),
        {"admitted_states", "used_states", "lineage"},
    ),
    "a state trained without admission": (gone(StateAdmitted), {"used_states", "lineage"}),
    "another body than the one cleared": (on("bank.ready", other_body), {"admitted_states"}),
    "a verdict without fingerprints": (on("bank.verdict", blind), {"gate_fingerprints"}),
    "a verdict of other fingerprints": (on("bank.verdict", outdated), {"gate_fingerprints"}),
    "a corpus that nobody scanned": (gone(CorpusScanned), {"corpus"}),
    "a corpus that was refused": (on("bank.verdict", replaced(cleared=False), number=-1), {"corpus"}),
    "a training row without its reward": (gone(RewardScored), {"lineage"}),
    "a training row without its plan": (gone(RoundPlanned), {"lineage"}),
    "a held-out event on an open topic": (on("reward", as_heldout), {"heldout_events", "lineage"}),
    "another writer": (on("reward", header("ce_source", "bat/trainer")), {"writers"}),
    "a canary in a key": (on("reward", lambda r: dataclasses.replace(r, key=CANARY.encode())), {"search_record"}),
    "a canary in a header's name": (on("reward", header(CANARY, "x")), {"search_record"}),
    "the fingerprint key": (on("campaign", replaced(reason=f"key {KEY.hex()}"), number=1), {"search_record"}),
    "held-out text in a failure": (on("bank.state", replaced(reason=quote()), number=-1), {"search_record"}),
    "held-out text in bytes that are no event": (
        on("reward", lambda r: dataclasses.replace(r, headers=(), value=b"\x00\xff" + quote().encode())),
        {"search_record", "lineage"},
    ),
    "the digest of a held-out file": (
        on("reward", replaced(failures=(hashlib.sha256(IMAGE).hexdigest(),))),
        {"search_record"},
    ),
}


@pytest.mark.parametrize("kind", ON_THE_LOG)
def test_a_crossing_on_the_log_is_found(kind: str, scene: Scene) -> None:
    scene.edit, expected = ON_THE_LOG[kind]
    found = scene.look()
    assert crossed(found) == expected
    assert found.exit_code == 1
    for name in expected:
        check = row(found, name)
        assert check.found
        assert check.detail  # an example, and where


def into_state(change: Callable[[dict[str, Any]], None]) -> Callable[[Scene], None]:
    return lambda scene: change(scene.bodies[digest(1)])


def into_evidence(change: Callable[[dict[str, Any]], None]) -> Callable[[Scene], None]:
    return lambda scene: change(scene.bodies[digest(300 + 160)])


def put(place: str, content: bytes, part: str = "files") -> Callable[[dict[str, Any]], None]:
    return lambda body: body[part].update(files(**{place: content}))


def packed(kind: str) -> bytes:
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a/b.txt", heldout()[0])
    elif kind == "tar.gz":
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            info = tarfile.TarInfo("notes")
            info.size = len(heldout()[0])
            archive.addfile(info, io.BytesIO(heldout()[0].encode()))
    elif kind == "npz":
        np.savez_compressed(buffer, notes=np.array(heldout()[0].split("\n")))
    elif kind == "gzip in zip":
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("x.gz", gzip.compress(heldout()[0].encode()))
    elif kind == "binary":
        buffer.write(b"\x00\xfe\xff" + heldout()[0].encode() + b"\x00\x80")
    elif kind == "utf-16":
        buffer.write(b"\xff\xfe" + heldout()[0].encode("utf-16-le"))
    return buffer.getvalue()


def _call(**fields: object) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["calls"][1].update(fields)


IN_ARTEFACTS: dict[str, tuple[Callable[[Scene], None], str]] = {
    "a state's prompt": (into_state(lambda b: b.update(prompt=f"{b['prompt']}\n{quote()}")), "search_state"),
    "a field of a state that the gate does not read": (into_state(lambda b: b.update(note=quote())), "search_state"),
    "a state's workspace": (into_state(put("notes.txt", quote().encode())), "search_state"),
    "the name of a file": (into_state(put(quote(24), b"x")), "search_state"),
    "a held-out image in a workspace": (into_state(put("input/x.npy", IMAGE, "inputs")), "search_state"),
    **{
        f"a workspace's {kind}": (into_state(put("input/x.bin", packed(kind), "inputs")), "search_state")
        for kind in ("zip", "tar.gz", "npz", "gzip in zip", "binary", "utf-16")
    },
    "a row of the corpus": (
        lambda scene: scene.bodies[digest(0xC1)]["rows"][1].update(observations=[quote()]),
        "search_corpus",
    ),
    "the last words of a rollout": (lambda scene: setattr(scene, "said", quote()), "search_rollout"),
    "base64 in a receipt": (
        into_evidence(_call(stdout=base64.b64encode(quote().encode()).decode())),
        "search_rollout",
    ),
    "hexadecimal in a receipt's errors": (into_evidence(_call(stderr=quote().encode().hex())), "search_rollout"),
    "code in a receipt": (
        into_evidence(
            _call(code=f"x = '''{quote()}'''", code_digest=hashlib.sha256(f"x = '''{quote()}'''".encode()).hexdigest())
        ),
        "search_rollout",
    ),
    "a canary in a rollout's final workspace": (into_evidence(put("outputs/x.txt", CANARY.encode())), "search_rollout"),
    "a change to a held-out file": (
        into_evidence(_call(changes=[["x.npy", None, hashlib.sha256(IMAGE).hexdigest()]])),
        "search_rollout",
    ),
    "a checkpoint's vocabulary": (
        lambda scene: scene.weights[CANDIDATE].update({"vocabulary.txt": quote().encode()}),
        "search_checkpoint",
    ),
    "the header of tensors": (
        lambda scene: scene.weights[START].update(
            {"model.safetensors": b"\x01\x02\xff{" + quote().encode() + bytes(99)}
        ),
        "search_checkpoint",
    ),
}


@pytest.mark.parametrize("kind", IN_ARTEFACTS)
def test_held_out_content_in_an_artefact_is_found_and_not_quoted(kind: str, scene: Scene) -> None:
    plant, expected = IN_ARTEFACTS[kind]
    plant(scene)
    found = scene.search()
    assert {f"search_{finding.kind}" for finding in found.findings} == {expected}
    assert found.found
    said = found.render("json") + found.render("table")
    assert not {word for word in heldout()[1].split()[25:55] if len(word) > 8} & set(said.replace(".", " ").split())
    assert CANARY not in said


def test_what_the_gate_rejected_and_nothing_used_is_shown_and_is_no_crossing(scene: Scene) -> None:
    scene.bodies[digest(3)]["prompt"] += f"\n{quote()}"
    found = scene.look()
    assert (crossed(found), found.exit_code) == (set(), 0)
    assert "in material that the gate rejected and nothing used" in row(found, "search_state").detail
    assert scene.search().held_back


def test_a_denied_access_of_this_namespace_is_an_attempt(scene: Scene) -> None:
    def denial(user: str, last: str) -> DeniedAccess:
        return DeniedAccess(
            principal=user,
            operation="DESCRIBE",
            kind="Topic",
            resource="other.heldout.cell",
            first=last,
            last=last,
            count=2,
            requests=("Metadata",),
        )

    theirs, before = (
        denial("other.trainer", "2026-03-01T13:00:00.000Z"),
        denial("audit.trainer", "2026-02-01T00:00:00Z"),
    )
    assert crossed(scene.look(denials=DeniedAccesses(observable=True, rows=(theirs, before)))) == set()
    ours = denial("audit.trainer", "2026-03-01T13:00:00.000Z")
    found = scene.look(denials=DeniedAccesses(observable=True, rows=(theirs, ours)))
    assert crossed(found) == {"denied_accesses"}
    assert (row(found, "denied_accesses").conclusion, found.exit_code) == ("ATTEMPT", 1)
    cut = DeniedAccesses(observable=True, begins="2026-03-01T14:00:00.000Z")
    assert unseen(scene.look(denials=cut)) == {"denied_accesses"}


def test_a_rule_beside_the_matrix_is_a_crossing_and_unknown_rules_are_not_observable(scene: Scene) -> None:
    extra = AccessRules(looked_at=91, extra=("audit.trainer may READ TOPIC audit.heldout.cell",))
    assert crossed(scene.look(rules=extra)) == {"access_rules"}
    found = scene.look(rules="no admin here")
    assert (unseen(found), found.exit_code) == ({"access_rules"}, 3)


def test_an_artefact_that_is_gone_is_not_observable_never_clean(scene: Scene) -> None:
    scene.lost = {digest(1), digest(300 + 160)}
    found = scene.look()
    assert (crossed(found), found.exit_code) == (set(), 3)
    assert unseen(found) == {"search_state", "search_rollout", "lineage"}
    assert "1 × an artefact named as body is not in the store" in row(found, "search_state").detail
    assert "of 4: evidence could not be read" in row(found, "lineage").detail


def test_token_ids_without_a_vocabulary_are_not_observable(scene: Scene) -> None:
    scene.weights[START] = {"model.safetensors": b"\x01\xff"}
    found = scene.look()
    assert unseen(found) == {"search_rollout"}
    assert "have no tokenizer.json" in row(found, "search_rollout").detail


def test_fingerprints_that_were_never_published_clear_nothing(scene: Scene) -> None:
    scene.edit = gone(HeldoutNgramsPublished)
    found = scene.look()
    assert crossed(found) == {"gate_fingerprints", "corpus"}
    assert "no held-out fingerprints are on the log" in row(found, "gate_fingerprints").detail


def test_an_audit_file_that_is_behind_the_log_is_not_observable(scene: Scene) -> None:
    scene.behind = 3
    found = scene.look()
    assert (crossed(found), unseen(found)) == (set(), {"as_of"})
    assert "start the auditor" in row(found, "as_of").detail


def test_token_ids_are_read_in_the_vocabulary_of_their_weights(scene: Scene, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    from bat_events.policy.tokenizer import train_tokenizer

    train_tokenizer(["Do it.\n"], ["act()"], tmp_path / "made", pieces=300, max_shared_blocks=4, min_line_share=0.5)
    made = (tmp_path / "made" / "tokenizer.json").read_bytes()
    scene.weights[START] = {"tokenizer.json": made}
    scene.said, scene.vocabulary = quote(), made
    found = scene.look()
    assert (crossed(found), found.exit_code) == ({"search_rollout"}, 1)
    assert "transcript" in row(found, "search_rollout").detail
    assert "$.written[1]" in row(found, "search_rollout").detail  # what the policy wrote, not what it was shown


def test_the_smallest_report_is_the_domains() -> None:
    sql = sql_files("kept")["60_boundary_faults"]
    assert f"t.part.cells < {MINIMUM_TRACK_CELLS} OR r.cells < {MINIMUM_REPORT_CELLS}" in sql


def test_json_and_csv_carry_every_check(scene: Scene) -> None:
    found = scene.look()
    data = json.loads(found.render("json"))
    assert data["exit_code"] == 0
    assert len(data["checks"]) == len(QUESTIONS) == found.render("csv").count("\n") - 1


def test_another_campaigns_records_are_left_to_its_own_fingerprints(scene: Scene) -> None:
    planted = header("bat_campaign", "c2")
    scene.edit = on("reward", lambda r: planted(header("x-note", quote())(r)))
    assert scene.search().found == 0


def test_receipts_are_rows_and_a_rollout_that_failed_has_none(
    scene: Scene, file: AuditFile, codec: Codec, ask: Ask
) -> None:
    lost = ident(12 * 16 + 1)
    whole = scene.records()
    found = [r for r in whole if getattr(codec.decode(r).event, "rollout", None) != lost]
    place = next(n for n, r in enumerate(found) if isinstance(codec.decode(r).event, TrainingStepCompleted))
    step = codec.decode(found[place]).event
    assert isinstance(step, TrainingStepCompleted)
    groups = (step.groups[0], step.groups[1].model_copy(update={"rollouts": step.groups[1].rollouts[:1]}))
    found[place] = falsify(found[place], event=step.model_copy(update={"groups": groups}))
    instead = next(r for r in whole if getattr(codec.decode(r).event, "rollout", None) == lost)
    event = RolloutFailed(
        group=ident(12), rollout=lost, index=1, round=1, step=0, slot=1, reason="sandbox", detail="it is away"
    )
    found.insert(place, falsify(instead, event=event))
    taken = Materialiser(codec=codec, now=lambda: datetime(2026, 3, 2, tzinfo=UTC), artefact=scene.store.get)
    taken.take(file.writer, found)
    checkpoint = step.weights
    rows = [r for r in ask(file, "lineage_receipts", checkpoint=checkpoint) if r["status"] != "cold start"]
    made = [r for r in rows if r["status"] == "scored"]
    assert [(r["receipt"], r["call_end"], r["exit_code"], r["code_follows"]) for r in made] == [
        (0, "exited", 0, True),
        (1, "exited", 0, True),
    ] * 3
    assert all(r["verdict_event"] and r["reward_event"] and r["trained"] and r["evidence"] == "read" for r in made)
    (failed,) = [r for r in rows if r["status"] == "failed"]
    assert (failed["rollout"], failed["trained"], failed["evidence"]) == (lost, False, "none")
    assert (failed["receipt"], failed["reward"], failed["code_digest"]) == (None, None, None)
    assert {r["receipts"] for r in ask(file, "lineage", checkpoint=checkpoint) if r["kind"] == "rollout"} == {2}


def test_evidence_that_cannot_be_read_is_missing_not_none(filled: AuditFile, ask: Ask) -> None:
    rows = [r for r in ask(filled, "lineage_receipts", checkpoint=CANDIDATE) if r["status"] == "scored"]
    assert {(r["evidence"], r["receipt"]) for r in rows} == {("unread", None)}
    assert {r["receipts"] for r in ask(filled, "lineage", checkpoint=CANDIDATE)} == {None}
