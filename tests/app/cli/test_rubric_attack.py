"""`ares rubric attack`: the exit status tells a judge that breaks bounds, and the price comes before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.main import main

# One reply to every request: it fits none of today's requests, so true texts fail as well.
USELESS = 'stub:{"observation": "x", "frames": [1], "verdict": "MET"}'


@pytest.fixture
def workspace(tmp_path: Path, demo_samples: Path) -> str:
    folder = str(tmp_path / "ws")
    main(["ingest", str(demo_samples / "video"), "--limit", "2", "-w", folder, "-q"])
    return folder


def _attack(workspace: str, *more: str) -> int:
    judge = ["--model", USELESS]
    return main(["rubric", "attack", *judge, "--per-family", "1", "-w", workspace, "-q", *more])


def test_a_judge_that_accepts_no_true_text_fails_the_command(
    workspace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert _attack(workspace) == 1
    text = capsys.readouterr().out
    assert "BROKEN" in text and "bounds broken by: exact_truth" in text
    assert _attack(workspace, "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert "exact_truth" in document["broken"] and not document["accepted_falsehoods"]


def test_a_dry_run_says_texts_and_price(workspace: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert _attack(workspace, "--dry-run", "--json") == 0
    quote = json.loads(capsys.readouterr().out)
    assert quote["episodes"] == 2 and quote["texts"] > 30 and quote["calls"] > quote["texts"]
    assert "--truth COLUMN" in quote["warnings"][0]
