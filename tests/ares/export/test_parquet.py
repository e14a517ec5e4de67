"""The parquet export: every episode, step and annotation of the set, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ares.annotation import Annotation, Column, Cost, Maker
from ares.episode import Record
from ares.errors import MediaError
from ares.export import export_parquet
from ares.workspace import Workspace

MAKER = Maker(
    annotator="grade",
    version="1",
    model="judge",
    prompt_hash="abc",
    columns=(Column(name="acceptable", type="bool", meaning="whether it is"),),
)


def make_annotation(episode_id: str, name: str, value: dict[str, Any]) -> Annotation:
    return Annotation(
        episode_id=episode_id,
        name=name,
        value=value,
        maker_id=MAKER.maker_id,
        subject=episode_id,
        start_seconds=0.0,
        stop_seconds=2.5,
        created="2026-01-01T00:00:00+00:00",
        frames=(0.0, 1.25),
        cost=Cost(calls=1, tokens_in=10, tokens_out=2, usd=None),
    )


def test_both_samples_come_out_as_rows(sample_workspace: Workspace, tmp_path: Path) -> None:
    selection = sample_workspace.sets["all"]
    report = export_parquet(sample_workspace.stores, selection, tmp_path / "out", lambda count: None)
    episodes = pq.read_table(tmp_path / "out" / "episodes.parquet").to_pylist()
    steps = pq.read_table(tmp_path / "out" / "steps.parquet").to_pylist()
    assert (report.episodes, report.frames) == (len(episodes), len(steps)) == (24, 1819)
    assert [row["episode_id"] for row in episodes] == list(sample_workspace.sets.ids(selection))
    for row in episodes:
        episode_steps = [step for step in steps if step["episode_id"] == row["episode_id"]]
        expected = sample_workspace.trajectory(row["episode_id"])
        assert [step["step"] for step in episode_steps] == list(range(row["num_steps"]))
        np.testing.assert_array_equal([step["timestamp"] for step in episode_steps], expected.timestamps)
        if expected.state is None:
            assert {step["state"] for step in episode_steps} == {None}
        else:
            np.testing.assert_array_equal(
                np.array([step["state"] for step in episode_steps], np.float32), expected.state.values
            )
    assert episodes[0]["cameras"][0]["name"] in ("front", "image")
    assert "signal discount" in report.left_out


def test_annotations_of_the_set_are_all_there_and_no_others(
    empty_workspace: Workspace,
    make_record: Callable[..., Record],
    make_set: Callable[..., Any],
    tmp_path: Path,
) -> None:
    make_set(empty_workspace, [make_record(number) for number in range(3)])
    ids = [f"{number:016x}" for number in range(3)]
    annotations = [make_annotation(id, "grade", {"acceptable": True, "words": ["<b>", "ü"]}) for id in ids]
    empty_workspace.stores.annotations.add_maker(MAKER)
    empty_workspace.stores.annotations.append(annotations)
    empty_workspace.sync()
    selection = empty_workspace.sets.create("two", ids[:2], {})
    export_parquet(empty_workspace.stores, selection, tmp_path / "out", lambda count: None)
    rows = pq.read_table(tmp_path / "out" / "annotations.parquet").to_pylist()
    assert [row["episode_id"] for row in rows] == ids[:2]
    assert rows[0]["annotation_id"] == annotations[0].annotation_id and rows[0]["frames"] == [0.0, 1.25]
    assert json.loads(rows[0]["value"]) == {"acceptable": True, "words": ["<b>", "ü"]}
    assert (rows[0]["tokens_in"], rows[0]["usd"]) == (10, None)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["makers"][MAKER.maker_id]["model"] == "judge" and manifest["rubrics"] == {
        MAKER.maker_id: "abc"
    }
    episodes = pq.read_table(tmp_path / "out" / "episodes.parquet").to_pylist()
    assert [row["acceptable"] for row in episodes] == [True, True]


def test_a_lost_episode_leaves_no_folder(
    empty_workspace: Workspace,
    make_record: Callable[..., Record],
    make_set: Callable[..., Any],
    tmp_path: Path,
) -> None:
    make_set(empty_workspace, [make_record(0)])
    selection = empty_workspace.sets.create("more", [f"{0:016x}", "feed" * 4], {})
    with pytest.raises(MediaError, match="1 of 2 episodes fail: feedfeedfeedfeed"):
        export_parquet(empty_workspace.stores, selection, tmp_path / "out", lambda count: None, strict=True)
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.tmp").exists()
    report = export_parquet(empty_workspace.stores, selection, tmp_path / "out", lambda count: None)
    assert (report.episodes, report.failed) == (1, 1)
    assert "feedfeedfeedfeed" in (tmp_path / "out" / "manifest.failed.jsonl").read_text()
