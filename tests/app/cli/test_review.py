"""`ares review` in a terminal: one key an answer, files both ways, and a bad row costs a line and nothing else."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import main
from ares.settings import Settings
from ares.workspace import open_workspace
from tests.ares.review.conftest import CAPTIONER, make_annotation
from tests.ingesting import ingest_paths

Run = Callable[..., tuple[int, Any, str]]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    """Four captions."""
    path = tmp_path_factory.mktemp("review") / "ws"
    with open_workspace(str(path), Settings()) as opened:
        ingest_paths(opened.stores, [str(demo_samples / "video")], limit=4, quiet=True)
        opened.stores.annotations.add_producer(CAPTIONER)
        for episode_id in opened.stores.tables.episodes.ids():
            value = {"text": "=lift the lid", "caption": "=lift the lid"}
            opened.stores.annotations.append([make_annotation(CAPTIONER, episode_id, episode_id, value)])
        opened.sync()
    return path


@pytest.fixture
def run(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    shutil.copytree(template, tmp_path / "ws")

    def call(*arguments: str, keys: str = "", workspace: str = "ws") -> tuple[int, Any, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(keys))
        status = main([*arguments, "-w", str(tmp_path / workspace)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


def _answers(run: Run, workspace: str = "ws") -> list[tuple[str, str, str]]:
    _, out, _ = run("review", "list", "--person", "Ada", "--json", workspace=workspace)
    return sorted((row["subject_id"], row["question"], row["verdict"]) for row in json.loads(out))


def test_keys_answer_undo_and_stop_and_the_next_call_goes_on(run: Run) -> None:
    status, out, err = run("review", "next", "--person", "Ada", keys="yynuq")
    assert status == 0 and "queue review: 4 items" in err and "=lift the lid" in err
    assert "2 of 4" in out and "yours: 2" in out
    assert "met: everything that is said" in err and '"put the mug on the shelf"' in err, "the guideline"
    status, out, err = run("review", "next", "--person", "Ada", keys="x??")
    assert "4 of 4" in out and "nothing is left for you" in out
    assert sorted(verdict for _, _, verdict in _answers(run)) == ["met", "met", "unsure", "unsure"]
    status, out, _ = run("review", "next", "--person", "Ada", "--json")
    assert json.loads(out)["item"] is None and json.loads(out)["progress"]["answered"] == 4


def test_files_of_answers_go_both_ways_and_are_equal(run: Run, template: Path, tmp_path: Path) -> None:
    run("review", "next", "--person", "Ada", keys="yn?")
    before = _answers(run)
    for name in ("answers.csv", "answers.jsonl"):
        path, other = tmp_path / name, f"other-{name}"
        assert run("review", "export", str(path))[:2] == (0, f"wrote 3 answers to {path}\n")
        shutil.copytree(template, tmp_path / other)
        trusting = ("review", "import", str(path), "--trust-answers-of", "Ada", "--json")
        status, out, _ = run(*trusting, workspace=other)
        assert (status, json.loads(out)["stored"], json.loads(out)["uncounted"]) == (0, 3, {})
        assert _answers(run, other) == before
        again = json.loads(run("review", "import", str(path), "--json", workspace=other)[1])
        assert (again["stored"], again["known"]) == (0, 3)


def test_the_list_of_a_queue_has_the_text_and_the_reason_of_each_answer(run: Run, tmp_path: Path) -> None:
    run("review", "next", "--person", "Ada", keys="n")
    path = tmp_path / "answers.jsonl"
    run("review", "export", str(path))
    row = {**json.loads(path.read_text()), "reason": "the lid is closed", "person": "Ben"}
    path.write_text(json.dumps({**row, "text": "=close the lid"}))
    assert run("review", "import", str(path))[0] == 0
    (answer,) = csv.DictReader(io.StringIO(run("review", "list", "--person", "Ben", "--output", "csv")[1]))
    assert (answer["verdict"], answer["reason"]) == ("unmet", "the lid is closed")
    text = run("review", "list", "--person", "Ben")[1]
    assert "the lid is closed" in text and "=close the lid" in text


def test_bad_rows_cost_a_line_each_and_the_others_are_stored(run: Run, tmp_path: Path) -> None:
    run("review", "next", "--person", "Ada", keys="y")
    path = tmp_path / "answers.jsonl"
    run("review", "export", str(path))
    good = json.loads(path.read_text())
    rows = [
        "no json",
        json.dumps([1]),
        json.dumps({"question": "acceptable"}),
        json.dumps({**good, "verdict": "yes"}),
        json.dumps({**good, "subject_id": "ffff"}),
        json.dumps({**good, "slots": {"object": 3}}),
        json.dumps({**good, "item": "first"}),
        json.dumps({**good, "person": "Ben"}),
    ]
    path.write_text("\n".join(rows))
    status, out, err = run("review", "import", str(path))
    first, second = out.splitlines()
    assert status == 1 and first == "stored 1 answer, 0 count from now on; 0 counted already, 7 bad rows"
    assert "not counted: Ben 1; the same file with --trust-answers-of Ben lets them count" in second
    assert [line.split(":")[0] for line in err.splitlines()] == [f"row {number}" for number in range(1, 8)]
    assert run("review", "import", str(tmp_path / "answers.txt"))[0] == 2


def test_an_answer_is_taken_back_by_its_id_and_filters_follow(run: Run) -> None:
    run("review", "next", "--person", "Ada", keys="yq")
    (row,) = json.loads(run("review", "list", "review", "--json")[1])
    status, _, err = run("undo", row["answer_id"], "--person", "Ben")
    assert status == 2 and "the answer is of Ada" in err
    status, out, _ = run("undo", row["answer_id"], "--person", "Ada")
    assert status == 0 and f"took back answer {row['answer_id']}" in out
    assert json.loads(run("review", "list", "review", "--json")[1]) == []


def test_wrong_queues_are_refused(run: Run, tmp_path: Path) -> None:
    for arguments, message in (
        (("review", "next", "none"), "no queue 'none'"),
        (("review", "create", "a/b"), "cannot be the name of a queue"),
        (("review", "create", "a", "--question", "NOPE"), "no question 'NOPE'"),
        (("review", "create", "a", "--repeat", "2"), "a queue needs items"),
        (("review", "create", "a", "--guideline", str(tmp_path)), "the guideline cannot be read"),
        (("review", "create", "a", "--where", "num_steps < 0"), "nothing to ask about"),
    ):
        status, _, err = run(*arguments)
        assert (status, message in err, err.count("\n")) == (2, True, 1), err
