"""HDF5 files of no known family: listed, guessed by --show-spec, and read by a spec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
import yaml
import zarr as zarr_library

from ares.errors import AresError, SourceError
from ares.media import all_frames, frames_at
from ares_ingest.base import SourceOptions
from ares_ingest.operation import show_specs
from tests.ingest.zarr.conftest import write_store
from tests.ingesting import open_sources, request_for

SPEC = """
reference: me
rate_hz: 20
state:
  - {key: arm/angles, start: 1, names: [b, c], unit: rad}
action:
  - {key: wanted, names: [u]}
cameras: {eye: {key: KEY, channels: bgr}}
success: good
language: [goal]
"""


@pytest.mark.parametrize("groups", [("",), ("trial_2", "trial_10")])
def test_a_spec_reads_them_and_without_one_they_are_refused(tmp_path: Path, groups: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    angles, wanted = rng.random((6, 3)).astype(np.float32), rng.random((5, 2)).astype(np.float32)
    images = rng.integers(0, 255, (6, 8, 8, 3), np.uint8)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number, name in enumerate(groups):
            group = file.require_group(name) if name else file
            group["arm/angles"], group["wanted"], group["eye"] = angles + number, wanted, images
            group.attrs["goal"], group.attrs["good"] = "close it", True
    (plain,) = open_sources([str(tmp_path)])
    with pytest.raises(SourceError, match=r"no known family: .*holds .*angles.*--spec spec.yaml"):
        next(iter(plain.items)).load()
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.replace("KEY", "eye"))
    (source,) = open_sources([str(tmp_path)], SourceOptions(spec=str(spec)))
    records = [item.load() for item in source.items]
    assert [record.episode.key for record in records] == [f"a.h5/{name}".rstrip("/") for name in groups]
    for number, record in enumerate(records):
        state, action = record.trajectory.state, record.trajectory.action
        assert state is not None and action is not None and state.names == ("b", "c")
        np.testing.assert_array_equal(state.values, (angles + np.float32(number))[:5, 1:])
        np.testing.assert_array_equal(action.values, wanted)
        assert record.episode.cameras[0].media.channels == "bgr"
        assert (record.episode.success, record.episode.instruction) == (True, "close it")
        assert (record.episode.rate_hz, record.episode.rate_source) == (20.0, "spec")
    frame = next(iter(frames_at(records[0].episode.cameras[0].media, [0.2])))
    np.testing.assert_array_equal(frame, images[4][..., ::-1])
    shown = show_specs(request_for([str(tmp_path)]))
    assert "#   arm/angles (T x 3 float32)" in shown and "key: wanted" not in shown


LAYOUT = """
reference: our simulator
layout:
  match: [[rollouts]]
  episodes: rollouts/*
  action: [[commands]]
  state: [[joints/position, joints/velocity]]
  names: {action: [grip]}
  left_out: {debug*: debug is not stored}
  rate: [{per: 1000, divided_by: [parent.step_ms, attributes.substeps]}]
  robot: UR5e
  language: [[attributes.task], [notes.text]]
  success: [attributes.done]
  beside: {notes: {path: "{stem}.json"}}
  path: ['.*/(?P<split>train|val)/']
  metadata: [attributes]
  variants:
    - {when: {commands: 2}, names: {action: [reach, grip]}, robot: two fingers}
