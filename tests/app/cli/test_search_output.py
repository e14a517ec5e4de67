"""`ares search` prints a score that a person can read and how a hit was found, as table, JSON, JSON lines and CSV."""

from __future__ import annotations

import csv
import io
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

import ares
from app.cli.main import main
from app.cli.output import write_csv, write_json_lines
from ares.errors import RequestError

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def workspace(demo_samples: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("search_output") / "w")
    assert main(["ingest", "-w", path, str(demo_samples / "video"), "-q"]) == 0
    return path


def output(capsys: Capture, *arguments: str) -> str:
    capsys.readouterr()
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def hits(capsys: Capture, *arguments: str) -> Any:
    return json.loads(output(capsys, "search", *arguments, "--json"))


def test_the_score_is_absolute_and_the_ways_are_named(workspace: str, capsys: Capture) -> None:
    query = ("push the green drawer closed", "-w", workspace)
    documents = hits(capsys, *query)
    assert documents[0]["score"] == 1.0 and documents[0]["ranks"] == {"captions": 1}
    assert all(0 <= document["score"] <= 1 and document["key"] for document in documents)
    assert [document["ranks"]["captions"] for document in documents] == list(range(1, len(documents) + 1))
    table = output(capsys, "search", *query).splitlines()
    assert table[0].split()[:4] == ["episode", "score", "found", "by"]
    assert table[1].split()[:3] == [documents[0]["episode_id"], "1.00", "captions:1"]
    # One thing: with a cut, and with another limit, an episode has the same score, in every format.
    cut = {hit["episode_id"]: hit["score"] for hit in hits(capsys, *query, "--min-score", "0")}
    assert {hit["episode_id"]: cut[hit["episode_id"]] for hit in documents} == {
        hit["episode_id"]: hit["score"] for hit in documents
    }
    assert output(capsys, "search", *query, "--min-score", "0.9").splitlines()[1].split()[1] == "1.00"
    assert ares.open(workspace).search(query[0])[0].score == 1.0


def test_what_is_not_there_is_said_to_be_not_there(workspace: str, capsys: Capture) -> None:
    assert main(["search", "banana peel on the green moon", "-w", workspace]) == 0
    printed = capsys.readouterr()
    scores = [float(line.split()[1]) for line in printed.out.splitlines()[1:]]
    assert scores and max(scores) < 0.3
    assert "probably not there: the best score is 0." in printed.err


def test_without_anything_all_episodes_are_listed_with_their_keys(workspace: str, capsys: Capture) -> None:
    listed = hits(capsys, "-w", workspace)
    assert len(listed) == 12 and {hit["score"] for hit in listed} == {None}
    assert len({(hit["split"], hit["key"]) for hit in listed}) == 12
    # A list has the order of the sources, and no columns of a ranking.
    assert [hit["key"] for hit in listed] == [episode.key for episode in ares.open(workspace).episodes]
    lines = output(capsys, "search", "-w", workspace).splitlines()
    assert lines[0].split() == ["episode", "dataset", "source", "key", "instruction"] and len(lines) == 13


def test_columns_of_the_episodes_are_in_every_format(workspace: str, capsys: Capture) -> None:
    arguments = ("search", "drawer", "--columns", "num_steps,rate_source", "-w", workspace)
    documents = hits(capsys, *arguments[1:])
    assert all(document["num_steps"] > 0 and document["rate_source"] for document in documents)
    assert output(capsys, *arguments).splitlines()[0].split()[-2:] == ["num_steps", "rate_source"]
    rows = list(csv.DictReader(io.StringIO(output(capsys, *arguments, "--output", "csv"))))
    assert [int(row["num_steps"]) for row in rows] == [document["num_steps"] for document in documents]
    assert main(["search", "drawer", "--columns", "num_stepz", "-w", workspace]) == 2
    assert "no column named 'num_stepz': did you mean 'num_steps'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "column"),
    [("length", "'num_steps' or 'duration_seconds'"), ("fps", "'rate_hz'"), ("Task", "'instruction'"),
     ("robot_type", "'robot'"), ("outcome", "'success'"), ("camera", "'num_cameras'")],
)  # fmt: skip
def test_words_that_people_type_lead_to_the_column_at_every_door(
    word: str, column: str, workspace: str, capsys: Capture
) -> None:
    refused = list[str]()
    for arguments in (
        ["search", "--where", f"{word} = 1"],
        ["search", "--columns", word],
        ["statistics", word],
    ):
        if word != "Task" or arguments[0] == "search":
            assert main([*arguments, "-w", workspace]) == 2
            refused.append(capsys.readouterr().err)
    with ares.open(workspace) as opened:
        for call in (
            lambda: opened.episodes.sort(word).take(5),
            lambda: opened.episodes.sql(f'SELECT "{word}" FROM episodes'),
        ):
            with pytest.raises(RequestError) as error:
                call()
            refused.append(str(error.value))
    for message in refused:
        assert f"did you mean {column}?" in message


