"""Tasks of an export: what `task` asks for in every state that a caption can be in, read back from the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from ares.annotation import Annotation, Column, Producer
from ares.curation import CurationSet
from ares.export import TaskSource
from ares.formats import RecordLocation, parse_tf_example, read_record, scan_record_file
from ares.workspace import Workspace
from tests.ares.export.made_episodes import make_record, make_set, read_json, read_rows
from tests.ares.export.segments import append, segment

COLUMNS = {
    "caption": Column(name="caption", type="string", meaning="what is seen"),
    "grade": Column(name="acceptable", type="bool", meaning="whether the caption is true"),
}
SUBJECTS: dict[str, dict[str, Any]] = {
    "caption": {"fills_segments": True},
    "grade": {"subject_kind": "annotation", "after": ("caption",)},
}
# A producer annotates a subject once: further captions and grades of an episode have other producers.
# These are people, and the last one is shown.
PRODUCERS = {
    (name, version): Producer(
        annotator=name, version=str(version), columns=(column,), kind="person", **SUBJECTS[name]
    )
    for name, column in COLUMNS.items()
    for version in range(4)
}


class History(NamedTuple):
    """Captions and grades of an episode, in order of the log, and whether its last caption may be a task.

    A text is a caption; True, False and None are grades of the caption before them.
    """

    events: tuple[str | bool | None, ...]
    may_replace: bool
    may_stand_in: bool


HISTORIES = {
    "none": History((), may_replace=False, may_stand_in=False),
    "not graded": History(("fail to lift",), may_replace=False, may_stand_in=True),
    "acceptable": History(("fail to lift", True), may_replace=True, may_stand_in=True),
    "not acceptable": History(("fail to lift", False), may_replace=False, may_stand_in=False),
    "not decided": History(("fail to lift", None), may_replace=False, may_stand_in=True),
    "a new caption": History(("lift", True, "fail to lift"), may_replace=False, may_stand_in=True),
    "the same caption again": History(("lift", True, "lift"), may_replace=False, may_stand_in=True),
    "a new caption, rejected": History(("lift", True, "drop", False), may_replace=False, may_stand_in=False),
    "accepted at last": History(("lift", False, True), may_replace=True, may_stand_in=True),
    "rejected at last": History(("lift", True, False), may_replace=False, may_stand_in=False),
}
INSTRUCTIONS = ("pick up the ball", "")
CASES = list(product(INSTRUCTIONS, HISTORIES.values()))


def episode_id(number: int) -> str:
    return f"{number:016x}"


def annotations_of(number: int, history: History) -> list[Annotation]:
    annotations: list[Annotation] = []
    caption = ""
    for order, event in enumerate(history.events):
        is_caption = isinstance(event, str)
        name = "caption" if is_caption else "grade"
        value: dict[str, Any] = {"text": event, "caption": event} if is_caption else {"acceptable": event}
        annotation = segment(PRODUCERS[name, order], episode_id(number), (0.0, 5.35), value)
        annotation = (
            annotation if is_caption else replace(annotation, subject=caption, subject_kind="annotation")
        )
        caption = annotation.annotation_id if is_caption else caption
        annotations.append(annotation)
    return annotations


def expected_task(instruction: str, history: History, source: TaskSource) -> tuple[str, str]:
    """Text and source of a task, from the table above."""
    captions = [event for event in history.events if isinstance(event, str)]
    if source == "caption" and history.may_replace:
        return captions[-1], "caption"
    if instruction:
        return instruction, "instruction"
    if source == "instruction" and history.may_stand_in:
        return captions[-1], "caption"
    return "unspecified task", "none"


@pytest.fixture
def cases(ws: Workspace) -> tuple[Workspace, CurationSet]:
    """A workspace with an episode for every case."""
    records = [
        make_record(number, 9, cameras=(), instruction=instruction)
        for number, (instruction, _) in enumerate(CASES)
    ]
    selection = make_set(ws, records)
    made = [annotations_of(number, history) for number, (_, history) in enumerate(CASES)]
    append(ws, list(PRODUCERS.values()), list(chain.from_iterable(made)))
    return ws, selection


def tasks_in_lerobot(folder: Path) -> list[str]:
    """Tasks by episode, from the task numbers of the steps; the episodes file says the same."""
    texts = pq.read_table(folder / "meta" / "tasks.parquet").to_pydict()["__index_level_0__"]
    steps = read_rows(folder)
    episodes = read_rows(folder, "meta/episodes")
    numbers = [{row["task_index"] for row in steps if row["episode_index"] == n} for n in range(len(CASES))]
    tasks = [texts[number] for (number,) in numbers]
    assert [row["ares/episode_id"] for row in episodes] == [episode_id(n) for n in range(len(CASES))]
    assert [row["tasks"] for row in episodes] == [[task] for task in tasks]
    captions = [[event for event in history.events if isinstance(event, str)] for _, history in CASES]
    assert [row["ares/caption"] for row in episodes] == [own[-1] if own else None for own in captions]
    assert sorted(set(tasks)) == sorted(texts)
    return tasks


def tasks_in_rlds(folder: Path) -> list[str]:
    """Tasks by episode; RLDS has an empty text where there is none."""
    (shard,) = folder.rglob("*.tfrecord-*")
    examples = [
        parse_tf_example(read_record(str(shard), span)[0], "test")
        for span in scan_record_file(str(shard))
        if isinstance(span, RecordLocation)
    ]
    texts = [set(example["steps/language_instruction"].bytes_list.value) for example in examples]
    return [text.decode() or "unspecified task" for (text,) in texts]


def tasks_in_parquet(folder: Path) -> list[str]:
    rows = read(folder / "episodes.parquet")
    assert [row["episode_id"] for row in rows] == [episode_id(n) for n in range(len(CASES))]
    return [row["task"] for row in rows]


def read(file: Path) -> Sequence[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    return rows


@pytest.mark.parametrize("source", ["caption", pytest.param("instruction", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("format", "read_tasks"),
    [
        ("lerobot", tasks_in_lerobot),
        ("parquet", tasks_in_parquet),
        ("rlds", tasks_in_rlds),
    ],
)
def test_a_task_is_what_was_asked_for_and_every_episode_is_counted(
    format: str,
    read_tasks: Callable[[Path], list[str]],
    source: TaskSource,
    cases: tuple[Workspace, CurationSet],
    tmp_path: Path,
) -> None:
    workspace, selection = cases
    dest, table = tmp_path / "out", type(workspace.stores.tables.episodes)
    with patch.object(table, "scan", autospec=True, side_effect=table.scan) as scan:
        report = workspace.export(selection, dest, format=format, quiet=True, task=source)
    # To plan, where there are groups, and to write.
    reads = sum("acceptable" in call.args[1] for call in scan.call_args_list)
    assert reads == (1 if format == "parquet" else 2)
    expected = [expected_task(instruction, history, source) for instruction, history in CASES]
    assert read_tasks(dest) == [text for text, _ in expected]
    counts = Counter(name for _, name in expected)
    assert report.task_sources == {name: counts[name] for name in ("instruction", "caption", "none")}
    assert sum(report.task_sources.values()) == report.episodes == len(CASES)
    assert report.tasks == len({text for text, _ in expected})
    manifest = read_json(dest / "manifest.json")
    for document in (report.to_json(), manifest["counts"]):
        assert document["task_source"] == source
        assert document["task_sources"] == dict(report.task_sources)


def test_a_column_of_an_annotator_gives_way_to_the_task(ws: Workspace, tmp_path: Path) -> None:
    import pyarrow as pa

    selection = make_set(ws, [make_record(0)])
    ws.stores.tables.episodes.set_values(
        pa.table({"episode_id": [episode_id(0)], "task": ["an annotator's"]})
    )
    report = ws.export(selection, tmp_path / "out", format="parquet", quiet=True)
    assert report.left_out == ("column task of an annotator",)
    assert [row["task"] for row in read(tmp_path / "out" / "episodes.parquet")] == ["do thing 0"]
