"""The wording model's settings: off by default, whole or not at all, and the key is never shown."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bat_events.cli.main import app
from bat_events.errors import ConfigurationError
from bat_events.settings import load_settings

KEY = "sk-unlikely-to-stand-anywhere"
MODEL = "endpoint: 'http://127.0.0.1:9/v1', model: m"


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_no_model_is_asked_by_default() -> None:
    assert load_settings().synthesis.endpoint is None


def test_a_model_comes_from_file_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("bat-events.yaml").write_text(f"synthesis: {{{MODEL}, retries: 1}}\n")
    monkeypatch.setenv("BAT_SYNTHESIS__API_KEY", KEY)
    found = load_settings().synthesis
    assert (found.model, found.retries) == ("m", 1)
    assert found.api_key is not None
    assert found.api_key.get_secret_value() == KEY
    assert KEY not in repr(found)


def test_the_settings_command_does_not_show_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("bat-events.yaml").write_text(f"synthesis: {{{MODEL}}}\n")
    monkeypatch.setenv("BAT_SYNTHESIS__API_KEY", KEY)
    shown = CliRunner().invoke(app, ["settings"])
    assert shown.exit_code == 0
    assert "api_key: '**********'" in shown.stdout
    assert KEY not in shown.stdout


@pytest.mark.parametrize(
    ("synthesis", "words"),
    [
        ("{endpoint: 'http://h/v1'}", "endpoint and model belong together"),
        (f"{{model: m, api_key: {KEY}}}", "endpoint and model belong together"),
        (f"{{{MODEL}, api_key: {KEY}, api_key_file: key}}", "api_key and api_key_file are both given"),
        ("{endpoint: 'h:80', model: m}", "synthesis.endpoint"),
        (f"{{endpoint: 'http://me:{KEY}@h/v1', model: m}}", "synthesis.endpoint"),
        (f"{{endpoint: 'http://h/v1?key={KEY}', model: m}}", "synthesis.endpoint"),
        ("{endpoint: 'http://h/v1', model: two words}", "synthesis.model"),
        (f"{{{MODEL}, api_key: [{KEY}]}}", "synthesis.api_key"),
        (f"{{{MODEL}, apikey: {KEY}}}", "synthesis.apikey"),
        (f"{{{MODEL}, concurrency: 0}}", "synthesis.concurrency"),
        (f"{{{MODEL}, timeout_s: 0}}", "synthesis.timeout_s"),
        (KEY, "synthesis"),
    ],
)
def test_what_is_wrong_is_named_and_no_key_is_shown(synthesis: str, words: str) -> None:
    Path("bat-events.yaml").write_text(f"synthesis: {synthesis}\n")
    with pytest.raises(ConfigurationError, match=words) as error:
        load_settings()
    assert KEY not in str(error.value)


@pytest.mark.parametrize("part", ["judge", "judge.shadow"])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("{endpoint: 'http://h/v1'}", "endpoint and model belong together"),
        (f"{{model: m, api_key: {KEY}}}", "endpoint and model belong together"),
        (f"{{{MODEL}, api_key: {KEY}, api_key_file: key}}", "api_key and api_key_file are both given"),
        (f"{{endpoint: 'http://me:{KEY}@h/v1', model: m}}", "endpoint"),
        (f"{{{MODEL}, apikey: {KEY}}}", "apikey"),
        (f"{{{MODEL}, requests_per_minute: 0}}", "requests_per_minute"),
        (KEY, "judge"),
    ],
)
def test_a_judges_settings_are_whole_and_show_no_key(part: str, given: str, words: str) -> None:
    Path("bat-events.yaml").write_text(f"judge: {{shadow: {given}}}\n" if "." in part else f"judge: {given}\n")
    with pytest.raises(ConfigurationError, match=words) as error:
        load_settings()
    assert KEY not in str(error.value)


def test_the_evidence_judges_alone_by_default_and_a_shadow_needs_no_first_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = load_settings().judge
    assert (found.endpoint, found.shadow.endpoint, found.temperature, found.shadow.share) == (None, None, 0.0, 0.1)
    monkeypatch.setenv("BAT_JUDGE__SHADOW__ENDPOINT", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("BAT_JUDGE__SHADOW__MODEL", "second")
    assert load_settings().judge.shadow.model == "second"
