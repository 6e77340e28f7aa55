"""What the search of all bytes found, what it looked at, and what it could not read."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bat_events.errors import ConfigurationError
from bat_events.events.envelope import Cut

NAME = "search"
TITLE = "held-out fingerprints and canaries in all training-side bytes (reads the log and the artefact store; not SQL)"
CONCLUDES = (
    "Concludes: of the bytes that were read (see looked at), none holds held-out text, code, files or a canary that the leakage "
    "gate's readings would show. Does not conclude: anything about what is listed as not read; about paraphrases, short "
    "quotes, unlisted encodings and the other blind spots of the checks (docs/leakage.md); about tensors, which may "
    "have learnt text by heart; about ids and times chosen to carry meaning; about artefacts that no event names, records of "
    "aborted transactions, and copies outside the log and the store. `held back` is what the gate rejected and nothing used."
)
KINDS: Mapping[str, str] = {
    "record": "keys, headers and bodies of records",
    "state": "prompts and workspaces of states",
    "corpus": "rows of cold-start corpora",
    "rollout": "transcripts, receipts and final workspaces of rollouts",
    "checkpoint": "texts of checkpoints (tokenizer, settings)",
    "artefact": "other artefacts that events name",
}
FORMATS = ("table", "csv", "json")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding: where, by which check, and its evidence, which quotes nothing."""

    kind: str
    where: str
    check: str
    evidence: str
    held_back: bool = False


@dataclass(frozen=True, kw_only=True)
class Unread:
    """Something that could not be read, how often, and where first."""

    kind: str
    what: str
    count: int
    first: str


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """One campaign's search. `looked_at` counts documents by kind, `size` the bytes.

    `more` counts findings that are not told of, `held_back` those in what the gate rejected and nothing used.
    """

    campaign: str
    known: Mapping[str, int]
    looked_at: Mapping[str, int]
    size: int
    findings: tuple[Finding, ...]
    more: int
    held_back: int
    unread: tuple[Unread, ...]
    as_of: Cut

    @property
    def found(self) -> int:
        """Findings in what was not held back."""
        return self.more + sum(not finding.held_back for finding in self.findings)

    def to_json(self) -> dict[str, object]:
        """Plain data for JSON."""
        return asdict(self)

    def summary(self) -> str:
        """What was looked for, and in how much."""
        known = ", ".join(f"{count} {name}" for name, count in self.known.items())
        return (
            f"campaign {self.campaign}: looked for {known} in {sum(self.looked_at.values())} documents, "
            f"{self.size / 2**20:.1f} MiB; {self.found} findings, {self.held_back} held back by the gate, "
            f"{sum(part.count for part in self.unread)} not read"
        )

    def render(self, form: str = "table", *, width: int = 160) -> str:
        """Text that ends in a newline. Raises ConfigurationError on an unknown format."""
        if form == "json":
            return json.dumps({**self.to_json(), "concludes": CONCLUDES}, indent=1) + "\n"
        if form == "csv":
            buffer = io.StringIO()
            writer = csv.writer(buffer, lineterminator="\n")
            writer.writerow(Finding.__dataclass_fields__)
            writer.writerows(list(asdict(finding).values()) for finding in self.findings)
            return buffer.getvalue()
        if form == "table":
            return self._table(width)
        raise ConfigurationError(f"--format {form!r}: choose one of {', '.join(FORMATS)}")

    def _table(self, width: int) -> str:
        buffer = io.StringIO()
        console = Console(file=buffer, width=width, highlight=False, markup=False, force_terminal=False)
        console.print(
            grid(("looked at", "documents"), [(KINDS[kind], str(self.looked_at.get(kind, 0))) for kind in KINDS])
        )
        if self.findings:
            rows = [(f.kind, f.where, f.check, f.evidence, "yes" if f.held_back else "no") for f in self.findings]
            console.print(grid(("found in", "where", "check", "evidence", "held back"), rows))
        if self.more:
            console.print(f"and {self.more} more findings")
        if self.unread:
            parts = [(part.kind, part.what, str(part.count), part.first) for part in self.unread]
            console.print(grid(("not read", "what", "times", "first"), parts))
        console.print(self.summary())
        console.print(CONCLUDES)
        return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A plain table."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
