"""Irregularities of real LeRobot datasets: each is read where possible, and reported."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ares.errors import SourceError
from ares_ingest.lerobot import lerobot
from ares_ingest.lerobot.rows import count_numbers_per_row
from tests.ingest.lerobot.conftest import CAMERA, DATA, STEPS, VIDEO


def test_keys_without_prefix(tmp_path: Path, folders: Any) -> None:
    features = {
        "state": folders.feature(width=2),
        "actions": folders.feature(width=1),
        "top": folders.camera_feature(),
    }
    folder = folders.make(tmp_path / "made", video=False, features=features)
    folders.write_video(folder / VIDEO.format("top", 0))
    plain = folders.columns(0)
    folders.rewrite(
        folder,
        without=["observation.state", "action"],
        state=plain["observation.state"],
        actions=plain["action"],
    )
    assert "keys have no prefix observation." in folders.opened(folder).warnings
    record = folders.first(folder)
    assert record.episode.state_names == ("state_0", "state_1")
    assert record.episode.action_names == ("actions",)
    assert [(camera.name, camera.role) for camera in record.episode.cameras] == [("top", "top")]


def test_parts_of_state_and_action(tmp_path: Path, folders: Any) -> None:
    folder = folders.make(tmp_path / "made", video=False, features={})
    folders.rewrite(
        folder,
        without=["observation.state", "action"],
        observation__state__arm=np.arange(STEPS, dtype=np.float32),
        observation__state__gripper=np.ones(STEPS, np.float32),
        action__arm=np.zeros(STEPS, np.float32),
    )
    record = folders.first(folder)
    assert record.episode.state_names == ("state.arm", "state.gripper")
    assert record.trajectory.state is not None and record.trajectory.state.values[2].tolist() == [2.0, 1.0]
    assert record.episode.action_names == ("action.arm",)


def test_modality_with_keys_of_its_own(tmp_path: Path, folders: Any) -> None:
    features = {"joints": folders.feature(width=2), CAMERA: folders.camera_feature()}
    folder = folders.make(tmp_path / "made", features=features)
    folders.rewrite(folder, without=["observation.state"], joints=folders.columns(0)["observation.state"])
    parts = {"arm": {"start": 0, "end": 1, "original_key": "joints"}}
    folders.write(folder, "modality.json", {"state": parts, "video": {"ego": {"original_key": CAMERA}}})
    record = folders.first(folder)
    assert record.episode.state_names == ("arm", "joints_1")
    assert [camera.name for camera in record.episode.cameras] == ["ego"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "b"], ("a", "b")),
        ([["a", "b"]], ("a", "b")),
        ({"motors": ["a", "b"]}, ("a", "b")),
        ({"b": 1, "a": 0}, ("a", "b")),
        (["a"], ("state_0", "state_1")),
        (["a", "a"], ("state_0", "state_1")),
        (None, ("state_0", "state_1")),
    ],
)
def test_names_in_every_wrapping(
    tmp_path: Path, names: object, expected: tuple[str, ...], folders: Any
) -> None:
    features = {"observation.state": folders.feature(width=2, names=names)}
    folder = folders.make(tmp_path / "made", video=False, features=features)
    assert folders.first(folder).episode.state_names == expected
    assert (
        "names of observation.state are not as many as its dimensions" in folders.opened(folder).warnings
    ) == (names == ["a"])


def test_one_frame_and_no_frame(tmp_path: Path, folders: Any) -> None:
    folder = folders.make(tmp_path / "made", video=False)
    for number, steps in enumerate((1, 0)):
        pq.write_table(pa.table(folders.columns(number, steps)), folder / DATA.format(number))
    length = "length in the metadata is not that of the data"
    assert folders.outcomes(folder) == [length, "episode holds no step"]


MENDED = ", taken between their neighbours"


@pytest.mark.parametrize(
    ("stamps", "warnings", "expected"),
    [
        ([0.05, 0.15, 0.25, 0.35, 0.45, 0.55], ["timestamps do not begin at 0, shifted"], 0.5),
        ([0, 0.1, 0.2, 0.9, 1.0, 1.1], ["timestamps are not even"], 1.1),
        (
            [0, 0.1, 0.1, 0.3, 0.4, 0.7],
            [f"timestamps do not increase{MENDED}", "timestamps are not even"],
            0.7,
        ),
        ([0, 0.1, float("nan"), 0.3, 0.4, 0.5], [f"timestamps are not finite at some steps{MENDED}"], 0.5),
        (None, ["column timestamp is missing"], 0.5),
    ],
)
def test_clocks(
    tmp_path: Path, stamps: list[float] | None, warnings: list[str], expected: float, folders: Any
) -> None:
    folder = folders.make(tmp_path / "made", video=False)
    changed: dict[str, Any] = {"timestamp": np.array(stamps, np.float32)} if stamps else {}
    folders.rewrite(folder, without=["timestamp"], **changed)
    record = folders.first(folder)
    assert list(record.warnings) == warnings
    assert record.trajectory.timestamps[0] == 0
    assert record.trajectory.timestamps[-1] == pytest.approx(expected, abs=1e-6)


def test_lines_that_are_not_json(tmp_path: Path, folders: Any) -> None:
    folder = folders.make(tmp_path / "made", episodes=4)
    listed = {"episode_index": 0, "length": STEPS}
    surrogate = '{"episode_index": 0, "tasks": ["\\ud800"]}'  # half a pair, which no store accepts
    lines = [listed, "{oh", surrogate, [1], {"length": 3}, {"episode_index": 3, "tasks": 0}]
    folders.write(folder, "episodes.jsonl", *lines)
    folders.write(folder, "tasks.jsonl", "nothing", {"task_index": 0, "task": "do it"})
    assert folders.opened(folder).total == 8
    assert "tasks.jsonl has lines that are not JSON objects" in folders.opened(folder).warnings
    assert folders.outcomes(folder) == [
        "good",
        *["metadata line is not JSON"] * 2,
        "metadata line is not a JSON object",
        "metadata has no episode_index",
        "good",
        *["the metadata does not list the episode: read from its files"] * 2,
    ]
    assert folders.first(folder).episode.instruction == "do it"


def test_no_list_of_episodes(tmp_path: Path, folders: Any) -> None:
    folder = folders.make(tmp_path / "made", episodes=3)
    (folder / "meta" / "episodes.jsonl").unlink()
    (folder / DATA.format(1)).unlink()
    assert "the metadata lists no episodes; they are taken from the files" in folders.opened(folder).warnings
    assert folders.outcomes(folder) == ["good", "data file is missing", "good"]
    shutil.rmtree(folder / "data")
    shutil.rmtree(folder / "videos")
    with pytest.raises(SourceError, match="dataset holds no episode"):
        folders.opened(folder)


def test_several_tasks_in_an_episode(tmp_path: Path, folders: Any) -> None:
    folder = folders.make(tmp_path / "made", video=False)
    folders.write(
        folder, "tasks.jsonl", *({"task_index": k, "task": text} for k, text in enumerate(["b", "a", "c"]))
    )
    folders.write(folder, "episodes.jsonl", {"episode_index": 0, "tasks": ["c", "a"], "length": STEPS})
    folders.rewrite(folder, task_index=np.array([1, 1, 0, 0, 0, 1]))
    assert folders.first(folder).episode.instructions == ("a", "b", "c")


@pytest.mark.parametrize(("values", "expected"), [([0, 0, 0, 0, 0, 1], True), ([0] * 6, False)])
def test_outcome_from_an_honest_field_only(
    tmp_path: Path, values: list[int], expected: bool, folders: Any
) -> None:
    folder = folders.make(tmp_path / "made", video=False)
    flags = np.array(values, bool)
    folders.rewrite(folder, next__success=flags)
    episode = folders.first(folder).episode
    assert (episode.success, episode.success_source) == (expected, "next.success")
    folders.rewrite(folder, next__done=flags, next__reward=flags.astype(np.float32))
    record = folders.first(folder)
    assert record.episode.success is None and "next.done" in record.trajectory.extra
    assert record.trajectory.reward is not None and record.trajectory.reward[-1] == values[-1]


def test_columns_that_are_no_signals(tmp_path: Path, folders: Any) -> None:
    folder = folders.make(tmp_path / "made", video=False)
    ragged = pa.array([[1.0]] * 5 + [[1.0, 2.0]], pa.list_(pa.float32()))
    picture = pa.array([{"bytes": b"x", "path": ""}] * STEPS)
    folders.rewrite(
        folder,
        force=ragged,
        matrix=pa.array([[[1.0, 2.0], [3.0, 4.0]]] * STEPS),
        wide=pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(STEPS * 300, np.float32)), 300),
        observation__image=picture,
        language_instruction=pa.array(["say it"] * STEPS),
        scene=pa.array(["kitchen"] * STEPS),
        language_persistent=pa.array([[{"role": "user"}]] * STEPS),
    )
    warnings = folders.opened(folder).warnings
    assert "column wide is wider than 256, left out" in warnings
    assert any(warning.startswith("column language_persistent is of type list<") for warning in warnings)
    record = folders.first(folder)
    assert record.warnings == (
        "column force is not equally wide in every step",
        "camera image left out: its images are neither JPEG nor PNG",
    )
    assert set(record.trajectory.extra) == {"matrix"}
    assert record.trajectory.extra["matrix"].values[0].tolist() == [1, 2, 3, 4]
    assert record.episode.instructions == ("do it", "say it")
    assert record.episode.metadata == {"scene": "kitchen", "missing_cameras": ["image"]}


def test_numbers_that_are_missing_or_not_finite(tmp_path: Path, folders: Any) -> None:
    folder = folders.make(tmp_path / "made", video=False)
    folders.rewrite(folder, action=pa.array([[1.0], [None], [2.0], [float("inf")], [3.0], [4.0]]))
    record = folders.first(folder)
    assert record.warnings == ("column action holds numbers that are not finite",)
    assert record.trajectory.action is not None and np.isnan(record.trajectory.action.values[1, 0])


def test_column_that_one_file_lacks_and_file_of_another_episode(tmp_path: Path, folders: Any) -> None:
    folder = folders.make(tmp_path / "made", episodes=3, video=False)
    folders.rewrite(folder, 1, without=["action"])
    folders.rewrite(folder, 2, episode_index=np.full(STEPS, 7))
    assert folders.outcomes(folder) == [
        "good",
        "column action is missing",
        "episode_index in the data is not that of the file",
    ]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ('{"storage_format": "lance"}', "dataset is not stored as parquet"),
        ('{"codebase_version": "v2.1", "video_path": "../../x"}', "video_path in info.json points outside"),
        ('{"codebase_version": "v2.1", "data_path": "/etc/{episode_index}"}', "data_path in info.json points outside"),
        ('{"codebase_version": "v2.1", "data_path": "{nothing"}', "data_path in info.json is not a path template"),
        (None, "there is no meta/info.json"),
        ("", "info.json is not JSON"),
        ("[1]", "info.json is not a JSON object"),
    ],
)  # fmt: skip
def test_info_that_cannot_be_used_refuses_the_dataset(
    tmp_path: Path, document: str | None, reason: str, folders: Any
) -> None:
    folder = folders.make(tmp_path / "made", video=False)
    (folder / "meta" / "info.json").unlink()
    if document is not None:
        folders.write(folder, "info.json", document)
    with pytest.raises(SourceError, match=reason):
        folders.opened(folder)


@pytest.mark.parametrize(
    ("data_path", "video_path"),
    [
        ("d/{episode_index:04d}.parquet", "movies/{video_key}/take{episode_index}.mp4"),
        ("d/{episode_chunk:02d}-{episode_index}.parquet", "v/{episode_index:08d}/{video_key}_{episode_chunk}.mp4"),
    ],
)  # fmt: skip
def test_files_are_where_info_says(tmp_path: Path, data_path: str, video_path: str, folders: Any) -> None:
    folder = folders.make(tmp_path / "made", data_path=data_path, video_path=video_path)
    videos = []
    for number in range(2):
        values = {"episode_chunk": 0, "episode_index": number}
        target = folder / data_path.format(**values)
        target.parent.mkdir(parents=True, exist_ok=True)
        (folder / DATA.format(number)).rename(target)
        target = folder / video_path.format(**values, video_key=CAMERA)
        target.parent.mkdir(parents=True, exist_ok=True)
        videos.append(str((folder / VIDEO.format(CAMERA, number)).rename(target)))
    assert folders.opened(folder).warnings == () and folders.outcomes(folder) == ["good", "good"]
    records = [item.load() for item in folders.opened(folder).items]
    assert [camera.media.uri for record in records for camera in record.episode.cameras] == videos


def test_files_that_lie_elsewhere_are_told_and_not_guessed(tmp_path: Path, folders: Any) -> None:
    folder = folders.make(tmp_path / "videos")
    (folder / "videos").rename(folder / "movies")
    assert folders.opened(folder).warnings == (
        "camera front of info.json has no video",
        "videos lie where video_path of info.json places none of its cameras: "
        f"{VIDEO.format(CAMERA, 0).replace('videos', 'movies')}; not used",
    )
    assert folders.first(folder).episode.metadata == {"missing_cameras": ["front"]}
    folder = folders.make(tmp_path / "data")
    (folder / "data").rename(folder / "parquet")
    with pytest.raises(SourceError, match="data files are not where info"):
        folders.opened(folder)


def test_a_data_file_of_other_rows_or_in_another_place_is_not_used(tmp_path: Path, folders: Any) -> None:
    folder = folders.make(tmp_path / "made", video=False)
    pq.write_table(pa.table({"label": ["a"]}), folder / "labels.parquet")
    assert folders.opened(folder).warnings == ()
    shutil.copy(folder / DATA.format(0), folder / "backup.parquet")
    assert folders.opened(folder).warnings == (
        "data files lie where data_path of info.json places none: backup.parquet; not used",
    )
    assert folders.outcomes(folder) == ["good", "good"]


def test_columns_without_numbers_are_left_out(folders: Any, tmp_path: Path) -> None:
    folder = folders.make(tmp_path / "d", episodes=1)
    for stamps in ([b"\xff"] * 6, [{"a": 1}] * 6):
        folders.rewrite(folder, timestamp=pa.array(stamps))
        record = folders.first(folder)
        assert record.trajectory.timestamps.tolist() == pytest.approx([k / 10 for k in range(6)])
        assert "column timestamp holds no numbers" in record.warnings


def test_a_folder_without_info_is_no_dataset(tmp_path: Path, folders: Any) -> None:
    folder = folders.make(tmp_path / "made")
    shutil.rmtree(folder / "meta")
    assert not lerobot.recognises(str(folder))


@pytest.mark.parametrize("shape", [[10**12], [-914, -(10**18)], [0], [10**30, 2]])
def test_a_shape_that_info_claims_takes_no_memory(shape: list[int]) -> None:
    width = count_numbers_per_row(pa.list_(pa.float32()), {"shape": shape})
    assert 1 <= width <= 65_536
    assert count_numbers_per_row(pa.list_(pa.float32(), 7), {"shape": shape}) == 7
