"""The parquet export: every episode, step and annotation of the set, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from ares.annotation import Column, Cost, Producer
from ares.workspace import Workspace
from tests.ares.export.made_episodes import make_record, make_set, read_json
from tests.ares.export.segments import append, segment

PRODUCER = Producer(
    annotator="grade",
    version="1",
    model="judge",
    prompt_hash="abc",
    settings={"rubric": "caption"},
    columns=(Column(name="acceptable", type="bool", meaning="whether it is"),),
)


def test_annotations_of_the_set_are_all_there_and_no_others(ws: Workspace, tmp_path: Path) -> None:
    make_set(ws, [make_record(number) for number in range(3)])
    ids = [f"{number:016x}" for number in range(3)]
    value: dict[str, Any] = {"acceptable": True, "words": ["<b>", "ü"]}
    cost = Cost(calls=1, tokens_in=10, tokens_out=2, usd=None)
    made = [segment(PRODUCER, id, (0.0, 2.5), value) for id in ids]
    annotations = [replace(annotation, frames=(0.0, 1.25), cost=cost) for annotation in made]
    append(ws, [PRODUCER], annotations)
    selection = ws.sets.create("two", ids[:2], {})
    ws.export(selection, tmp_path / "out", format="parquet", quiet=True)
    rows = pq.read_table(tmp_path / "out" / "annotations.parquet").to_pylist()
    assert [row["episode_id"] for row in rows] == ids[:2]
    assert rows[0]["annotation_id"] == annotations[0].annotation_id and rows[0]["frames"] == [0.0, 1.25]
    assert json.loads(rows[0]["value"]) == {"acceptable": True, "words": ["<b>", "ü"]}
    assert (rows[0]["tokens_in"], rows[0]["usd"]) == (10, None)
    manifest = read_json(tmp_path / "out" / "manifest.json")
    assert manifest["makers"][PRODUCER.maker_id]["model"] == "judge" and manifest["rubrics"] == {
        PRODUCER.maker_id: "abc"
    }
    episodes = pq.read_table(tmp_path / "out" / "episodes.parquet").to_pylist()
    assert [row["acceptable"] for row in episodes] == [True, True]


SEGMENTER = Producer(
    annotator="phase",
    version="1",
    columns=(Column(name="phases", type="string", meaning="Phase of every segment.", rollup="list"),),
    fills_segments=True,
)
SEGMENT_COLUMNS = ["annotation_id", "episode_id", "annotator", "segment_id", "start_seconds", "stop_seconds"]
SEGMENT_COLUMNS += ["camera", "text", "maker_id", "style", "author", "phases"]


def test_segments_come_in_the_order_of_the_set_and_of_time(ws: Workspace, tmp_path: Path) -> None:
    ids = [f"{number:016x}" for number in range(3)]
    make_set(ws, [make_record(number) for number in range(3)])
    said = [(1, 0.0, "turn"), (2, 0.5, "shut"), (2, 2.0, "close"), (2, 0.5, "open"), (0, 0.0, "lift")]
    made = [
        segment(SEGMENTER, ids[number], (start, start + 1), {"text": f"{label} it", "phases": label})
        for number, start, label in said
    ]
    made[3] = replace(made[3], revision=7)
    append(ws, [SEGMENTER], made)
    selection = ws.sets.create("two", [ids[2], ids[0]], {})
    ws.export(selection, tmp_path / "out", format="parquet", quiet=True)
    segments = pq.read_table(tmp_path / "out" / "segments.parquet")
    assert segments.column_names == SEGMENT_COLUMNS
    rows = [
        (row["episode_id"], row["start_seconds"], row["text"], row["phases"]) for row in segments.to_pylist()
    ]
    by_id = {
        ids[0]: [(ids[0], 0.0, "lift it", "lift")],
        ids[2]: [(ids[2], 0.5, "open it", "open"), (ids[2], 2.0, "close it", "close")],
    }
    assert rows == [row for id in ws.sets.ids(selection) for row in by_id[id]]
    annotations = pq.read_table(tmp_path / "out" / "annotations.parquet")
    assert annotations.column_names[-4:] == ["subject_kind", "part", "ordinal", "revision"]
    assert sorted(row["revision"] for row in annotations.to_pylist()) == [0, 0, 0, 7]
    assert {(row["subject_kind"], row["part"]) for row in annotations.to_pylist()} == {("episode", "")}


def test_without_segments_there_is_a_file_with_their_columns(ws: Workspace, tmp_path: Path) -> None:
    selection = make_set(ws, [make_record(0)])
    ws.stores.annotations.add_producer(SEGMENTER)
    ws.export(selection, tmp_path / "out", format="parquet", quiet=True)
    segments = pq.read_table(tmp_path / "out" / "segments.parquet")
    assert (segments.num_rows, segments.column_names) == (0, SEGMENT_COLUMNS)


def test_at_a_rate_every_episode_has_its_steps_on_that_clock(
    sample_workspace: Workspace, tmp_path: Path
) -> None:
    report = sample_workspace.export(
        sample_workspace.sets["all"], tmp_path / "out", format="parquet", fps=4, quiet=True
    )
    episodes = pq.read_table(tmp_path / "out" / "episodes.parquet").to_pylist()
    steps = pq.read_table(tmp_path / "out" / "steps.parquet").to_pylist()
    assert (report.episodes, report.frames, report.failed) == (len(episodes), len(steps), 0) and len(
        episodes
    ) == 24
    for row in episodes:
        own = [step["timestamp"] for step in steps if step["episode_id"] == row["episode_id"]]
        stored = sample_workspace.stores.tables.episodes.get_episode(row["episode_id"])
        assert (row["rate_hz"], row["num_steps"]) == (4.0, len(own))
        np.testing.assert_allclose(own, np.arange(len(own)) / 4)
        assert 0 < len(own) < stored.num_steps
    assert report.to_json()["changed"], "the report says what was done to the clocks"
