"""`ares review` in a terminal: one key an answer, files both ways, and a bad row costs a line and nothing else."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from ares.console import report_long_steps
from ares.settings import Settings
from ares.workspace import open_workspace
from ares_app.cli.review import _read_key
from tests.app.cli.conftest import Refused
from tests.ares.review.conftest import CAPTIONER, make_annotation
from tests.ares.review.measured_world import accept_captions, add_graded, answer_items
from tests.ingesting import ingest_paths
from tests.workspaces import CommandResult, copy_workspace

Run = Callable[..., CommandResult]


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
def run(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_ares: Run) -> Run:
    """Runs a command on a copy, with keys that are typed."""
    copy_workspace(template, tmp_path / "ws")

    def call(*arguments: object, keys: str = "", workspace: str = "ws", person: str = "Ada") -> CommandResult:
        monkeypatch.setattr("sys.stdin", io.StringIO(keys))
        monkeypatch.setenv("ARES_PERSON", person)
        return run_ares(*arguments, "-w", tmp_path / workspace)

    return call


def _answers(run: Run, workspace: str = "ws") -> list[tuple[str, str, str]]:
    listed = run("review", "list", "--person", "Ada", "--json", workspace=workspace).json
    return sorted((row["subject_id"], row["question"], row["verdict"]) for row in listed)


def test_keys_answer_undo_and_stop_and_the_next_call_goes_on(run: Run) -> None:
    done = run("review", "next", keys="yynuq")
    assert done.status == 0 and "queue review: 4 items" in done.err and "=lift the lid" in done.err
    assert "2 of 4; you: 2 of 4; 2 met" in done.out and "/review?queue=review" in done.err
    guideline = ("yes: everything that is said", '"put the mug on the shelf"', "y yes, n no, c cannot tell")
    assert all(text in done.err for text in guideline)
    done = run("review", "next", keys="?cc")
    assert "4 of 4" in done.out and "nothing is left for you" in done.out and done.err.count("the mug") == 2
    assert sorted(verdict for _, _, verdict in _answers(run)) == ["met", "met", "unsure", "unsure"]
    document = run("review", "next", "--json").json
    assert document["item"] is None and document["progress"]["answered"] == 4


@pytest.mark.parametrize("name", ["answers.csv", "answers.jsonl"])
def test_files_of_answers_go_both_ways_and_are_equal(
    name: str, run: Run, template: Path, tmp_path: Path
) -> None:
    run("review", "next", keys="ync")
    path = tmp_path / name
    done = run("review", "export", path)
    assert (done.status, done.out) == (0, f"wrote 3 answers to {path}\n")
    copy_workspace(template, tmp_path / "other")
    trusting = ("review", "import", path, "--trust-answers-of", "Ada", "--json")
    document = run(*trusting, workspace="other").json
    assert (document["stored"], document["uncounted"]) == (3, {})
    assert _answers(run, "other") == _answers(run)
    again = run("review", "import", path, "--json", workspace="other").json
    assert (again["stored"], again["known"]) == (0, 3)


def test_the_list_of_a_queue_has_the_text_and_the_reason_of_each_answer(run: Run, tmp_path: Path) -> None:
    run("review", "next", keys="n")
    path = tmp_path / "answers.jsonl"
    run("review", "export", path)
    row = {**json.loads(path.read_text()), "reason": "the lid is closed", "person": "Ben"}
    path.write_text(json.dumps({**row, "text": "=close the lid"}))
    assert run("review", "import", path).status == 0
    (answer,) = csv.DictReader(io.StringIO(run("review", "list", "--person", "Ben", "--output", "csv").out))
    assert (answer["verdict"], answer["reason"]) == ("unmet", "the lid is closed")
    text = run("review", "list", "--person", "Ben").out
    assert "the lid is closed" in text and "=close the lid" in text


def test_bad_rows_cost_a_line_each_and_the_others_are_stored(run: Run, tmp_path: Path) -> None:
    run("review", "next", keys="y")
    path = tmp_path / "answers.jsonl"
    run("review", "export", path)
    good = json.loads(path.read_text())
    wrong = ({"verdict": "yes"}, {"subject_id": "ffff"}, {"slots": {"object": 3}}, {"item": "first"})
    rows = [[1], {"question": "acceptable"}, *({**good, **change} for change in (*wrong, {"person": "Ben"}))]
    path.write_text("\n".join(["no json", *map(json.dumps, rows)]))
    done = run("review", "import", path)
    first, second = done.out.splitlines()
    assert done.status == 1
    assert first == "stored 1 answer, 0 count from now on; 0 counted already, 7 bad rows"
    assert "not counted: Ben 1; the same file with --trust-answers-of Ben lets them count" in second
    assert [line.split(":")[0] for line in done.err.splitlines()] == [f"row {n}" for n in range(1, 8)]
    assert run("review", "import", tmp_path / "answers.txt").status == 2


def test_an_answer_is_taken_back_by_its_id_and_filters_follow(run: Run) -> None:
    run("review", "next", keys="yq")
    (row,) = run("review", "list", "review", "--json").json
    done = run("undo", row["answer_id"], person="Ben")
    assert done.status == 2 and "the answer is of Ada" in done.err
    done = run("undo", row["answer_id"])
    assert done.status == 0 and f"took back answer {row['answer_id']}" in done.out
    assert run("review", "list", "review", "--json").json == []


def test_items_whose_answers_do_not_count_any_more_are_asked_again(run: Run, tmp_path: Path) -> None:
    run("review", "next", keys="yyyy")
    path = tmp_path / "answers.jsonl"
    run("review", "export", path)
    rows = run("review", "list", "review", "--json").json
    ids = [row["answer_id"] for row in rows]
    assert ids[0] in run("undo", *ids).out
    assert run("review", "list", "--json").json[0]["progress"]["answered"] == 0
    run("review", "import", path, "--trust-answers-of", "Ada")
    assert run("review", "list", "--json").json[0]["progress"]["answered"] == 4
    run("undo")
    assert run("review", "list", "--json").json[0]["progress"]["answered"] == 0
    assert "one action is taken back at a time" in run("undo", "1", "2").err


def test_the_end_says_until_when_somebody_else_is_asked(run: Run) -> None:
    run("review", "next", keys="q")
    run("review", "next", "--json", person="Ben")
    done = run("review", "next", keys="yyyy")
    assert re.search(
        r"nothing is left for you; somebody else is asked what is left, until \d\d:\d\d: 3 of 4", done.out
    )


def test_no_line_of_a_long_step_comes_while_a_person_thinks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ares.console.LINE_SECONDS", 0.05)
    keyboard, terminal = pty.openpty()
    with os.fdopen(terminal, encoding="utf-8") as stdin, report_long_steps("ares review next"):
        monkeypatch.setattr("sys.stdin", stdin)
        timer = threading.Timer(0.5, os.write, [keyboard, b"y"])
        timer.start()
        assert _read_key() == "y"
    timer.join()
    os.close(keyboard)
    assert "so far" not in capsys.readouterr().err


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    """60 accepted captions of lids."""
    path = tmp_path / "graded"
    with open_workspace(str(path), Settings(), create=True) as opened:
        add_graded(opened.stores, "+" * 60)
    return path


def test_a_measurement_opens_a_clip_for_each_question_and_ends_with_the_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four captions, that a judge has accepted; all are asked."""
    with open_workspace(str(tmp_path / "ws"), Settings()) as opened:
        accept_captions(opened.stores)
    opened_clips: list[str] = []

    def open_clip(address: str) -> bool:
        opened_clips.append(address)
        return True

    monkeypatch.setattr("webbrowser.get", lambda: SimpleNamespace(open=open_clip))
    done = run("review", "measure", "video", "--at-least", "0.95", keys="yunq")
    assert "frames that decide: 0.5 s" in done.err and "=lift the lid" in done.err
    assert "video: accepted captions: 0 % true, at least 0 % (1 answer of 1 person)" in done.out
    assert all(address.startswith("file://") for address in opened_clips) and len(opened_clips) >= 2
    document = run("review", "measure", "video", "--json").json
    assert (document["answers"], document["true"], document["item"]) == (1, 0, None), "95 % cannot be shown"
    assert run("status", "--json").json["measured"]["video"]["caption"]["answers"] == 1


