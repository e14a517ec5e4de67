"""Signals that one source alone has beside state and action: kept with a mask, or dropped, and said in the plan."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares import open as open_workspace
from ares.episode import Camera, Record, Signal
from ares.errors import RequestError
from ares.workspace import Workspace
from tests.ares.export.conftest import MakeRecord
from tests.ares.export.test_merge_plan import confirmation_texts, freeze, rows_of, save, source, write_plan

EFFORT, TOUCH = ("j0", "j1"), ("thumb",)


def with_extra(record: Record, **extra: Signal) -> Record:
    return replace(record, trajectory=replace(record.trajectory, extra=extra))


def numbers(names: tuple[str, ...], seed: int) -> Signal:
    return Signal(np.random.default_rng(seed).normal(size=(107, len(names))).astype(np.float32), names)


@pytest.fixture
def records(make_record: MakeRecord, front_camera: Camera) -> list[Record]:
    """Three episodes with efforts, one of them also with a touch, and one of another source with a touch of 2."""
    first = source(make_record, "one", range(3), [front_camera])
    (second,) = source(make_record, "two", [3], [front_camera])
    efforts = [with_extra(record, effort=numbers(EFFORT, number)) for number, record in enumerate(first[:2])]
    both = with_extra(first[2], effort=numbers(EFFORT, 2), touch=numbers(TOUCH, 5))
    return [*efforts, both, with_extra(second, touch=numbers(("a", "b"), 6))]


def propose(
    records: list[Record], workspace: Workspace, folder: Path
) -> tuple[Workspace, Path, dict[str, Any]]:
    """The workspace with a set of the records, and the plan of its merge with its file."""
    freeze(workspace, records)
    return workspace, *write_plan(workspace, folder)


def test_a_feature_of_one_source_is_kept_with_a_mask(
    records: list[Record], empty_workspace: Workspace, tmp_path: Path
) -> None:
    ws, path, plan = propose(records, empty_workspace, tmp_path)
    assert plan["features"] == {"feature.effort": [*EFFORT], "feature.touch": [*TOUCH]}
    said = confirmation_texts(plan)
    assert (
        "two lacks feature feature.effort, feature.touch: zeros are written, and mask.feature says so" in said
    )
    assert "feature touch of two has 2 numbers, not 1: it is dropped" in said
    report = ws.export("mix", tmp_path / "out", plan=save(path, plan), quiet=True)
    assert "feature of two that the plan drops: touch" in report.left_out
    assert not [line for line in report.left_out if "signal" in line]
    rows = rows_of(tmp_path / "out")
    lines = (tmp_path / "out/manifest.episodes.jsonl").read_text().splitlines()
    by_id = {line["episode_id"]: line["index"] for line in map(json.loads, lines)}
    masks = {(True, False): 2, (True, True): 1, (False, False): 1}
    for record in records:
        own = rows["episode_index"] == by_id[record.episode.episode_id]
        effort, extra = rows["feature.effort"][own], record.trajectory.extra
        has = ("effort" in extra, "effort" in extra and "touch" in extra)
        masks[has] -= 1
        assert np.array_equal(effort, extra["effort"].values if has[0] else np.zeros((107, 2)))
        assert (rows["mask.feature"][own] == has).all()
    assert not any(masks.values())
    again = open_workspace(tmp_path / "again", create=True)
    again.ingest(tmp_path / "out", quiet=True)
    assert len(again.episodes) == 4


def test_a_feature_that_a_person_drops_is_reported_and_rlds_keeps_the_other(
    records: list[Record], empty_workspace: Workspace, tmp_path: Path
) -> None:
    ws, path, plan = propose(records, empty_workspace, tmp_path)
    del plan["features"]["feature.touch"]
    with pytest.raises(RequestError, match=r"feature 'feature.touch' is not in the merged dataset"):
        ws.export("mix", tmp_path / "early", plan=save(path, plan), quiet=True)
    plan["sources"][0]["features"]["touch"] = "drop"
    plan["sources"][1]["pad"] = ["feature"]
    report = ws.export("mix", tmp_path / "out", format="rlds", plan=save(path, plan), quiet=True)
    assert report.episodes == 4 and "feature of one that the plan drops: touch" in report.left_out
    features = next((tmp_path / "out").rglob("features.json")).read_text()
    assert "feature.effort" in features and "mask.feature" in features and "touch" not in features
    plan["features"] = {"effort": [*EFFORT]}
    with pytest.raises(RequestError, match=r"feature 'effort' begins with 'feature\.'"):
        ws.export("mix", tmp_path / "name", plan=save(path, plan), quiet=True)