"""


def test_a_spec_says_the_layout_of_files_in_the_language_of_the_shipped_ones(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    folder = tmp_path / "data" / "val"
    folder.mkdir(parents=True)
    values = {
        name: rng.random((6, width)).astype(np.float32) for name, width in (("position", 3), ("velocity", 2))
    }
    with h5py.File(folder / "a.h5", "w") as file:
        for number in (10, 2):
            group = file.create_group(f"rollouts/try_{number}")
            group["commands"], group["debug_1"] = rng.random((6, 2)), rng.random((6, 4))
            for name, rows in values.items():
                group[f"joints/{name}"] = rows
            group.attrs.update(substeps=5, done=number == 2, **({"task": "close it"} if number == 2 else {}))
        file["rollouts"].attrs["step_ms"] = 10
    (folder / "a.json").write_text('{"text": "open it"}')
    spec = tmp_path / "spec.yaml"
    spec.write_text(LAYOUT)
    (source,) = open_sources([str(tmp_path / "data")], SourceOptions(spec=str(spec)))
    assert {Path(file.path).name: file.use for file in source.files()} == {
        "a.h5": "data",
        "a.json": "metadata",
    }
    second, tenth = (item.load() for item in source.items)
    assert second.episode.key == "val/a.h5/try_2" and tenth.episode.key == "val/a.h5/try_10"
    assert second.trajectory.state is not None
    np.testing.assert_array_equal(second.trajectory.state.values, np.concatenate([*values.values()], axis=1))
    assert second.episode.action_names == ("reach", "grip") and not second.trajectory.extra
    assert (second.episode.rate_hz, second.episode.rate_source) == (20.0, "source")
    assert (second.episode.robot, second.episode.split) == ("two fingers", "val")
    assert (second.episode.success, second.episode.instruction) == (True, "close it")
    assert (tenth.episode.success, tenth.episode.instruction) == (False, "open it")
    assert second.warnings == ("debug is not stored",)


def with_layout(tmp_path: Path, **fields: Any) -> SourceOptions:
    """Options with a spec of a layout."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(yaml.safe_dump({"reference": "our simulator", "layout": fields}))
    return SourceOptions(spec=str(spec))


def test_episodes_and_masks_may_lie_at_the_top_of_a_file(h5: Any, tmp_path: Path) -> None:
    path = h5.write(
        tmp_path / "in" / "a.h5",
        {"/": {"num_demos": 3}},
        run_0__wanted=h5.numbers(3, 2),
        run_1__wanted=h5.numbers(3, 2),
        masks__train=[b"run_0"],
        masks__valid=[b"run_1", b"run_7"],
    )
    for episodes in ("run_*", "*"):
        options = with_layout(
            tmp_path, match=[["run_*"]], episodes=episodes, masks="masks", action=[["wanted"]]
        )
        (source,) = open_sources([str(path.parent)], options)
        loaded = [item.load().episode for item in source.items]
        assert [(episode.key, episode.split) for episode in loaded] == [
            ("a.h5/run_0", "train"),
            ("a.h5/run_1", "valid"),
        ]
        assert set(source.warnings) >= {
            "num_demos is not the number of demonstrations in the file",
            "a mask names demonstrations that are not in the file",
        }


@pytest.mark.parametrize("has_array", [False, True])
def test_a_layout_whose_group_of_episodes_is_none_names_it(h5: Any, tmp_path: Path, has_array: bool) -> None:
    arrays = {"rollouts": h5.numbers(3)} if has_array else {}
    path = h5.write(tmp_path / "in" / "a.h5", other__wanted=h5.numbers(3, 2), **arrays)
    options = with_layout(tmp_path, match=[["other"]], episodes="rollouts/*", action=[["wanted"]])
    (source,) = open_sources([str(path.parent)], options)
    with pytest.raises(SourceError, match=r"file holds no episode: .*no group rollouts/\*"):
        next(iter(source.items)).load()


def test_a_layout_that_does_not_fit_is_no_reason_to_guess(h5: Any, tmp_path: Path) -> None:
    """A wrong name in `match` had the file read by the names of its arrays."""
    path = h5.write(tmp_path / "in" / "a.h5", rollouts__a__action=h5.numbers(3, 2))
    options = with_layout(tmp_path, match=[["rollout"]], episodes="rollouts/*", action=[["action"]])
    (source,) = open_sources([str(path.parent)], options)
    with pytest.raises(
        SourceError, match=r"of no known family: .*known are those of the spec \(rollout at the top\)"
    ):
        next(iter(source.items)).load()


