"""`ares search` prints a score that a person can read and how a hit was found, as table, JSON, JSON lines and CSV."""

from __future__ import annotations

import csv
import io
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ares
from ares.errors import RequestError
from ares.workspace import Workspace
from ares_app.cli.output import write_csv, write_json_lines
from tests.workspaces import CommandResult

Run = Callable[..., CommandResult]
Output = Callable[..., str]


@pytest.fixture
def workspace(video_folder: Path) -> str:
    return str(video_folder)


@pytest.fixture
def output(run_ares: Run, workspace: str) -> Callable[..., str]:
    """What a command prints that succeeds."""

    def run(*arguments: object, at: object = workspace) -> str:
        done = run_ares(*arguments, "-w", at)
        assert done.status == 0, done.err
        return done.out

    return run


def test_the_score_is_absolute_and_the_ways_are_named(workspace: str, output: Output) -> None:
    query = ("search", "push the green drawer closed")
    documents = json.loads(output(*query, "--json"))
    assert documents[0]["score"] == 1.0 and documents[0]["ranks"] == {"captions": 1}
    assert all(0 <= document["score"] <= 1 and document["key"] for document in documents)
    assert [document["ranks"]["captions"] for document in documents] == list(range(1, len(documents) + 1))
    table = output(*query).splitlines()
    assert table[0].split()[:4] == ["episode", "score", "found", "by"]
    assert table[1].split()[:3] == [documents[0]["episode_id"], "1.00", "captions:1"]
    # With a cut, and with another limit, an episode has the same score, in every format.
    cut = {
        hit["episode_id"]: hit["score"] for hit in json.loads(output(*query, "--min-score", "0", "--json"))
    }
    assert all(cut[hit["episode_id"]] == hit["score"] for hit in documents)
    assert output(*query, "--min-score", "0.9").splitlines()[1].split()[1] == "1.00"
    assert ares.open(workspace).search(query[1])[0].score == 1.0


def test_what_is_not_there_is_said_to_be_not_there(workspace: str, run_ares: Run) -> None:
    done = run_ares("search", "banana peel on the green moon", "-w", workspace)
    scores = [float(line.split()[1]) for line in done.out.splitlines()[1:]]
    assert scores and max(scores) < 0.3
    assert "probably not there: the best score is 0." in done.err


def test_without_anything_all_episodes_are_listed_with_their_keys(workspace: str, output: Output) -> None:
    listed = json.loads(output("search", "--json"))
    assert len(listed) == 12 and {hit["score"] for hit in listed} == {None}
    # A list has the order of the sources, and no columns of a ranking.
    assert [hit["key"] for hit in listed] == [episode.key for episode in ares.open(workspace).episodes]
    lines = output("search").splitlines()
    assert lines[0].split() == ["episode", "dataset", "source", "key", "instruction"] and len(lines) == 13


def test_the_formats_have_the_same_hits_and_columns_of_the_episodes(
    workspace: str, output: Output, run_ares: Run
) -> None:
    search = ("search", "drawer", "--columns", "num_steps,rate_source")
    documents = json.loads(output(*search, "--json"))
    assert all(document["num_steps"] > 0 and document["rate_source"] for document in documents)
    assert [json.loads(line) for line in output(*search, "--output", "jsonl").splitlines()] == documents
    rows = list(csv.DictReader(io.StringIO(output(*search, "--output", "csv"))))
    assert [(row["episode_id"], int(row["num_steps"]), json.loads(row["ranks"])) for row in rows] == [
        (document["episode_id"], document["num_steps"], document["ranks"]) for document in documents
    ]
    assert output(*search).splitlines()[0].split()[-2:] == ["num_steps", "rate_source"]
    wrong = run_ares("search", "drawer", "--columns", "num_stepz", "-w", workspace)
    assert "no column named 'num_stepz': did you mean 'num_steps'?" in wrong.err


@pytest.mark.parametrize(
    ("word", "column"),
    [("steps", "'num_steps'"), ("hz", "'rate_hz'"), ("goal", "'instruction'"), ("robot_type", "'robot'"),
     ("camera", "'num_cameras'")],
)  # fmt: skip
def test_words_that_people_type_lead_to_the_column_at_every_door(
    word: str, column: str, workspace: str, run_ares: Run
) -> None:
    commands = [["search", "--where", f"{word} = 1"], ["search", "--columns", word], ["statistics", word]]
    refused = [run_ares(*command, "-w", workspace).err for command in commands]
    with ares.open(workspace) as opened:
        for call in (
            lambda: opened.episodes.sort(word).take(5),
            lambda: opened.episodes.groupby(word),
        ):
            with pytest.raises(RequestError) as error:
                call()
            refused.append(str(error.value))
    for message in refused:
        assert f"did you mean {column}?" in message


