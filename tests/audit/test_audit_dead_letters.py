"""Dead letters in the audit: what was parked, why, and what became of it; held-out ones in the held-out file only."""

from audit_log import Ask, campaign, records

from bat_events.audit.file import AuditFile
from bat_events.audit.materialiser import AUDITED, HELDOUT_AUDITED, Materialiser
from bat_events.events.base import Event
from bat_events.events.dead_letters import DeadLettered, DeadLetterSettled, Discarded, Redriven
from bat_events.log.interface import Outgoing
from tests.support.samples import NOW, PARTITIONS, draft, sample


def put(event: Event, cause: str, ordinal: int = 0) -> tuple[str, Outgoing]:
    from bat_events.service.emit import outgoing

    made = draft(event, cause=cause, ordinal=ordinal, key="k")
    return made.id, outgoing(made, source="bat/judge", logic="dead-letters/1", time=NOW, partitions=PARTITIONS)


def test_letters_are_shown_with_what_became_of_them(file: AuditFile, materialiser: Materialiser, ask: Ask) -> None:
    place = {"service": "judge", "topic": "rollout", "partition": 1}
    out: list[Outgoing] = []
    ids = []
    for number, cause in enumerate(("bad_body", "retries_exhausted", "behind", "unfounded")):
        event = sample(DeadLettered).model_copy(
            update={**place, "offset": number, "cause": cause, "waits": cause != "unfounded", "error": f"said {cause}"}
        )
        id_, record = put(event, "0" * 32, number)
        ids.append(id_)
        out.append(record)
    asked, word = put(Redriven(dead_letter=ids[1], **place, offset=1, reason="mended"), ids[1])
    out += [word, put(DeadLetterSettled(dead_letter=ids[1], **place, offset=1), asked)[1]]
    out.append(put(Discarded(dead_letter=ids[0], **place, offset=0, reason="junk"), ids[0])[1])
    materialiser.take(file.writer, records([*campaign().out, *out]))

    rows = {row["offset"]: row for row in ask(file, "dead_letters")}
    assert [rows[n]["cause"] for n in range(4)] == ["bad_body", "retries_exhausted", "behind", "unfounded"]
    assert [rows[n]["became"] for n in range(4)] == ["discarded", "settled", None, None]
    assert (rows[0]["reason"], rows[1]["reason"], rows[0]["key"], rows[0]["error"]) == (
        "junk",
        "mended",
        "k",
        "said bad_body",
    )
    assert [row["offset"] for row in ask(file, "dead_letters", open="yes")] == [2, 3]
    assert ask(file, "dead_letters", service="gate") == []


def test_a_letter_of_the_other_plane_on_the_open_topic_is_a_boundary_fault(
    file: AuditFile, materialiser: Materialiser, ask: Ask
) -> None:
    from bat_events.service.emit import outgoing

    made = draft(sample(DeadLettered), key="k", ordinal=1)
    other = draft(sample(DeadLettered, 1), key="k", ordinal=2)
    out = [
        outgoing(one, source=f"bat/{by}", logic="dead-letters/1", time=NOW, partitions=PARTITIONS)
        for one, by in ((made, "judge"), (other, "evaluator"))
    ]
    materialiser.take(file.writer, records([*campaign().out, *out]))
    faults = ask(file, "SELECT event FROM boundary_faults WHERE topic = 'dead-letter' AND fault LIKE 'written by%'")
    assert [row["event"] for row in faults] == [other.id]


def test_each_auditor_reads_the_dead_letters_of_its_own_plane() -> None:
    assert "dead-letter" in AUDITED
    assert "heldout.dead-letter" not in AUDITED
    assert "heldout.dead-letter" in HELDOUT_AUDITED
    assert "dead-letter" not in HELDOUT_AUDITED