def test_a_layout_of_a_folder_names_the_file_that_is_lost(h5: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    h5.write(folder / "one" / "run.h5", rollouts__action=h5.numbers(3, 2))
    for name in ("one", "two"):
        (folder / name / "notes").mkdir(parents=True)
    options = with_layout(
        tmp_path, match=[["rollouts"]], folder=["notes"], file="run.h5", action=[["rollouts/action"]]
    )
    (source,) = open_sources([str(folder)], options)
    outcomes = {Path(item.location).parent.name: h5.outcome(item) for item in source.items}
    assert outcomes == {"one": "good", "two": "the file of an episode is missing"}


@pytest.mark.parametrize("format", ["rlds", "npz", "zarr", "video"])
def test_a_layout_for_another_format_is_refused(demo_samples: Path, tmp_path: Path, format: str) -> None:
    path = demo_samples / format
    if format == "npz":
        path = tmp_path / "a.npz"
        np.savez(path, action=np.ones((5, 2)), state=np.ones((5, 3)))
    if format == "zarr":
        path = write_store(tmp_path / "a.zarr")
    for layout, own in (({"match": [["data"]], "action": [["action"]]}, "hdf5"), (ZARR_LAYOUT, "zarr")):
        if own != format:
            with pytest.raises(AresError, match=f"layout is one of {own}, and the data are {format}"):
                open_sources([str(path)], with_layout(tmp_path, **layout))


ZARR_LAYOUT = {"ends": "ends", "arrays": "rows", "time": "clock", "action": [["wish"]], "state": [["pose"]]}


def test_a_layout_says_where_a_store_keeps_its_episodes(tmp_path: Path) -> None:
    root = zarr_library.open_group(str(tmp_path / "in" / "a.zarr"), mode="w")
    arrays = {"wish": np.ones((6, 2)), "pose": np.arange(12.0).reshape(6, 2), "clock": np.arange(6) * 0.5}
    for name, values in arrays.items():
        root.create_array(f"rows/{name}", data=values)
    root.create_array("ends", data=np.array([2, 6]))
    (source,) = open_sources([str(tmp_path / "in")], with_layout(tmp_path, **ZARR_LAYOUT))
    first, second = (item.load() for item in source.items)
    assert (first.episode.num_steps, second.episode.num_steps, second.episode.rate_hz) == (2, 4, 2.0)
    assert second.trajectory.state is not None and second.trajectory.action is not None
    np.testing.assert_array_equal(second.trajectory.state.values, arrays["pose"][2:])
    (source,) = open_sources([str(tmp_path / "in")], with_layout(tmp_path, **ZARR_LAYOUT | {"ends": "end"}))
    with pytest.raises(SourceError, match=r"no known family: .*rows/\* with end, by the layout of the spec"):
        next(iter(source.items)).load()


@pytest.mark.parametrize("turn", [90, "90", "vertical flip", 0])
def test_a_layout_turns_pictures_and_their_size(h5: Any, tmp_path: Path, turn: int | str) -> None:
    pictures = h5.pictures()[:, :8, :16]
    path = h5.write(tmp_path / "in" / "a.h5", run__wanted=h5.numbers(9, 2), run__eye=pictures)
    options = with_layout(tmp_path, match=[["run"]], action=[["run/wanted"]], turn=turn)
    (source,) = open_sources([str(path.parent)], options)
    record = next(iter(source.items)).load()
    (camera,) = record.episode.cameras
    frames = np.stack(list(all_frames(camera.media)))
    expected = {"90": np.rot90(pictures, -1, (1, 2)), "vertical flip": pictures[:, ::-1], "0": pictures}
    np.testing.assert_array_equal(frames, expected[str(turn)])
    assert frames.shape[1:3] == (camera.height, camera.width)
    told = [warning[:40] for warning in record.warnings if "pictures" in warning]
    texts = {"90": ["pictures are turned as the layout says, a"], "0": []}
    assert told == [
        text[:40] for text in texts.get(str(turn), ["pictures are stored with their bottom row first"])
    ]
