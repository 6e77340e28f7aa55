"""An installed wheel replays an archive: nothing of the checkout is needed, and no package but bat_events is installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOLDEN = sorted(path.parent for path in (ROOT / "tests" / "golden").glob("*/manifest.json"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked into a folder of its own as pip does; its needs are already in this environment."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    kept = ("bat_events", "consumers", "producers", "replay", "schemas", "pyproject.toml", "README.md")
    source.mkdir()
    for name in kept:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(place), str(source)], check=True
    )
    (wheel,) = place.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(place / "site"), str(wheel)], check=True)
    return place / "site"


def _run(site: Path, code: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(site)!r}); {code}"],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


def test_only_bat_events_is_installed(installed: Path) -> None:
    packages = {path.name for path in installed.iterdir() if path.is_dir() and not path.name.endswith(".dist-info")}
    assert packages - {"bin"} == {"bat_events"}
    for name in ("consumers/trainer.py", "replay/replayer.py", "schemas/RoundPlanned.v1.avsc", "campaigns/demo.yaml"):
        assert (installed / "bat_events" / name).is_file()
        assert not (installed / "bat_events" / name).is_symlink()


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.name)
def test_the_wheel_replays_an_archive(installed: Path, tmp_path: Path, golden: Path) -> None:
    code = (
        "import bat_events; from bat_events.replay import ArchiveSource, replay_campaign; from pathlib import Path; "
        f"print(bat_events.__file__); result = replay_campaign(ArchiveSource(Path({str(golden)!r}))); "
        "print(result.reproduced, result.decisions); "
        "assert not {'torch', 'duckdb', 'transformers', 'trl', 'docker'} & set(sys.modules)"
    )
    done = _run(installed, code, tmp_path)
    assert done.returncode == 0, done.stderr
    where, numbers = done.stdout.strip().splitlines()
    assert where.startswith(str(installed))
    assert numbers.split()[0] == "True"
    assert int(numbers.split()[1]) > 100
