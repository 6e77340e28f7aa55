"""`audit boundary`: every check of the evaluation boundary in one table, with what each looked at and what may be concluded.

Three sources: the audit file (named queries on the log), the search of all training-side bytes, and the broker (its access
rules and its denials). What could not be observed is said so, and is never counted as clean.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from rich.console import Console

from bat_events.audit.denied import DeniedAccesses
from bat_events.audit.result import Result
from bat_events.audit.search import SearchResult
from bat_events.audit.search.result import KINDS, grid
from bat_events.errors import ConfigurationError
from bat_events.events.envelope import Cut

NAME = "boundary"
TITLE = "every check of the evaluation boundary; exit 1 on a crossing, 3 where something could not be observed"
CLEAN, CROSSED, UNSEEN = 0, 1, 3
Conclusion = Literal["clean", "CROSSING", "ATTEMPT", "not observable"]
CONCLUDES = (
    "clean: what was looked at shows no fault of this kind. CROSSING: it does. ATTEMPT: something was tried and denied. "
    "not observable: part of it or all of it could not be looked at; the row says what, and nothing is concluded of that part. "
    "No row concludes that root, or anyone who shares the services' user id on a host, did not read held-out files or keys "
    "there; that a writer is who its events name, before or after the rules were looked at; that ids, times or the order of "
    "events carry no meaning; or that paraphrases were not passed on. See docs/audit.md, docs/access.md, docs/leakage.md."
)
QUESTIONS: Mapping[str, str] = {
    "crossings": "only rounded numbers, closed enums and ids crossed",
    "small_reports": "no report singles out a cell",
    "admitted_states": "admitted only with a cleared verdict",
    "used_states": "used only what was cleared and admitted",
    "gate_fingerprints": "verdicts were given with the published fingerprints",
    "corpus": "the cold-start corpus was scanned and cleared",
    "lineage": "training rows go back to state, verdict, receipts and reward",
    "heldout_events": "no held-out event on an open topic",
    "writers": "each topic's events name its one writer",
    "as_of": "the audit file is as far as the log",
    "search_record": "no held-out bytes in keys, headers, bodies",
    "search_state": "no held-out bytes in prompts and workspaces",
    "search_corpus": "no held-out bytes in the cold-start corpus",
    "search_rollout": "no held-out bytes in what policies wrote and were shown",
    "search_checkpoint": "no held-out bytes in texts of checkpoints",
    "search_artefact": "no held-out bytes in other artefacts",
    "access_rules": "the broker allows what the matrix says and no more",
    "denied_accesses": "nobody tried what it may not",
}
_EXPECTED = ("record", "state", "corpus", "rollout", "checkpoint")
"""Kinds of which a campaign that trained must have some; other artefacts need not exist."""


@dataclass(frozen=True, kw_only=True)
class AccessRules:
    """The broker's rules beside the matrix: those that should not be there, and those that are missing."""

    looked_at: int
    extra: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Check:
    """One row. `found` is None where nothing could be looked at."""

    name: str
    question: str
    looked_at: str
    found: int | None
    conclusion: Conclusion
    detail: str


@dataclass(frozen=True, kw_only=True)
class BoundaryReport:
    """All checks of one campaign."""

    campaign: str
    checks: tuple[Check, ...]
    as_of: Cut

    @property
    def exit_code(self) -> int:
        """1 on any crossing or attempt, else 3 where something was not observable, else 0."""
        said = {check.conclusion for check in self.checks}
        if said & {"CROSSING", "ATTEMPT"}:
            return CROSSED
        return UNSEEN if "not observable" in said or not self.checks else CLEAN

    def summary(self) -> str:
        """One line."""
        bad = [check.name for check in self.checks if check.conclusion in ("CROSSING", "ATTEMPT")]
        unseen = [check.name for check in self.checks if check.conclusion == "not observable"]
        said = [f"crossings or attempts in {', '.join(bad)}"] if bad else ["no crossing found"]
        if unseen:
            said.append(f"not observable: {', '.join(unseen)}")
        return f"campaign {self.campaign}: {len(self.checks)} checks; {'; '.join(said)}"

    def render(self, form: str = "table", *, width: int = 160) -> str:
        """Text that ends in a newline. Raises ConfigurationError on an unknown format."""
        if form == "json":
            data = {**asdict(self), "exit_code": self.exit_code, "concludes": CONCLUDES}
            return json.dumps(data, indent=1) + "\n"
        if form == "csv":
            buffer = io.StringIO()
            writer = csv.writer(buffer, lineterminator="\n")
            writer.writerow(Check.__dataclass_fields__)
            writer.writerows(["" if v is None else v for v in asdict(check).values()] for check in self.checks)
            return buffer.getvalue()
        if form == "table":
            buffer = io.StringIO()
            console = Console(file=buffer, width=width, highlight=False, markup=False, force_terminal=False)
            header = ("check", "holds if", "looked at", "found", "conclusion", "detail")
            rows = [
                (c.name, c.question, c.looked_at, "–" if c.found is None else str(c.found), c.conclusion, c.detail)
                for c in self.checks
            ]
            console.print(grid(header, rows))
            console.print(self.summary())
            console.print(CONCLUDES)
            return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
        raise ConfigurationError(f"--format {form!r}: choose one of table, csv, json")


