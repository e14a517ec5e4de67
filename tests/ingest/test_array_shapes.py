"""Arrays that are no plain (steps, numbers): one step a file, chunks, samples, ragged rows, episodes along an axis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from ares.episode import Record
from ares.errors import AresError, SourceError
from ares_ingest.base import SourceOptions
from ares_ingest.operation import show_specs
from tests.ingesting import open_sources, request_for


def write_npz(path: Path, **arrays: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
    return path


def load_all(path: Path, spec: dict[str, Any] | None = None) -> list[Record]:
    options = SourceOptions()
    if spec is not None:
        file = path.parent / "spec.yaml"
        file.write_text(yaml.safe_dump({"reference": "written by a test", **spec}))
        options = SourceOptions(spec=str(file))
    (source,) = open_sources([str(path)], options)
    return [item.load() for item in source.items]


def walk(rng: np.random.Generator, *shape: int) -> Any:
    return rng.normal(size=shape).cumsum(axis=0).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_files_of_one_time_step_are_no_episodes(tmp_path: Path, seed: int) -> None:
    """A file a step, single rows of unlike length, one picture of each camera, and no numbers in the names."""
    rng = np.random.default_rng(seed)
    widths = {"actions": 7, "robot_obs": 15, "scene_obs": int(rng.integers(8, 30))}
    for letter in "abcdefgh":
        step: dict[str, Any] = {key: rng.normal(size=width) for key, width in widths.items()}
        if rng.random() < 0.7:
            step["rgb_static"] = rng.integers(0, 255, (20, 20, 3), np.uint8)
        write_npz(tmp_path / "training" / f"step_{letter}.npz", **step)
    (source,) = open_sources([str(tmp_path)])
    for item in source.items:
        with pytest.raises(SourceError, match="the file is one time step, not an episode"):
            item.load()


def test_steps_of_equal_length_are_refused_where_a_picture_shows_that_they_are_steps(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 255, (24, 32, 3), np.uint8)
    path = write_npz(tmp_path / "a.npz", action=rng.normal(size=7), state=rng.normal(size=7), rgb=picture)
    with pytest.raises(SourceError, match="the file is one time step, not an episode"):
        load_all(path)


def test_an_episode_of_one_joint_is_an_episode(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (record,) = load_all(write_npz(tmp_path / "a.npz", action=walk(rng, 50), state=walk(rng, 50)))
    assert record.episode.num_steps == 50


@pytest.mark.parametrize(
    ("key", "shape"), [("action", (40, 30, 7)), ("actions", (1000, 16, 2)), ("state", (40, 4, 4))]
)
def test_signals_of_more_than_two_dimensions_are_asked_about(
    tmp_path: Path, key: str, shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    other = "state" if key.startswith("action") else "action"
    path = write_npz(tmp_path / "a.npz", **{key: walk(rng, *shape), other: walk(rng, shape[0], 7)})
    with pytest.raises(SourceError, match="more than two dimensions") as caught:
        load_all(path)
    assert key in str(caught.value) and "--spec" in str(caught.value) and "episode_axis" in str(caught.value)
    spec = show_specs(request_for([str(path)]))
    assert " x ".join(map(str, shape[1:])) in spec and "more than two dimensions" in spec


def test_a_spec_says_that_each_row_of_an_array_is_a_step(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    poses, action = walk(rng, 40, 4, 4), walk(rng, 40, 7)
    path = write_npz(tmp_path / "a.npz", state=poses, action=action)
    (record,) = load_all(path, {"state": [{"key": "state", "names": ["pose"]}]})
    assert record.trajectory.state is not None
    assert np.array_equal(record.trajectory.state.values, poses.reshape(40, 16))


def test_other_arrays_of_more_than_two_dimensions_are_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {"action": walk(rng, 40, 7), "state": walk(rng, 40, 7), "keypoints": walk(rng, 40, 9, 2)}
    (record,) = load_all(write_npz(tmp_path / "a.npz", **arrays))
    assert (
        "keypoints has more than two dimensions (T x 9 x 2); the numbers of a step stand side by side"
        in record.warnings
    )


def test_ragged_actions_fail_their_episode(tmp_path: Path) -> None:
    ragged = np.empty(30, object)
    ragged[:] = [np.zeros(3 + number % 2) for number in range(30)]
    path = write_npz(tmp_path / "a.npz", action=ragged, state=np.zeros((30, 7)))
    with pytest.raises(SourceError, match="a signal cannot be stored") as caught:
        load_all(path)
    assert "action" in str(caught.value) and "pickle" in str(caught.value)


def test_an_action_that_is_too_wide_fails_its_episode_unless_it_is_left_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = write_npz(tmp_path / "a.npz", action=walk(rng, 30, 500), state=walk(rng, 30, 7))
    with pytest.raises(SourceError, match="a signal cannot be stored"):
        load_all(path)
    (record,) = load_all(path, {"left_out": ["action"]})
    assert record.trajectory.action is None and record.trajectory.state is not None


@pytest.mark.parametrize("surplus", [2, 5, 40])
def test_more_observations_than_actions_by_more_than_one_are_a_failure(tmp_path: Path, surplus: int) -> None:
    rng = np.random.default_rng(surplus)
    path = write_npz(tmp_path / "a.npz", action=walk(rng, 30, 7), state=walk(rng, 30 + surplus, 7))
    with pytest.raises(SourceError, match="a signal cannot be stored") as caught:
        load_all(path)
    assert f"{30 + surplus} rows for 30 steps" in str(caught.value)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("episodes", [2, 5])
def test_a_spec_says_along_which_axis_the_episodes_lie(tmp_path: Path, axis: int, episodes: int) -> None:
    rng = np.random.default_rng(axis)
    state, action = rng.normal(size=(episodes, 60, 8)), rng.normal(size=(episodes, 60, 3))
    arrays = {"traj": np.moveaxis(state, 0, axis), "cmd": np.moveaxis(action, 0, axis)}
    path = write_npz(tmp_path / "a.npz", **arrays)
    with pytest.raises(AresError):
        load_all(path)
    shown = show_specs(request_for([str(path)]))
    assert "traj" in shown and "episode_axis" in shown
    named = {name: [{"key": key, "names": [name]}] for name, key in (("state", "traj"), ("action", "cmd"))}
    records = load_all(path, {"episode_axis": axis, **named})
    assert [record.episode.key for record in records] == [f"a.npz/{number}" for number in range(episodes)]
    assert len({record.episode.content_hash for record in records}) == episodes
    for number, record in enumerate(records):
        assert record.trajectory.state is not None and record.trajectory.action is not None
        assert np.array_equal(record.trajectory.state.values, state[number].astype(np.float32))
        assert np.array_equal(record.trajectory.action.values, action[number].astype(np.float32))


@pytest.mark.parametrize("has_axis", [False, True])
def test_pictures_are_no_part_of_episodes_along_an_axis(tmp_path: Path, has_axis: bool) -> None:
    """Pictures without the axis failed every episode."""
    rng = np.random.default_rng(0)
    shape = (3, 60, 8, 8, 3) if has_axis else (180, 8, 8, 3)
    path = write_npz(
        tmp_path / "a.npz", traj=rng.normal(size=(3, 60, 8)), view=rng.integers(0, 255, shape, np.uint8)
    )
    records = load_all(path, {"episode_axis": 0, "state": [{"key": "traj", "names": ["joint"]}]})
    assert [record.episode.num_steps for record in records] == [60, 60, 60]
    where = "along an axis" if has_axis else "without the axis"
    assert all(f"view is not stored (images {where} of episodes)" in record.warnings for record in records)


def test_episodes_too_wide_to_be_read_are_still_shown(tmp_path: Path) -> None:
    """(2, 1262, 8): no array could be read, and the spec that was to help could not be shown."""
    path = write_npz(tmp_path / "a.npz", data=np.zeros((2, 1262, 8), np.float32))
    shown = show_specs(request_for([str(path)]))
    assert "data (T x 1262 x 8 float32)" in shown and "episode_axis" in shown
    records = load_all(path, {"episode_axis": 0, "state": [{"key": "data", "names": ["joint"]}]})
    assert [record.episode.num_steps for record in records] == [1262, 1262]


def test_an_axis_that_the_arrays_do_not_have_is_named(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", data=np.zeros((20, 8), np.float32))
    with pytest.raises(SourceError, match="episode_axis"):
        load_all(path, {"episode_axis": 2, "state": [{"key": "data", "names": ["joint"]}]})


def test_an_axis_is_refused_where_a_format_has_none(tmp_path: Path, demo_samples: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text("reference: x\nepisode_axis: 0\n")
    with pytest.raises(AresError, match="episode_axis"):
        open_sources([str(demo_samples / "video")], SourceOptions(spec=str(file)))
