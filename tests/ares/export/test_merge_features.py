"""Signals that one source alone has beside state and action: kept with a mask, or dropped, and said in the plan."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares import open as open_workspace
from ares.episode import Record, Signal
from ares.errors import RequestError
from ares.workspace import Workspace
from tests.ares.export.made_episodes import FRONT, make_set, read_again, read_manifest
from tests.ares.export.test_merge_plan import confirmation_texts, make_plan, rows_of, save, source, write_plan

EFFORT, TOUCH = ("j0", "j1"), ("thumb",)


def with_extra(record: Record, **extra: Signal) -> Record:
    return replace(record, trajectory=replace(record.trajectory, extra=extra))


def numbers(names: tuple[str, ...], seed: int) -> Signal:
    return Signal(np.random.default_rng(seed).normal(size=(107, len(names))).astype(np.float32), names)


@pytest.fixture
def records() -> list[Record]:
    """Three episodes with efforts, one of them also with a touch, and one of another source with a touch of 2."""
    first = source("one", range(3), [FRONT])
    (second,) = source("two", [3], [FRONT])
    efforts = [with_extra(record, effort=numbers(EFFORT, number)) for number, record in enumerate(first[:2])]
    both = with_extra(first[2], effort=numbers(EFFORT, 2), touch=numbers(TOUCH, 5))
    return [*efforts, both, with_extra(second, touch=numbers(("a", "b"), 6))]


def test_a_feature_of_one_source_is_kept_with_a_mask(
    records: list[Record], ws: Workspace, tmp_path: Path
) -> None:
    path, plan = make_plan(ws, tmp_path, records)
    assert plan["features"] == {"feature.effort": [*EFFORT], "feature.touch": [*TOUCH]}
    said = confirmation_texts(plan)
    assert (
        "two lacks feature feature.effort, feature.touch: zeros are written, and mask.feature says so" in said
    )
    assert "feature touch of two has 2 numbers, not 1: it is dropped" in said
    report = ws.export("made", tmp_path / "out", plan=save(path, plan), quiet=True)
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


@pytest.mark.slow
def test_a_feature_that_a_person_drops_is_reported_and_rlds_keeps_the_other(
    records: list[Record], ws: Workspace, tmp_path: Path
) -> None:
    path, plan = make_plan(ws, tmp_path, records)
    del plan["features"]["feature.touch"]
    with pytest.raises(RequestError, match=r"feature 'feature.touch' is not in the merged dataset"):
        ws.export("made", tmp_path / "early", plan=save(path, plan), quiet=True)
    plan["sources"][0]["features"]["touch"] = "drop"
    plan["sources"][1]["pad"] = ["feature"]
    report = ws.export("made", tmp_path / "out", format="rlds", plan=save(path, plan), quiet=True)
    assert report.episodes == 4 and "feature of one that the plan drops: touch" in report.left_out
    features = next((tmp_path / "out").rglob("features.json")).read_text()
    assert "feature.effort" in features and "mask.feature" in features and "touch" not in features
    plan["features"] = {"effort": [*EFFORT]}
    with pytest.raises(RequestError, match=r"feature 'effort' begins with 'feature\.'"):
        ws.export("made", tmp_path / "name", plan=save(path, plan), quiet=True)


def test_two_features_whose_names_differ_in_a_mark_are_two(ws: Workspace, tmp_path: Path) -> None:
    one, two = (source(name, [number], [], names=("x", "y")) for number, name in enumerate(("one", "two")))
    first = with_extra(one[0], **{"touch.tip": numbers(("t",), 1), "touch/tip": numbers(("t",), 2)})
    second = with_extra(two[0], **{"touch/tip": numbers(("t",), 3)})
    path, plan = make_plan(ws, tmp_path, [first, second])
    assert plan["sources"][1]["features"]["touch/tip"] == plan["sources"][0]["features"]["touch/tip"]
    ws.export("made", tmp_path / "out", plan=save(path, plan), quiet=True)
    rows = rows_of(tmp_path / "out")
    assert {name for name in rows if name.startswith("feature.")} == {
        "feature.touch.tip",
        "feature.touch.tip_2",
    }
    for record, name in ((first, "touch.tip"), (first, "touch/tip"), (second, "touch/tip")):
        goal = plan["sources"][0]["features"][name]
        own = rows[goal][rows["episode_index"] == int(record is second)].reshape(-1, 1)
        assert np.array_equal(own, record.trajectory.extra[name].values)


@pytest.mark.slow
def test_what_was_padded_once_is_padded_in_every_later_merge(ws: Workspace, tmp_path: Path) -> None:
    whole = [with_extra(own, effort=numbers(EFFORT, 1)) for own in source("one", range(2), [])]
    part = source("two", [2], [], names=("shoulder", "elbow", "wrist"))
    path, plan = make_plan(ws, tmp_path, [*whole, *part])
    ws.export("made", tmp_path / "first", plan=save(path, plan), quiet=True)
    again = open_workspace(tmp_path / "again", create=True)
    again.ingest(tmp_path / "first", quiet=True)
    (third,) = source("three", [3], [])
    again.stores.tables.episodes.add([with_extra(third, effort=numbers(EFFORT[::-1], 4))])
    again.sets.create("made", again.stores.tables.episodes.ids(), {})
    (tmp_path / "second").mkdir()
    path, plan = write_plan(again, tmp_path / "second")
    assert plan["masks"] == ["state", "action", "feature"]
    assert list(plan["features"]) == ["feature.effort"]
    assert "feature effort of three is feature.effort of first v3.0, by its name" in confirmation_texts(plan)
    for format in ("lerobot", "rlds"):
        report = again.export("made", tmp_path / format, format=format, plan=save(path, plan), quiet=True)
        assert (report.episodes, report.failed) == (4, 0)
    rows = rows_of(tmp_path / "lerobot")
    lacking = (rows["mask.state"] == (1, 1, 1, 0)).all(axis=1)
    assert lacking.sum() == 107 and (rows["mask.action"][lacking] == (1, 1, 1, 0)).all()
    assert (rows["mask.state"][~lacking] == 1).all() and (rows["observation.state"][lacking, 3] == 0).all()
    assert np.array_equal(rows["mask.feature"].ravel() == 0, lacking)
    written = rows["feature.effort"][
        (rows["observation.state"] == state_of(third)[0]).all(axis=1).argmax() :
    ][:107]
    assert np.array_equal(written, numbers(EFFORT[::-1], 4).values[:, ::-1])


def state_of(record: Record) -> np.ndarray[Any, Any]:
    assert record.trajectory.state is not None
    return record.trajectory.state.values


def test_a_reward_that_is_no_number_fails_alone_with_its_reason(ws: Workspace, tmp_path: Path) -> None:
    records = source("one", range(2), [], reward=True)
    reward = np.full(107, np.nan, np.float32)
    records[1] = replace(records[1], trajectory=replace(records[1].trajectory, reward=reward))
    make_set(ws, records)
    for format in ("lerobot", "lerobot-v2.1", "rlds"):
        report = ws.export("made", tmp_path / format, format=format, quiet=True)
        assert (report.episodes, report.failed) == (1, 1)
        failures = (tmp_path / format / "manifest.failed.jsonl").read_text()
        assert "the reward holds values that are not finite" in failures


@pytest.mark.slow
def test_features_that_differ_between_sources_are_told_ordered_and_masked_in_every_format(
    ws: Workspace, tmp_path: Path
) -> None:
    """Another order and unit, whole numbers beside others, steps without a value, an episode without the signal."""
    count = Signal(np.arange(107, dtype=np.float32)[:, None], ("n",))
    one = [
        with_extra(
            record,
            effort=numbers(EFFORT, number),
            touch=numbers(("tip",), number),
            force=numbers(("f",), number),
            counter=count,
        )
        for number, record in enumerate(source("one", range(3), []))
    ]
    two = source("two", [3, 4], [])
    force = Signal(1000 * numbers(("f",), 8).values, ("f",))
    force.values[5:8] = np.nan
    two[0] = with_extra(
        two[0],
        effort=numbers(("j1", "j0"), 3),
        touch=numbers(("thumb",), 4),
        force=force,
        counter=numbers(("n",), 9),
        note=count,
    )
    path, plan = make_plan(ws, tmp_path, [*one, *two])
    said = confirmation_texts(plan)
    for words in (
        "feature touch of two: thumb are tip of one, by their order",
        "unit and sign are taken as the same; else write 'drop'",
        "feature counter: whole numbers in one, others in two, are taken as the same",
        "feature note of two is in 1 of 2",
        "feature force of two has values that are not finite in 1 sampled episode: 0 is written",
        "one lacks feature feature.note: zeros are written, and mask.feature says so",
    ):
        assert words in said, said
    for format in ("lerobot", "lerobot-v2.1", "rlds"):
        report = ws.export("made", tmp_path / format, format=format, plan=save(path, plan), quiet=True)
        assert (report.failed, len(report.datasets)) == (0, 1)
        assert "values of force of two that are not finite, 0 with a mask" in str(report.left_out)
        ids = {line["index"]: line["episode_id"] for line in read_manifest(tmp_path / format)}
        for number, episode in enumerate(read_again(tmp_path / format)):
            extra = {record.episode.episode_id: record.trajectory.extra for record in (*one, *two)}[
                ids[number]
            ]
            written, mask = episode.trajectory.extra, np.zeros((107, len(plan["features"])))
            for column, (goal, names) in enumerate(plan["features"].items()):
                own = extra.get(goal.removeprefix("feature."))
                if own is None:
                    assert not written[goal].values.any()
                    continue
                values = own.values[
                    :, [*range(len(names))] if goal == "feature.touch" else list(map(own.names.index, names))
                ]
                mask[:, column] = np.isfinite(values).all(axis=1)
                assert np.array_equal(written[goal].values, np.nan_to_num(values)), (format, goal)
            assert np.array_equal(written["mask.feature"].values, mask), format
