"""The mapping that is shown is the one that is used, and a spec decides over it; in every format."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from ares.episode import Record, Signal
from ares.errors import RequestError, SourceError
from ingest.base import SourceOptions
from ingest.discovery import discover
from ingest.operation import show_specs
from tests.ingesting import open_sources, request_for
from tests.thinning import some_by_day

SAMPLES = (
    "aloha_hdf5",
    "robosuite_hdf5",
    "so101_chess_lerobot_v21",
    "gr1_sim_lerobot_v20",
    "g1_bottle_lerobot_v30",
    "irregular/so101_record_test",
    "mcap/g1_bottle_episode_0.mcap",
    "openvla_rollout_videos",
    "bridge_rlds",
    "demo/video",
    "demo/rlds",
)


def load_all(path: Path, spec: str = "") -> list[Record]:
    (source,) = open_sources([str(path)], SourceOptions(spec=spec))
    records = []
    for item, _ in zip(source.items, range(4), strict=False):
        with contextlib.suppress(SourceError):
            records.append(item.load())
    return records


def assert_same_signal(left: Signal | None, right: Signal | None) -> None:
    assert (left is None) == (right is None)
    if left is not None and right is not None:
        assert left.names == right.names
        np.testing.assert_array_equal(left.values, right.values)


def assert_same(left: Record, right: Record) -> None:
    assert left.episode == right.episode
    assert set(left.warnings) == set(right.warnings)
    for name in ("state", "action"):
        assert_same_signal(getattr(left.trajectory, name), getattr(right.trajectory, name))
    assert list(left.trajectory.extra) == list(right.trajectory.extra)
    for name, signal in left.trajectory.extra.items():
        assert_same_signal(signal, right.trajectory.extra[name])
    np.testing.assert_array_equal(left.trajectory.timestamps, right.trajectory.timestamps)
    np.testing.assert_array_equal(left.trajectory.reward, right.trajectory.reward)


def write_spec(folder: Path, text: str) -> str:
    path = folder / "spec.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", some_by_day(SAMPLES, 2))
def test_the_spec_that_is_shown_reads_the_same(shared_data: Path, tmp_path: Path, name: str) -> None:
    path = shared_data / name
    if not path.exists():
        path = next(iter(sorted(path.parent.glob("*.mcap"))))
    spec = write_spec(tmp_path, show_specs(request_for([str(path)])))
    for plain, mapped in zip(load_all(path), load_all(path, spec), strict=True):
        assert_same(plain, mapped)


def test_a_spec_decides_over_the_columns_of_lerobot(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "gr1_sim_lerobot_v20"
    plain = load_all(path)[0]
    assert plain.trajectory.state is not None and plain.trajectory.action is not None
    spec = write_spec(
        tmp_path,
        """
reference: me
robot: other
state:
  - {key: action, start: 2, stop: 4, names: [x, y]}
  - {key: observation.state, start: 40, names: [tail]}
language: [{text: put it there}, {path: "gr1_sim_{text}_v20/*/*/*"}]
""",
    )
    mapped = load_all(path, spec)[0]
    assert mapped.trajectory.state is not None
    expected = np.hstack([plain.trajectory.action.values[:, 2:4], plain.trajectory.state.values[:, 40:]])
    np.testing.assert_array_equal(mapped.trajectory.state.values, expected)
    assert mapped.episode.state_names[:3] == ("x", "y", "tail_0")
    np.testing.assert_array_equal(
        mapped.trajectory.extra["observation.state"].values, plain.trajectory.state.values
    )
    assert mapped.episode.instructions[:2] == ("put it there", "lerobot")
    assert mapped.episode.instructions[2:] == plain.episode.instructions
    assert mapped.episode.robot == plain.episode.robot


def test_a_spec_names_cameras_turns_colours_and_leaves_out(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "metaworld_video"
    plain = load_all(path)[0].episode
    first, second = plain.cameras
    spec = write_spec(
        tmp_path,
        f"reference: me\nrate_hz: 25\ncameras:\n  eye: {{key: {first.name}, role: wrist, channels: bgr}}\n"
        f"left_out: [{second.name}]\nsuccess: success\n",
    )
    mapped = load_all(path, spec)[0].episode
    assert [camera.name for camera in mapped.cameras] == ["eye"]
    assert (mapped.cameras[0].role, mapped.cameras[0].media.channels) == ("wrist", "bgr")
    assert (mapped.rate_hz, mapped.rate_source) == (25.0, "spec")
    assert (mapped.success, mapped.success_source) == (True, "success")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("state: [{key: observation.stat, names: [a]}]", "did you mean 'observation.state'? it holds"),
        ("action: [{key: action, start: 2, stop: 999, names: [a]}]", "takes 2 to 999 of action, which has"),
        ("action: [{key: action, start: 2, stop: 4, names: [a, a]}]", "names 'a' twice"),
        ("action: [{key: action, names: [a, b]}]", "2 names for"),
        ("reward: action", "is not one number per step"),
        ("left_out: [acton]", "did you mean 'action'?"),
        ("cameras: {front: {key: nothing}}", "cameras names 'nothing'"),
        ("language: [task.description]", "language names 'task'"),
        ("success: succes", "success names 'succes'"),
        ("timestamps: timestamp", "timestamps names 'timestamp'"),
        ("stat: []", "did you mean 'state'?"),
        ("language: [{text: a, path: b}]", "give either text or path"),
        ("cameras: {front: {key: a, channels: gbr}}", "cameras.front"),
    ],
)
def test_a_spec_that_does_not_fit_is_refused_before_anything_is_stored(
    shared_data: Path, tmp_path: Path, text: str, message: str
) -> None:
    spec = write_spec(tmp_path, f"reference: me\n{text}\n")
    with pytest.raises(SourceError) as caught:
        open_sources([str(shared_data / "gr1_sim_lerobot_v20")], SourceOptions(spec=spec))
    assert message in str(caught.value).replace("Did", "did"), str(caught.value)


def test_the_specs_of_all_datasets_of_a_folder_are_shown(shared_data: Path, tmp_path: Path) -> None:
    for name, folder in (("gr1_sim_lerobot_v20", "lerobot"), ("demo/video", "clips")):
        shutil.copytree(shared_data / name, tmp_path / "lab" / folder)
    np.savez(tmp_path / "lab" / "lone.npz", alpha=np.zeros((4, 2)), beta=np.ones((4, 3)))
    lab = str(tmp_path / "lab")
    opened = open_sources([lab], SourceOptions(reads_unknown=True))
    shown = show_specs(request_for([lab]))
    assert {source.format for source in opened} == {"lerobot", "npz", "video"}
    for source in opened:
        assert f"({source.format})\n" in shown
    texts = shown.split("---\n")
    assert len(texts) == len(opened) and "--write-options FILE" in texts[0]
    spec = write_spec(tmp_path, next(text for text in texts if "(lerobot)" in text))
    for plain, mapped in zip(
        load_all(tmp_path / "lab" / "lerobot"), load_all(tmp_path / "lab" / "lerobot", spec), strict=True
    ):
        assert_same(plain, mapped)
    for read in (discover, show_specs):
        with pytest.raises(
            RequestError, match=r"--spec is for one dataset, and there are [23].*use --options FILE"
        ):
            read(request_for([lab], SourceOptions(spec=spec)))