def test_where_no_clip_can_be_opened_nothing_is_asked_and_the_page_is_named(
    run: Run, graded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webbrowser.get", lambda: webbrowser.GenericBrowser("lynx"))
    done = run("review", "measure", "lids", keys="yyq", workspace="graded")
    (queue,) = run("review", "list", "--json", workspace="graded").json
    assert done.err == (
        f"no clip can be opened here: start `ares app` and answer at /review?queue={queue['name']}\n"
    )
    assert "not measured: 36 answers without an error would show 90 %" in done.out
    assert (queue["progress"]["answered"], queue["progress"]["busy_until"]) == (0, 0)


def test_a_set_of_measured_captions_is_refused_until_they_are(
    run: Run, graded: Path, refused: Refused
) -> None:
    gate = ("set", "create", "true", "--where", "num_steps > 0", "--min-precision", "0.9")
    line = "lids: not measured; 36 answers without an error would show 90 %: ares review measure lids"
    assert line in refused(*gate, "-w", graded)
    with open_workspace(str(graded), Settings()) as opened:
        answer_items(opened.review.measure("lids", person="Ada"), 50)
        opened.sync()
    made = run(*gate, "--json", workspace="graded").json
    assert (made["episodes"], made["recipe"]["min_precision"]) == (60, 0.9)
    assert "at least 90 % (36 answers of 1 person)" in run("set", "show", "true", workspace="graded").err
    status = run("status", workspace="graded").out
    assert "accepted captions: 100 % true, at least 90 % (36 answers of 1 person)" in status
    assert "95 % of true captions is not shown" in refused(*gate[:-1], "0.95", "-w", graded)


def test_wrong_queues_are_refused(template: Path, refused: Refused) -> None:
    for arguments, message in (
        (("next", "none"), "no queue 'none'"),
        (("create", "a/b"), "cannot be the name of a queue"),
        (("create", "a", "--question", "NOPE"), "no question 'NOPE'"),
        (("create", "a", "--random", "0"), "a queue needs items"),
        (("create", "a", "--where", "num_steps < 0"), "nothing to ask about"),
        (("measure", "none"), "dataset 'none' has no accepted captions"),
        (
            ("measure", "video", "--question", "nope"),
            "no question 'nope': there are: caption, segment, success, instruction",
        ),
        (("measure", "video", "--at-least", "1"), "a share of 1 cannot be shown"),
    ):
        assert message in refused("review", *arguments, "-w", template)
