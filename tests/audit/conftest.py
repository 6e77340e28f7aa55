"""A filled audit file, and a way to ask it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from audit_log import Ask, campaign, records

from bat_events.audit.file import AuditFile
from bat_events.audit.materialiser import Materialiser
from bat_events.audit.places import audit_path
from bat_events.audit.query import QueryLimits, answer
from bat_events.audit.run import list_queries
from bat_events.codec import Codec


@pytest.fixture(scope="session")
def codec() -> Codec:
    """The real codec."""
    return Codec()


@pytest.fixture(scope="session")
def materialiser(codec: Codec) -> Materialiser:
    """Writes rows at a fixed time."""
    return Materialiser(codec=codec, now=lambda: datetime(2026, 3, 2, tzinfo=UTC))


@pytest.fixture
def file(tmp_path: Path) -> Iterator[AuditFile]:
    """An empty audit file of namespace `audit`, of this test alone."""
    opened = AuditFile(audit_path(tmp_path, "audit"), "audit")
    yield opened
    opened.close()


@pytest.fixture
def mine(file: AuditFile, materialiser: Materialiser) -> AuditFile:
    """The audit file of the small campaign, of this test alone."""
    materialiser.take(file.writer, records(campaign().out))
    return file


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory, materialiser: Materialiser) -> Iterator[AuditFile]:
    """The audit file of the small campaign, shared by tests that only read."""
    opened = AuditFile(audit_path(tmp_path_factory.mktemp("filled"), "audit"), "audit")
    materialiser.take(opened.writer, records(campaign().out))
    yield opened
    opened.close()


@pytest.fixture
def ask() -> Ask:
    """ask(file, name or SELECT, param=value…) -> rows by column."""

    def run(file: AuditFile, what: str, **params: str) -> list[dict[str, Any]]:
        named = {query.name: query for query in list_queries()}
        sql, wanted = (named[what].sql, named[what].params) if what in named else (what, params)
        with file.cursor() as cursor:
            return answer(cursor, sql, {p: params.get(p) for p in wanted}, QueryLimits(), "file").dicts()

    return run
