"""Tests of archives do not wait for the disk: what a power cut leaves is not what they look at."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def unsynced() -> None:
    """No fsync of archive files in this folder's tests."""
    patch = pytest.MonkeyPatch()
    patch.setattr("bat_events.replay.archive_writer.synced", lambda _: None)
