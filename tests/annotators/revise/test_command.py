"""`ares rubric revise`: the price before, what each round has shown, and errors of one line."""

from __future__ import annotations

import json

import pytest

from app.cli.main import main
from ares.workspace import Workspace
from tests.annotators.conftest import ModelServer
from tests.annotators.revise.conftest import CAPTIONER, EPISODES, FLATTERY, JUDGE, Script


@pytest.fixture
def command(graded: Workspace, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command with the models of the server."""
    monkeypatch.setenv("ARES_CAPTION_MODEL", f"openai:{CAPTIONER}@{model_server.url}")
    monkeypatch.setenv("ARES_JUDGE_MODEL", f"openai:{JUDGE}@{model_server.url}")
    monkeypatch.setenv("ARES_PRICE", "1,10")
    return ["rubric", "revise", "-w", str(graded.path), "--seed", "3", "-q"]


def test_the_price_comes_before_and_the_rounds_after(
    command: list[str], script: Script, model_server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--dry-run", "--json"]) == 0
    quote = json.loads(capsys.readouterr().out)
    assert (quote["captions"], quote["refused"], quote["rounds"]) == (EPISODES, EPISODES, 3)
    assert quote["usd"] > quote["first_round"]["usd"] > 0 and not model_server.requests
    script.charmed = frozenset({"VERB"})
    script.revises = lambda caption, prompt: f"{caption} {FLATTERY}"
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "round 1: 8 captions asked again, 8 changed, 8 compared; its captions are not shown" in text
    assert "hidden criteria: after - before: +0.000" in text
    assert "stopped: the hidden criteria are not met more often" in text


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--verbs", "none.yaml"], "guide of verbs cannot be read"),
        (["--captions", "zz"], "no single producer of captions 'zz'"),
        (["--where", "caption IS NULL"], "no caption was graded by this judge and rubric"),
    ],
)
def test_what_cannot_be_revised_is_one_line(
    command: list[str], script: Script, wrong: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, *wrong]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert message in line


def test_something_is_always_told_and_something_hidden(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*command, "--anchors", "1"])
    assert "'1' is no share; give a number between 0 and 1" in capsys.readouterr().err
