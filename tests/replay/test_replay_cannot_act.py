"""Replay has not the means to produce, train, judge or touch a sandbox: they cannot even be imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from bat_events.log.interface import Record
from bat_events.replay import write_archive

FORBIDDEN = [
    "torch",
    "transformers",
    "trl",
    "accelerate",
    "datasets",
    "tokenizers",
    "numpy",
    "duckdb",
    "docker",
    "openai",
    "nibabel",
    "skimage",
    "pydicom",
    "bat_events.log.kafka",
    "bat_events.log.kafka_writer",
    "bat_events.log.admin",
    "bat_events.log.local_kafka",
    "bat_events.service",
    "bat_events.consumers",
    "bat_events.producers",
    "bat_events.sandbox",
    "bat_events.policy",
    "bat_events.training",
    "bat_events.benchmark",
    "bat_events.audit",
    "bat_events.artifacts",
    "bat_events.settings",
    "bat_events.cli",
]

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
sys.path.insert(0, {root!r})
from importlib.abc import MetaPathFinder

FORBIDDEN = {forbidden!r}

class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if any(name == word or name.startswith(word + ".") for word in FORBIDDEN):
            raise AssertionError("replay imports " + name)

sys.meta_path.insert(0, Refuse())
import confluent_kafka

def refuse(*_, **__):
    raise AssertionError("replay makes a producer")

confluent_kafka.Producer = refuse
import bat_events.replay
import importlib
import pkgutil
from pathlib import Path
names = [module.name for module in pkgutil.iter_modules(bat_events.replay.__path__)]
assert {{"export", "kafka_log", "verify_kafka", "proofs", "record"}} <= set(names)
for name in names:
    importlib.import_module("bat_events.replay." + name)
source = bat_events.replay.ArchiveSource(Path({folder!r}))
result = bat_events.replay.replay_campaign(source)
sys.stdout.write(bat_events.replay.to_json(result))
assert bat_events.replay.render(result)
assert not [name for name in sys.modules if name in FORBIDDEN]
sys.exit(result.exit_code)
"""


@pytest.fixture
def archive(records: list[Record], tmp_path: Path) -> Path:
    """The synthetic campaign as an archive."""
    write_archive(records, tmp_path / "log", source="memory")
    return tmp_path / "log"


def run(archive: Path) -> "subprocess.CompletedProcess[str]":
    program = PROGRAM.format(root=str(ROOT), forbidden=FORBIDDEN, folder=str(archive))
    return subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=120, cwd=archive, check=False
    )


def test_an_archive_replays_where_nothing_that_acts_can_be_imported(archive: Path) -> None:
    first, second = run(archive), run(archive)
    assert (first.returncode, first.stderr) == (3, "")  # no evidence, no held-out cells
    assert first.stdout == second.stdout
    assert '"exit_code":3' in first.stdout


def test_the_guard_itself_works(archive: Path) -> None:
    program = PROGRAM.format(root=str(ROOT), forbidden=[*FORBIDDEN, "bat_events.deciders.gate"], folder=str(archive))
    found = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert "replay imports bat_events.deciders.gate" in found.stderr


def test_reading_kafka_is_possible_without_what_writes_to_it() -> None:
    program = "import sys, bat_events.log.kafka_reader; sys.exit('bat_events.log.kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-I", "-c", program], check=False).returncode == 0
