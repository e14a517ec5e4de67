"""An episode without steps, or whose data is not there, fails with its reason: ingested, checked and planned alike."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import h5py  # type: ignore[import-untyped]
import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr as zarr_library

from ares.errors import SourceError
from ares_ingest.base import SourceOptions
from tests.generators.tfrecords import write_tfrecords
from tests.ingest.agibot.conftest import arrays as agibot_arrays, write_agibot, write_episode, write_task
from tests.ingest.conftest import _example, _values, write_rlds
from tests.ingest.image_folders.conftest import columns, write_episode as write_csv, write_table
from tests.ingest.lerobot.good_folders import write_good_folder
from tests.ingest.recordings.mcap.conftest import states, task, write as write_mcap
from tests.ingest.recordings.rosbag.conftest import write_ros1, write_ros2
from tests.ingest.test_checks_all_formats import good_episode, write_mp4
from tests.ingesting import open_sources

STEPS, LENGTHS = 6, (6, 5, 7, 4)
RLDS = {"steps/action": "float32 2", "steps/observation/state": "float32 3"}
Write = Callable[[Path], object]


def arrays(signal_steps: int, frames: int) -> dict[str, Any]:
    """State, action and images of an episode."""
    episode = good_episode(STEPS)
    state, action = episode.state[:signal_steps], episode.action[:signal_steps]
    return {"state": state, "action": action, "front": episode.frames[:frames]}


def write_own_files(change: Write, folder: Path) -> None:
    """A LeRobot folder with a data file for each episode, of which that of the second is changed."""
    write_good_folder(folder, version="v2.1", lengths=LENGTHS)
    change(folder / "data" / "chunk-000" / "episode_000001.parquet")


def without_rows(path: Path) -> None:
    pq.write_table(pq.read_table(path).slice(0, 0), path)


def with_other_rows(path: Path) -> None:
    """The rows of another episode, which has a separate file."""
    shutil.copy(path.with_name("episode_000000.parquet"), path)


def write_shared_files(change: Write, folder: Path) -> None:
    """A LeRobot folder with two episodes in each data file, of which the first is changed."""
    write_good_folder(folder, version="v3.0", lengths=LENGTHS)
    change(folder / "data" / "chunk-000" / "file-000.parquet")


def without_second_episode(path: Path) -> None:
    pq.write_table(pq.read_table(path).slice(0, LENGTHS[0]), path)


def write_empty_record(folder: Path) -> None:
    written = write_rlds(folder, "a", RLDS, records=3)
    values = [{key: _values(leaf, 4, seed) for key, leaf in RLDS.items()} for seed in range(3)]
    values[1] = {key: value[:0] for key, value in values[1].items()}
    payloads = [_example(RLDS, part) for part in values]
    write_tfrecords(written.path / "a-train.tfrecord-00000-of-00001", payloads)


HDF5_NAMES = {"state": "observations/qpos", "action": "action", "front": "observations/images/front"}


def hdf5_files(middle: dict[str, Any], folder: Path) -> None:
    """An HDF5 file for each of three episodes; `middle` is the second."""
    folder.mkdir()
    for number in range(3):
        with h5py.File(folder / f"{number}.h5", "w") as file:
            for key, values in (middle if number == 1 else arrays(STEPS, STEPS)).items():
                file[HDF5_NAMES[key]] = values


def npz_files(middle: dict[str, Any], folder: Path) -> None:
    """An npz file for each of three episodes; `middle` is the second."""
    folder.mkdir()
    for number in range(3):
        np.savez(folder / f"{number}.npz", **(middle if number == 1 else arrays(STEPS, STEPS)))


def zarr_store(ends: tuple[int, ...], signals: int, images: int, folder: Path) -> None:
    """A Zarr store whose arrays have so many rows."""
    folder.mkdir()
    root = zarr_library.open_group(str(folder / "a.zarr"), mode="w", zarr_format=2)
    rows = np.arange(signals, dtype=np.float32)
    root.create_array("data/action", data=np.stack([rows, -rows], axis=1))
    root.create_array("data/state", data=np.stack([rows, rows * 2], axis=1))
    root.create_array("data/img", data=np.zeros((images, 8, 8, 3), np.uint8))
    root.create_array("meta/episode_ends", data=np.array(ends))


def csv_episodes(change: Write, folder: Path) -> None:
    """Three folders with a table and images, of which the table of the second is changed."""
    for number in range(3):
        write_csv(folder / f"episode_{number}")
    change(folder / "episode_1" / "data.csv")


def recordings(write_one: Callable[[Path, int], object], suffix: str, folder: Path) -> None:
    """Three recordings, of which the second has no joint and no picture."""
    for number, count in enumerate((STEPS, 0, STEPS)):
        write_one(folder / f"{number}{suffix}", count)


def changed_agibot(change: Write, folder: Path) -> None:
    """AgiBot World with three episodes, changed."""
    write_agibot(folder)
    change(folder)


def empty_agibot(folder: Path) -> None:
    """Empty all arrays of an episode."""
    for part in ("proprio_stats", "observations", "parameters"):
        shutil.rmtree(folder / part / "1352")
    write_episode(folder, 1352, 7, {key: values[:0] for key, values in agibot_arrays().items()})


def mcap_run(path: Path, count: int) -> None:
    write_mcap(path, [task("lift"), *states(count)])


def write_videos(folder: Path) -> None:
    for number in (0, 2):
        write_mp4(folder / f"{number}.mp4", good_episode(STEPS).frames)
    rows = [{"videos": {"front": f"{number}.mp4"}, "instruction": "lift it"} for number in range(3)]
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))


class Case(NamedTuple):
    """How a dataset is written, how many of its episodes fail, and why."""

    write: Write
    reason: str
    failed: int = 1


NO_STEP = "episode holds no step"
SHORT = "a signal cannot be stored"
CASES = {
    "lerobot 2.1, no row": Case(partial(write_own_files, without_rows), NO_STEP),
    "lerobot 2.1, rows of another": Case(
        partial(write_own_files, with_other_rows), "its data file holds another episode"
    ),
    "lerobot 3.0, no row": Case(
        partial(write_shared_files, without_second_episode), "data file holds no row of the episode"
    ),
    "lerobot 3.0, no file": Case(partial(write_shared_files, Path.unlink), "data file is missing", 2),
    "rlds, no step": Case(write_empty_record, "record has no steps"),
    "hdf5, no row": Case(partial(hdf5_files, arrays(0, 0)), NO_STEP),
    "hdf5, images alone": Case(partial(hdf5_files, arrays(0, STEPS)), NO_STEP),
    "npz, no row": Case(partial(npz_files, arrays(0, 0)), NO_STEP),
    "npz, images alone": Case(partial(npz_files, arrays(0, STEPS)), NO_STEP),
    "zarr, no step": Case(partial(zarr_store, (4, 4, 10), 10, 10), "episode has no valid span in episode_ends"),
    "zarr, images alone": Case(partial(zarr_store, (4, 10, 20), 10, 20), SHORT),
    "csv, no row": Case(
        partial(csv_episodes, lambda path: write_table(path, dict.fromkeys(columns(), ()))),
        "episode has no table with rows of numbers",
    ),
    "csv, empty": Case(partial(csv_episodes, lambda path: path.write_text("")), "table is empty"),
    "mcap": Case(partial(recordings, mcap_run, ".mcap"), "holds no camera and no signal"),
    "ros 1": Case(partial(recordings, write_ros1, ".bag"), "holds no camera and no signal"),
    "ros 2": Case(partial(recordings, write_ros2, ""), "holds no camera and no signal"),
    "agibot, no row": Case(partial(changed_agibot, empty_agibot), NO_STEP),
    "agibot, no file": Case(
        partial(changed_agibot, lambda folder: (folder / "proprio_stats/1352/7/proprio_stats.h5").unlink()),
        "proprio_stats.h5 is missing",
    ),
    "agibot, not here": Case(
        partial(changed_agibot, lambda folder: write_task(folder, 1352, [7, 8])), "episode of task_info is not here"
    ),
    "video": Case(write_videos, "video file is missing"),
}  # fmt: skip


QUICK = ("lerobot 2.1, no row", "rlds, no step", "csv, empty")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_each_is_told_with_its_reason(name: str, tmp_path: Path, run_ares: Any) -> None:
    case, data = CASES[name], tmp_path / "data"
    data.mkdir()
    case.write(data / "set")
    plan, report, checked = (
        run_ares(*words, "--json", "-q")
        for words in (
            ("ingest", data, "--dry-run", "-w", tmp_path / "ws"),
            ("ingest", data, "-w", tmp_path / "ws"),
            ("check", data),
        )
    )
    assert (plan.status, report.status, checked.status) == (1, 1, 1)
    (dataset,) = plan.json["datasets"]
    for failures in (dataset["failures"], report.json["failures"]):
        assert {failure["reason"]: failure["count"] for failure in failures} == {case.reason: case.failed}
    assert report.json["kept"] + case.failed == report.json["planned"] >= 3
    (dataset,) = checked.json["datasets"]
    assert dataset["failed"] == case.failed and case.reason in dataset["first_failure"]


def test_a_file_of_no_known_family_is_not_kept_by_its_images_alone(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for key, values in arrays(0, STEPS).items():
            file[key] = values
    (source,) = open_sources([str(tmp_path)], SourceOptions(reads_unknown=True))
    (item,) = source.items
    with pytest.raises(SourceError, match=r"episode holds no step: there is no row in action, state"):
        item.load()