def test_metadata_is_a_column_and_so_are_its_keys(
    demo_samples: Path, tmp_path: Path, output: Output, run_ares: Run
) -> None:
    workspace, every = tmp_path / "w", ("--columns", "metadata,metadata.success")
    with ares.open(workspace, create=True) as opened:
        opened.ingest(demo_samples / "rlds", limit=2, quiet=True)
        opened.sets.create("all", where="true")
        assert len(opened.episodes["metadata"]) == 2
    (row, *_) = json.loads(output("search", *every, "--json", at=workspace))
    assert row["metadata"]["success"] is row["metadata.success"]
    for command in (["search"], ["set", "show", "all"], ["show", row["episode_id"]]):
        assert '{"episode_id": ' in output(*command, *every, at=workspace)
    said = run_ares("search", "--columns", "metadata.sucess", "-w", workspace).err
    meant = "no episode has 'sucess' in its metadata: did you mean 'success'? there are: metadata.episode_id"
    assert meant in said
    said = run_ares("search", "--where", "metadata.operator = 'ann'", "-w", workspace).err
    assert 'write contains(metadata, \'"operator": "VALUE"\')' in said


def test_a_set_is_shown_with_what_its_episodes_are(
    video_ws: Workspace, output: Output, tmp_path: Path
) -> None:
    path, show = video_ws.path, ("set", "show", "shown")
    output("set", "create", "shown", "--where", "num_steps > 50", at=path)
    header, first, *_ = output(*show, "--columns", "robot", at=path).splitlines()
    assert header.split() == ["episode", "dataset", "source", "key", "duration", "instruction", "robot"]
    ids = output(*show, "--ids", at=path).split()
    episode = video_ws.episodes[ids[0]]
    assert first.startswith(episode.episode_id) and f"{episode.duration_seconds:.2f} s" in first
    assert episode.instruction in first and episode.key in first
    assert json.loads(output(*show, "--json", at=path))["episode_ids"] == ids
    # A list of ids may be shortened.
    (tmp_path / "ids.txt").write_text(f"{ids[0][:12]}\n")
    assert "short@1: 1 episode" in output("set", "create", "short", tmp_path / "ids.txt", at=path)
    assert output("set", "show", "short", "--ids", at=path).split() == ids[:1]


def test_an_id_may_be_its_unique_start_and_an_ambiguous_one_names_candidates(
    workspace: str, output: Output, run_ares: Run
) -> None:
    ids = [episode.episode_id for episode in ares.open(workspace).episodes]
    first, *others = ids
    start = next(first[:n] for n in range(1, 17) if not any(id.startswith(first[:n]) for id in others))
    assert first in output("show", start.upper())
    like = [json.loads(output("search", "--like", id, "--by", "captions", "--json")) for id in (start, first)]
    assert like[0] == like[1] and first not in [hit["episode_id"] for hit in like[0]]
    digit = next(id[0] for id in ids if sum(other[0] == id[0] for other in ids) > 1)
    err = run_ares("show", digit, "-w", workspace).err
    assert f"several episodes have ids that start with {digit!r}" in err and "give more digits" in err
    assert sum(id in err for id in ids) >= 2


def test_a_name_of_16_digits_is_an_episode_before_it_is_a_dataset(
    tmp_path: Path, demo_samples: Path, output: Output, run_ares: Run
) -> None:
    dataset, own = "0123456789abcdef", tmp_path / "w"
    with ares.open(own, create=True) as opened:
        opened.ingest(demo_samples / "video", dataset=dataset, limit=1, quiet=True)
        (episode,) = opened.episodes.ids()
    assert json.loads(output("show", dataset, "--json", at=own))["dataset"] == dataset
    assert json.loads(output("show", episode, "--json", at=own))["episode_id"] == episode
    assert "no episode 'fedcba9876543210'" in run_ares("show", "fedcba9876543210", "-w", own).err


def test_a_spreadsheet_runs_nothing_and_a_terminal_obeys_nothing() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    row = {"text": "=1+1", "more": "@x", "control": "\x1b[31m", "number": -1.5, "none": None, "list": ["=a"]}
    file, terminal, lines = io.StringIO(), Terminal(), io.StringIO()
    write_csv([row], file)
    (cells,) = csv.DictReader(io.StringIO(file.getvalue()))
    assert cells == {
        "text": "'=1+1", "more": "'@x", "control": "\x1b[31m", "number": "-1.5", "none": "", "list": '["=a"]'
    }  # fmt: skip
    write_csv([row], terminal)
    assert "\x1b" not in terminal.getvalue()
    write_json_lines([{"text": "\x9b31m\u202e\u2028"}], lines)
    assert lines.getvalue().isprintable() or lines.getvalue().strip().isprintable()
    assert json.loads(lines.getvalue()) == {"text": "\x9b31m\u202e\u2028"}


def test_rows_are_written_while_they_are_read() -> None:
    file, seen = io.StringIO(), []

    def rows() -> Any:
        for number in range(3):
            seen.append(file.getvalue().count("\n"))
            yield {"number": number}

    write_json_lines(rows(), file)
    assert seen == [0, 1, 2]


def test_quiet_has_no_messages_and_verbose_has_steps(workspace: str, run_ares: Run) -> None:
    level = logging.getLogger().level
    assert run_ares("status", "-w", workspace, "-q").err == ""
    assert re.search(r"ares status: \d+\.\d\d s", run_ares("status", "-w", workspace, "-v").err)
    assert logging.getLogger().level == level
