"""JSON objects and JSON lines of datasets: what is read, and the error for each fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares.errors import SourceError
from ares.input import parse_json_lines
from ares_ingest.files import read_json_object


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "info.json is not JSON"),
        ("[" * 100_000, "document is nested too deeply"),
        ('{"a":' * 150 + "1" + "}" * 150, "document is nested too deeply"),
        ("\udcff", "info.json is not JSON"),
        ("[1]", "info.json is not a JSON object"),
        ("null", "info.json is not a JSON object"),
    ],
)
def test_a_file_without_an_object_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "info.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SourceError) as caught:
        read_json_object(path)
    assert caught.value.reason == reason and str(path) in caught.value.detail


def test_an_object_is_read_and_a_missing_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "info.json").write_text('{"fps": 10}')
    assert read_json_object(tmp_path / "info.json") == {"fps": 10}
    with pytest.raises(SourceError, match=r"none.json cannot be read: .*No such file"):
        read_json_object(tmp_path / "none.json")


def test_lines_give_objects_and_errors_with_their_numbers() -> None:
    lines = [b'{"a": 1}\n', b"\n", b"{\n", b"3\n", b'{"b": 2}']
    parsed = list(parse_json_lines(lines, Path("tasks.jsonl")))
    assert [number for number, _ in parsed] == [1, 3, 4, 5]
    assert [row for _, row in parsed if isinstance(row, dict)] == [{"a": 1}, {"b": 2}]
    errors = [row for _, row in parsed if isinstance(row, SourceError)]
    assert [error.reason for error in errors] == [
        "metadata line is not JSON",
        "metadata line is not a JSON object",
    ]
    assert errors[1].detail == "tasks.jsonl, line 4: int"


def test_a_line_that_is_nested_too_deeply_fails_alone() -> None:
    lines = [b'{"a": 1}', b'{"a": ' * 150 + b"1" + b"}" * 150, b'{"b": 2}']
    (_, first), (_, error), (_, last) = parse_json_lines(lines, Path("tasks.jsonl"))
    assert (first, last) == ({"a": 1}, {"b": 2}) and isinstance(error, SourceError)
    assert str(error) == "document is nested too deeply: tasks.jsonl, line 2"


def test_deep_lines_of_a_list_of_episodes_cost_their_own_episodes(tmp_path: Path) -> None:
    from ares_ingest.lerobot.metadata import read_json_lines

    path = tmp_path / "episodes.jsonl"
    path.write_text('{"episode_index": 0}\n' + "[" * 150 + "]" * 150 + '\n{"episode_index": 2}\n')
    rows = [row for _, row in read_json_lines(path)]
    assert [isinstance(row, SourceError) for row in rows] == [False, True, False]