def report(
    *,
    campaign: str,
    log: Result | str,
    search: SearchResult | str,
    rules: AccessRules | str,
    denials: DeniedAccesses,
    namespace: str,
    since: str | None,
) -> BoundaryReport:
    """The table. A text in place of a source says why it could not be looked at.

    Of denials those count that name a user or a topic of the namespace, since the campaign began (`since`, UTC).
    """
    began = None if since is None else since.replace(" ", "T")
    checks = [
        *_of_log(log),
        _as_of(log, search),
        *_of_search(search),
        _of_rules(rules),
        _of_denials(denials, namespace, began),
    ]
    as_of = search.as_of if isinstance(search, SearchResult) else log.as_of if isinstance(log, Result) else {}
    return BoundaryReport(campaign=campaign, checks=tuple(checks), as_of=as_of)


def _check(
    name: str,
    looked_at: str,
    found: int | None,
    unseen: Sequence[str],
    *,
    detail: str = "",
    bad: Conclusion = "CROSSING",
) -> Check:
    conclusion: Conclusion = bad if found else "not observable" if unseen else "clean"
    told = "; ".join([*([detail] if detail else []), *(f"not observable: {part}" for part in unseen)])
    return Check(
        name=name, question=QUESTIONS[name], looked_at=looked_at, found=found, conclusion=conclusion, detail=told
    )


def _of_log(log: Result | str) -> list[Check]:
    names = [name for name in QUESTIONS if not name.startswith("search_")][:9]
    if isinstance(log, str):
        return [_check(name, "nothing", None, [log]) for name in names]
    rows = {row["check"]: row for row in log.dicts()}
    checks = []
    for name in names:
        row = rows.get(name)
        if row is None:
            checks.append(_check(name, "nothing", None, ["the campaign is not in the audit file"]))
            continue
        looked, unseen = int(row["looked_at"]), []
        if looked == 0 and not row["found"]:
            unseen.append(f"no {row['what']} on the log")
        if row["unseen"]:
            why = (
                "evidence could not be read" if name == "lineage" else "records that are no events (query undecodable)"
            )
            unseen.append(f"{row['unseen']} of {looked}: {why}")
        found = None if looked == 0 and not row["found"] else int(row["found"])
        checks.append(_check(name, f"{looked} {row['what']}", found, unseen, detail=row["example"] or ""))
    return checks


def _as_of(log: Result | str, search: SearchResult | str) -> Check:
    """Offsets have gaps where transactions end, so the log's side is the last record that the search met."""
    if isinstance(log, str) or isinstance(search, str):
        return _check("as_of", "nothing", None, ["it takes both the audit file and the log"])
    behind = [
        f"{topic}[{partition}] {reached} of {end}"
        for topic, ends in search.as_of.items()
        for partition, end in ends.items()
        if (reached := log.as_of.get(topic, {}).get(partition, 0)) < end
    ]
    partitions = sum(len(ends) for ends in search.as_of.values())
    unseen = (
        [f"the audit file is behind the log at {', '.join(behind[:4])}: start the auditor, ask again"] if behind else []
    )
    return _check(
        "as_of",
        f"{partitions} partitions",
        0 if partitions else None,
        unseen or ([] if partitions else ["an empty log"]),
    )


def _of_search(search: SearchResult | str) -> list[Check]:
    if isinstance(search, str):
        return [_check(f"search_{kind}", "nothing", None, [search]) for kind in KINDS]
    checks = []
    for kind, what in KINDS.items():
        findings = [f for f in search.findings if f.kind == kind and not f.held_back]
        held = sum(f.kind == kind and f.held_back for f in search.findings)
        looked = search.looked_at.get(kind, 0)
        unseen = [f"{part.count} × {part.what}, first {part.first}" for part in search.unread if part.kind == kind]
        if looked == 0 and kind in _EXPECTED:
            unseen.append(f"no {what} to read")
        told = [f"{f.check} in {f.where}: {f.evidence}" for f in findings[:2]]
        if held:
            told.append(f"{held} in material that the gate rejected and nothing used")
        found = len(findings) + (search.more if kind == "record" else 0)
        if search.more and kind == "record":
            told.append(f"{search.more} findings of all kinds are not told of here")
        checks.append(
            _check(
                f"search_{kind}",
                f"{looked} documents",
                found if looked or found else None,
                unseen,
                detail="; ".join(told),
            )
            if looked or unseen
            else _check(f"search_{kind}", "0 documents: no such artefact is named", 0, [])
        )
    return checks


def _of_rules(rules: AccessRules | str) -> Check:
    if isinstance(rules, str):
        return _check("access_rules", "nothing", None, [rules])
    missing = f"{len(rules.missing)} rules of the matrix are missing: {rules.missing[0]}" if rules.missing else ""
    told = "; ".join([*rules.extra[:3], *([missing] if missing else [])])
    return _check("access_rules", f"{rules.looked_at} rules, as they are now", len(rules.extra), [], detail=told)


def _of_denials(denials: DeniedAccesses, namespace: str, began: str | None) -> Check:
    if not denials.observable:
        return _check("denied_accesses", "nothing", None, [denials.why or "no reason given"])
    rows = [
        row
        for row in denials.rows
        if f"{namespace}." in (row.principal[: len(namespace) + 1], row.resource[: len(namespace) + 1])
        and (began is None or row.last >= began)
    ]
    unseen = [f"{denials.unread} lines that are no denials in the known form"] if denials.unread else []
    if denials.begins is not None and (began is None or denials.begins > began):
        unseen.append(f"the authorizer's log was cut: it begins at {denials.begins}")
    told = "; ".join(f"{row.principal} {row.operation} {row.resource} × {row.count}" for row in rows[:3])
    looked = f"{sum(row.count for row in denials.rows)} denials of the whole broker"
    return _check("denied_accesses", looked, len(rows), unseen, detail=told, bad="ATTEMPT")
