"""The outside harness's command is checked when the settings are read."""

import json
from pathlib import Path

import pytest

from bat_events.errors import ConfigurationError
from bat_events.settings import load_settings


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_a_command_the_evaluator_measures_by_itself() -> None:
    assert load_settings().evaluation.command is None


def test_a_command_comes_from_the_file_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("harness", "--fast", "{checkpoint}", "{request}", "{output}", "{output}")
    Path("bat-events.yaml").write_text(f"evaluation: {{command: {json.dumps(command)}, timeout_s: 60}}\n")
    assert load_settings().evaluation.command == command
    monkeypatch.setenv("BAT_EVALUATION__COMMAND", json.dumps(["other", *command[2:5]]))
    found = load_settings().evaluation
    assert (found.command, found.timeout_s) == (("other", *command[2:5]), 60.0)


@pytest.mark.parametrize(
    ("evaluation", "words"),
    [
        ("{command: []}", "evaluation.command: .*lacks {checkpoint}, {request}, {output}"),
        ("{command: [h, '{request}', '{output}']}", "lacks {checkpoint}: each must stand there as an element"),
        ("{command: [h, '{checkpoint}', '{request}', '--out={output}']}", "lacks {output}"),
        ("{command: [h, '{checkpoint}', '{request}', '{output}', '--log={output}.log']}", "beside other text"),
        ("{command: ['{checkpoint}', '{request}', '{output}']}", "begins with no program"),
        ("{command: ['', '{checkpoint}', '{request}', '{output}']}", "begins with no program"),
        ("{command: h {checkpoint}}", "YAML"),
        ("{command: 'harness {checkpoint} {request} {output}'}", "evaluation.command: "),
        ("{command: [1, '{checkpoint}', '{request}', '{output}']}", "evaluation.command"),
        ("{timeout_s: 0}", "evaluation.timeout_s"),
        ("{attempts: 0}", "evaluation.attempts"),
        ("{protocol: two words}", "evaluation.protocol"),
        ("{environment: [BAT_HOME]}", "BAT_HOME is for this system's own services"),
        ("{environment: ['A=B']}", "'A=B' is no name of a variable"),
        ("{shell: true}", "evaluation.shell"),
    ],
)
def test_what_is_wrong_is_named(evaluation: str, words: str) -> None:
    Path("bat-events.yaml").write_text(f"evaluation: {evaluation}\n")
    with pytest.raises(ConfigurationError, match=words):
        load_settings()
