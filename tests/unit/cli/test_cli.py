"""The command line and the settings behind it: what is in force is shown, what is wrong is named."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel
from typer.testing import CliRunner, Result

from bat_events.cli.main import app
from bat_events.consumers.registry import SERVICES
from bat_events.errors import ConfigurationError
from bat_events.producers.campaigns import load_plan
from bat_events.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but the test's own: an empty working folder and no BAT_ variable."""
    for variable in [variable for variable in os.environ if variable.startswith("BAT_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)


def run(*words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == code, f"{done.output}\n{done.exception!r}"
    return done


def fields(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Dotted names of all settings."""
    found = []
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            found += fields(info.annotation, f"{prefix}{name}.")
        else:
            found.append(prefix + name)
    return found


def value(tree: dict[str, Any], dotted: str) -> Any:
    for name in dotted.split("."):
        tree = tree[name]
    return tree


def test_settings_prints_every_field_with_its_meaning_as_a_file_that_can_be_used() -> None:
    printed = run("settings").stdout
    assert [line for line in printed.splitlines() if not line.partition("  # ")[2].strip()] == []
    tree = yaml.safe_load(printed)
    assert len(fields(Settings)) > 10
    for dotted in fields(Settings):
        value(tree, dotted)
    Path("bat-events.yaml").write_text(printed)
    assert run("settings").stdout == printed


def test_the_environment_wins_over_the_file_and_options_win_over_both(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("bat-events.yaml").write_text("namespace: file\nhome: from-file\nkafka: {partitions: 2, heap_mib: 300}\n")
    monkeypatch.setenv("BAT_NAMESPACE", "env")
    monkeypatch.setenv("BAT_KAFKA__PARTITIONS", "8")
    tree = yaml.safe_load(run("settings").stdout)
    assert (tree["namespace"], tree["home"]) == ("env", "from-file")
    assert (tree["kafka"]["partitions"], tree["kafka"]["heap_mib"]) == (8, 300)
    assert yaml.safe_load(run("--namespace", "option", "settings").stdout)["namespace"] == "option"


def test_another_settings_file_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("other.yaml").write_text("namespace: other\n")
    monkeypatch.setenv("BAT_SETTINGS", "other.yaml")
    assert load_settings().namespace == "other"


def test_a_named_settings_file_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAT_SETTINGS", "gone.yaml")
    with pytest.raises(ConfigurationError, match=r"gone\.yaml"):
        load_settings()


@pytest.mark.parametrize("bootstrap", ["BAT_KAFKA_BOOTSTRAP", "BAT_KAFKA__BOOTSTRAP"])
def test_a_cluster_can_be_named_by_its_short_or_its_long_name(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(bootstrap, "host:1")
    assert load_settings().bootstrap == "host:1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kafka: {partitions: none}", ("kafka.partitions", "'none'")),
        ("sandbox: {parallel: 0}", ("sandbox.parallel", "0")),
        ("training: {device: tpu}", ("training.device", "'tpu'")),
        ("namespaces: x", ("namespaces",)),
        ("kafka: {partition: 4}", ("kafka.partition",)),
        ("namespace: Über all", ("namespace", "'Über all'")),
        ("a: [", ("bat-events.yaml",)),
        ("- a\n- b", ("bat-events.yaml",)),
    ],
)
def test_a_wrong_setting_ends_the_command_with_one_line_that_names_it(text: str, words: tuple[str, ...]) -> None:
    Path("bat-events.yaml").write_text(text)
    done = run("settings", code=2)
    assert done.stderr.startswith("error: ")
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.output


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAT_KAFKA__PARTITIONS", "many")
    done = run("settings", code=2)
    assert "kafka.partitions" in done.stderr
    assert "'many'" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rounds: 0", ("rounds", "0")),
        ("roundz: 3", ("roundz",)),
        ("grpo: {learning_rate: fast}", ("grpo.learning_rate", "'fast'")),
        ("tracks: [segmentation, karaoke]", ("tracks.1", "'karaoke'")),
        ("group_size: 1", ("group_size", "1")),
        ("rounds: 3.0", ("rounds", "3.0")),
        ("- rounds", ("mapping",)),
        ("rounds: [", ("no YAML",)),
    ],
)
def test_a_wrong_campaign_file_is_refused_with_file_and_field(text: str, words: tuple[str, ...]) -> None:
    Path("mine.yaml").write_text(text)
    done = run("campaign", "start", "mine.yaml", code=2)
    for word in ("mine.yaml", *words):
        assert word in done.stderr
    assert not Path(".bat").exists()  # refused before a broker was started


def test_a_campaign_file_that_is_not_there_is_named() -> None:
    assert "gone.yaml is not there" in run("campaign", "start", "gone.yaml", code=2).stderr


def test_what_a_campaign_file_does_not_say_is_the_default() -> None:
    Path("mine.yaml").write_text("rounds: 7\ngate: {mode: reference}\n")
    plan = load_plan(Path("mine.yaml"), {"pools.e2e": 3})
    assert (plan.rounds, plan.gate.mode.value, plan.gate.max_stage_drop) == (7, "reference", 0.15)
    assert (plan.pools.e2e, plan.pools.s_target) == (3, 4)


def test_an_unknown_service_is_answered_with_the_known_ones() -> None:
    done = run("serve", "planner", "plumber", code=2)
    assert "plumber" in done.stderr
    said = done.stderr.replace("│", " ")
    assert [name for name in SERVICES if name not in said] == []
    assert not Path(".bat").exists()


def test_a_command_that_needs_the_log_says_how_to_get_one() -> None:
    done = run("serve", "planner", code=2)
    assert "bat-events broker up" in done.stderr
    assert "BAT_KAFKA_BOOTSTRAP" in done.stderr


def test_the_demo_refuses_at_once_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = run("demo", "--quick", code=2)
    for word in ("java", "bubblewrap", "apt-get install", "make setup"):
        assert word in done.stderr
    assert not Path(".bat").exists()


def made_home(folder: Path) -> Path:
    (folder / "artifacts" / "ab").mkdir(parents=True)
    (folder / "artifacts" / "ab" / "file").write_bytes(b"x" * 1000)
    (folder / "secrets").mkdir()
    (folder / "secrets" / "heldout.key").write_text("secret")
    return folder


def test_clean_removes_the_home_and_nothing_else(tmp_path: Path) -> None:
    home = made_home(tmp_path / "home")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    (home / "artifacts" / "link").symlink_to(outside)
    (home / "cache").symlink_to(tmp_path / "nowhere")
    Path("bat-events.yaml").write_text(f"home: {home}\n")

    done = run("clean", "--yes")
    assert str(home) in done.stdout
    assert not home.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bat-events.yaml", "outside"]
    assert (outside / "precious").read_text() == "kept"


def test_clean_refuses_a_folder_that_holds_what_is_not_its_own(tmp_path: Path) -> None:
    home = made_home(tmp_path / "home")
    (home / "thesis.tex").write_text("kept")
    done = CliRunner().invoke(app, ["--home", str(home), "clean", "--yes"])
    assert done.exit_code == 2
    assert "thesis.tex" in done.stderr
    assert (home / "artifacts" / "ab" / "file").exists()


def test_clean_follows_a_home_that_is_a_link(tmp_path: Path) -> None:
    made_home(tmp_path / "large-disk" / "home")
    (tmp_path / ".bat").symlink_to(tmp_path / "large-disk" / "home")
    run("clean", "--yes")
    assert not (tmp_path / ".bat").is_symlink()
    assert list((tmp_path / "large-disk").iterdir()) == []


@pytest.mark.parametrize("home", [".", ".."])
def test_clean_never_removes_the_folder_that_it_is_called_in(
    tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "checkout" / "source"
    source.mkdir(parents=True)
    monkeypatch.chdir(source)
    done = run("--home", home, "clean", "--yes", code=2)
    assert "folder that you are in" in done.stderr
    assert source.is_dir()


def test_clean_asks_and_takes_no_for_an_answer(tmp_path: Path) -> None:
    home = made_home(tmp_path / "home")
    done = CliRunner().invoke(app, ["--home", str(home), "clean"], input="n\n")
    assert done.exit_code == 1
    assert "artifacts" in done.stdout
    assert (home / "artifacts" / "ab" / "file").exists()


def test_clean_of_a_home_that_is_not_there_says_so(tmp_path: Path) -> None:
    assert "nothing to remove" in run("--home", str(tmp_path / "none"), "clean", "--yes").stdout


def test_the_version_is_the_packages() -> None:
    from bat_events import __version__

    assert run("version").stdout.strip() == __version__