def test_metadata_is_a_column_and_so_are_its_keys(
    demo_samples: Path, tmp_path: Path, capsys: Capture
) -> None:
    workspace = str(tmp_path / "w")
    assert main(["ingest", "-w", workspace, str(demo_samples / "rlds"), "--limit", "2", "-q"]) == 0
    every = ("--columns", "metadata,metadata.success", "-w", workspace)
    (row, *_) = hits(capsys, *every)
    assert row["metadata"]["success"] is row["metadata.success"]
    assert '{"episode_id": ' in output(capsys, "search", *every)
    output(capsys, "set", "create", "with-metadata", "-w", workspace)
    assert '{"episode_id": ' in output(capsys, "set", "show", "with-metadata", *every)
    assert '{"episode_id": ' in output(capsys, "show", row["episode_id"], *every)
    assert main(["search", "--columns", "metadata.sucess", "-w", workspace]) == 2
    said = capsys.readouterr().err
    assert (
        "no episode has 'sucess' in its metadata: did you mean 'success'? there are: metadata.episode_id"
        in said
    )
    assert main(["search", "--where", "metadata.operator = 'ann'", "-w", workspace]) == 2
    assert 'write contains(metadata, \'"operator": "VALUE"\')' in capsys.readouterr().err
    with ares.open(workspace) as opened:
        counted = opened.episodes.sql(
            "SELECT metadata ->> 'success' AS s, count(*) AS n FROM episodes GROUP BY s"
        )
        assert counted["n"].sum() == len(opened.episodes["metadata"])


def test_a_set_is_shown_with_what_its_episodes_are(workspace: str, capsys: Capture) -> None:
    output(capsys, "set", "create", "shown", "--where", "num_steps > 50", "-w", workspace)
    header, first, *_ = output(
        capsys, "set", "show", "shown", "--columns", "robot", "-w", workspace
    ).splitlines()
    assert header.split() == ["episode", "dataset", "source", "key", "duration", "instruction", "robot"]
    ids = output(capsys, "set", "show", "shown", "--ids", "-w", workspace).split()
    episode = ares.open(workspace).episodes[ids[0]]
    assert first.startswith(episode.episode_id) and f"{episode.duration_seconds:.2f} s" in first
    assert episode.instruction in first and episode.key in first
    document = json.loads(output(capsys, "set", "show", "shown", "--json", "-w", workspace))
    assert document["episode_ids"] == ids


def test_the_formats_have_the_same_hits(workspace: str, capsys: Capture) -> None:
    arguments = ("search", "drawer", "-w", workspace, "--output")
    documents = json.loads(output(capsys, *arguments, "json"))
    assert [json.loads(line) for line in output(capsys, *arguments, "jsonl").splitlines()] == documents
    rows = list(csv.DictReader(io.StringIO(output(capsys, *arguments, "csv"))))
    assert [row["episode_id"] for row in rows] == [document["episode_id"] for document in documents]
    assert [json.loads(row["ranks"]) for row in rows] == [document["ranks"] for document in documents]


def ids_of(workspace: str, capsys: Capture) -> list[str]:
    output(capsys, "set", "create", "all", "-w", workspace)
    return output(capsys, "set", "show", "all", "--ids", "-w", workspace).split()


def test_an_id_may_be_its_unique_start(workspace: str, capsys: Capture) -> None:
    first, *others = ids_of(workspace, capsys)
    start = next(first[:n] for n in range(1, 17) if not any(id.startswith(first[:n]) for id in others))
    assert first in output(capsys, "show", start.upper(), "-w", workspace)
    similar = [hits(capsys, "--like", id, "--by", "captions", "-w", workspace) for id in (start, first)]
    assert similar[0] == similar[1] and first not in [hit["episode_id"] for hit in similar[0]]


def test_an_ambiguous_id_names_candidates(workspace: str, capsys: Capture) -> None:
    ids = ids_of(workspace, capsys)
    digit = next(id[0] for id in ids if sum(other[0] == id[0] for other in ids) > 1)
    assert main(["show", digit, "-w", workspace]) == 2
    err = capsys.readouterr().err
    assert f"several episodes have ids that start with {digit!r}" in err and "give more digits" in err
    assert sum(id in err for id in ids) >= 2


def test_a_name_of_16_digits_is_an_episode_before_it_is_a_dataset(
    workspace: str, capsys: Capture, tmp_path: Path, demo_samples: Path
) -> None:
    first, dataset, own = ids_of(workspace, capsys)[0], "0123456789abcdef", str(tmp_path / "w")
    assert json.loads(output(capsys, "show", first, "-w", workspace, "--json"))["episode_id"] == first
    output(
        capsys, "ingest", str(demo_samples / "video"), "--dataset", dataset, "--limit", "1", "-q", "-w", own
    )
    assert json.loads(output(capsys, "show", dataset, "-w", own, "--json"))["dataset"] == dataset
    (episode,) = ids_of(own, capsys)
    assert json.loads(output(capsys, "show", episode, "-w", own, "--json"))["episode_id"] == episode
    assert main(["show", "fedcba9876543210", "-w", own]) == 2
    assert "no episode 'fedcba9876543210'" in capsys.readouterr().err


def test_a_list_of_ids_may_be_shortened(workspace: str, capsys: Capture, tmp_path: Path) -> None:
    ids = (
        output(capsys, "search", "drawer", "--output", "csv", "-w", workspace).splitlines()[1].split(",")[:1]
    )
    (tmp_path / "ids.txt").write_text(f"{ids[0][:12]}\n")
    text = output(capsys, "set", "create", "short", "--ids", str(tmp_path / "ids.txt"), "-w", workspace)
    assert "short@1: 1 episode" in text
    assert output(capsys, "set", "show", "short", "--ids", "-w", workspace).split() == ids


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


def test_quiet_has_no_messages_and_verbose_has_steps(workspace: str, capsys: Capture) -> None:
    level = logging.getLogger().level
    assert main(["status", "-w", workspace, "-q"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["status", "-w", workspace, "-v"]) == 0
    assert re.search(r"ares status: \d+\.\d\d s", capsys.readouterr().err)
    assert logging.getLogger().level == level
