"""An episode without steps, or whose data is not there, fails with its reason: ingested, checked and planned alike."""

from __future__ import annotations

import io
import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace as Message
from typing import Any, NamedTuple

import h5py  # type: ignore[import-untyped]
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr as zarr_library
from mcap_ros2.writer import Writer

from app.cli.main import main
from ares.errors import SourceError
from ares.formats.tfrecord import write_tfrecords
from ingest.base import SourceOptions
from tests.ingest.agibot.conftest import arrays as agibot_arrays, write_agibot, write_episode, write_task
from tests.ingest.conftest import _example, _values, write_rlds
from tests.ingest.image_folders.conftest import columns, write_episode as write_csv, write_table
from tests.ingest.lerobot.good_folders import write_good_folder
from tests.ingest.recordings.rosbag.conftest import write_ros1, write_ros2
from tests.ingest.test_checks_all_formats import _HEADER, _JOINTS, good_episode, write_mp4
from tests.ingesting import open_sources
from tests.thinning import some_by_day

STEPS, LENGTHS = 6, (6, 5, 7, 4)
RLDS = {"steps/action": "float32 2", "steps/observation/state": "float32 3"}


def arrays(signal_steps: int, frames: int) -> dict[str, Any]:
    """State, action and images of an episode."""
    episode = good_episode(STEPS)
    state, action = episode.state[:signal_steps], episode.action[:signal_steps]
    return {"state": state, "action": action, "front": episode.frames[:frames]}


def own_file(version: str, change: Callable[[Path], object]) -> Callable[[Path], object]:
    """A LeRobot folder with a data file for each episode, of which that of the second is changed."""

    def write(folder: Path) -> None:
        info = write_good_folder(folder, version="v2.1", lengths=LENGTHS) / "meta" / "info.json"
        info.write_text(info.read_text().replace("v2.1", version))
        change(folder / "data" / "chunk-000" / "episode_000001.parquet")

    return write


def without_rows(path: Path) -> None:
    """A data file without a row."""
    pq.write_table(pq.read_table(path).slice(0, 0), path)


def with_other_rows(path: Path) -> None:
    """A data file with the rows of another episode, which has a separate file."""
    shutil.copy(path.with_name("episode_000000.parquet"), path)


def shared_file(change: Callable[[pa.Table], pa.Table], length: int = LENGTHS[1]) -> Callable[[Path], object]:
    """A LeRobot folder with two episodes in a data file, of which the first is changed."""

    def write(folder: Path) -> None:
        write_good_folder(folder, version="v3.0", lengths=LENGTHS)
        path = folder / "data" / "chunk-000" / "file-000.parquet"
        pq.write_table(change(pq.read_table(path)), path)
        listed = next((folder / "meta" / "episodes").rglob("*.parquet"))
        table = pq.read_table(listed)
        lengths = [length if number == 1 else value for number, value in enumerate(LENGTHS)]
        pq.write_table(table.set_column(table.schema.get_field_index("length"), "length", [lengths]), listed)

    return write


def write_shared_without_file(folder: Path) -> None:
    write_good_folder(folder, version="v3.0", lengths=LENGTHS)
    (folder / "data" / "chunk-000" / "file-001.parquet").unlink()


def write_empty_record(folder: Path) -> None:
    written = write_rlds(folder, "a", RLDS, records=3)
    values = [{key: _values(leaf, 4, seed) for key, leaf in RLDS.items()} for seed in range(3)]
    values[1] = {key: value[:0] for key, value in values[1].items()}
    payloads = [_example(RLDS, part) for part in values]
    write_tfrecords(written.path / "a-train.tfrecord-00000-of-00001", payloads)


def write_short_shard(folder: Path) -> None:
    written = write_rlds(folder, "a", RLDS, records=3)
    info = written.path / "dataset_info.json"
    info.write_text(info.read_text().replace('["3"]', '["4"]'))


def hdf5_files(middle: dict[str, Any]) -> Callable[[Path], object]:
    """An HDF5 file for each of three episodes; `middle` is the second."""
    names = {"state": "observations/qpos", "action": "action", "front": "observations/images/front"}

    def write(folder: Path) -> None:
        folder.mkdir()
        for number in range(3):
            with h5py.File(folder / f"{number}.h5", "w") as file:
                for key, values in (middle if number == 1 else arrays(STEPS, STEPS)).items():
                    file[names[key]] = values

    return write


def demos(middle: dict[str, Any]) -> Callable[[Path], object]:
    """Three demonstrations in an HDF5 file; `middle` is the second."""

    def write(folder: Path) -> None:
        folder.mkdir()
        names = {"state": "obs/robot0_eef_pos", "action": "actions", "front": "obs/front"}
        with h5py.File(folder / "demo.hdf5", "w") as file:
            file.create_group("data").attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 10}})
            for number in range(3):
                demo = file.create_group(f"data/demo_{number}")
                for key, values in (middle if number == 1 else arrays(STEPS, STEPS)).items():
                    demo[names[key]] = values

    return write


def npz_files(middle: dict[str, Any]) -> Callable[[Path], object]:
    """An npz file for each of three episodes; `middle` is the second."""

    def write(folder: Path) -> None:
        folder.mkdir()
        for number in range(3):
            np.savez(folder / f"{number}.npz", **(middle if number == 1 else arrays(STEPS, STEPS)))

    return write


def zarr_store(ends: tuple[int, ...], signals: int, images: int) -> Callable[[Path], object]:
    """A Zarr store whose arrays have so many rows."""

    def write(folder: Path) -> None:
        folder.mkdir()
        root = zarr_library.open_group(str(folder / "a.zarr"), mode="w", zarr_format=2)
        data, meta = root.create_group("data"), root.create_group("meta")
        rows = np.arange(signals, dtype=np.float32)
        data.create_array("action", data=np.stack([rows, -rows], axis=1))
        data.create_array("state", data=np.stack([rows, rows * 2], axis=1))
        data.create_array("img", data=np.zeros((images, 8, 8, 3), np.uint8))
        meta.create_array("episode_ends", data=np.array(ends))

    return write


def csv_episodes(change: Callable[[Path], object]) -> Callable[[Path], object]:
    """Three folders with a table and images, of which the table of the second is changed."""

    def write(folder: Path) -> None:
        for number in range(3):
            write_csv(folder / f"episode_{number}")
        change(folder / "episode_1" / "data.csv")

    return write


def write_mcap(folder: Path) -> None:
    folder.mkdir()
    for number in range(3):
        with (folder / f"{number}.mcap").open("wb") as file:
            writer = Writer(file)
            joints = writer.register_msgdef("sensor_msgs/msg/JointState", _JOINTS + _HEADER)
            texts = writer.register_msgdef("std_msgs/msg/String", "string data")
            writer.write_message("/task", texts, Message(data="lift"), 1, 1)
            for step in range(0 if number == 1 else STEPS):
                at = 10**9 + step * 10**8
                stamp = Message(sec=at // 10**9, nanosec=at % 10**9)
                values = {"name": ["a"], "position": [step / 10], "velocity": [], "effort": []}
                message = Message(header=Message(stamp=stamp, frame_id=""), **values)
                writer.write_message("/joint_states", joints, message, at, at)
            writer.finish()  # type: ignore[no-untyped-call]


def bags(write_bag: Callable[[Path, int], object], suffix: str) -> Callable[[Path], object]:
    """Three bags, of which the second has no joint and no picture."""

    def write(folder: Path) -> None:
        for number, count in enumerate((STEPS, 0, STEPS)):
            write_bag(folder / f"{number}{suffix}", count)

    return write


def agibot_with(changed: Callable[[Path], object]) -> Callable[[Path], object]:
    """AgiBot World with three episodes, changed."""

    def write(folder: Path) -> None:
        write_agibot(folder)
        changed(folder)

    return write


def empty_agibot(but: str = "") -> Callable[[Path], object]:
    """Empty all arrays of an episode but one."""

    def change(folder: Path) -> None:
        for part in ("proprio_stats", "observations", "parameters"):
            shutil.rmtree(folder / part / "1352")
        arrays = {key: values if key == but else values[:0] for key, values in agibot_arrays().items()}
        write_episode(folder, 1352, 7, arrays)

    return change


def write_videos(folder: Path) -> None:
    for number in (0, 2):
        write_mp4(folder / f"{number}.mp4", good_episode(STEPS).frames)
    rows = [{"videos": {"front": f"{number}.mp4"}, "instruction": "lift it"} for number in range(3)]
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))


class Case(NamedTuple):
    """How a dataset is written, how many of its episodes fail, and why."""

    write: Callable[[Path], object]
    reason: str
    failed: int = 1


NO_STEP, NO_ROW, NO_FILE = (
    "episode holds no step",
    "data file holds no row of the episode",
    "data file is missing",
)
SHORT = "a signal cannot be stored"
CASES = {
    "lerobot 2.0, no row": Case(own_file("v2.0", without_rows), NO_STEP),
    "lerobot 2.1, no row": Case(own_file("v2.1", without_rows), NO_STEP),
    "lerobot 2.1, no file": Case(own_file("v2.1", Path.unlink), NO_FILE),
    "lerobot 2.1, rows of another": Case(own_file("v2.1", with_other_rows), "its data file holds another episode"),
    "lerobot 3.0, no row": Case(shared_file(lambda table: table.slice(0, LENGTHS[0])), NO_ROW),
    "lerobot 3.0, length 0": Case(shared_file(lambda table: table.slice(0, LENGTHS[0]), length=0), NO_ROW),
    "lerobot 3.0, empty file": Case(shared_file(lambda table: table.slice(0, 0)), NO_ROW, 2),
    "lerobot 3.0, no file": Case(write_shared_without_file, NO_FILE, 2),
    "rlds, no step": Case(write_empty_record, "record has no steps"),
    "rlds, no record": Case(write_short_shard, "record is cut off"),
    "hdf5, no row": Case(hdf5_files(arrays(0, 0)), NO_STEP),
    "hdf5, images alone": Case(hdf5_files(arrays(0, STEPS)), NO_STEP),
    "robomimic, no row": Case(demos(arrays(0, STEPS)), NO_STEP),
    "robomimic, no array": Case(demos({}), "episode holds no action"),
    "npz, no row": Case(npz_files(arrays(0, 0)), "episode holds no array with rows"),
    "npz, images alone": Case(npz_files(arrays(0, STEPS)), SHORT),
    "zarr, no step": Case(zarr_store((4, 4, 10), 10, 10), "episode has no valid span in episode_ends"),
    "zarr, images alone": Case(zarr_store((4, 10, 20), 10, 20), SHORT),
    "zarr, cut": Case(zarr_store((4, 10, 20), 15, 20), SHORT),
    "csv, no row": Case(
        csv_episodes(lambda path: write_table(path, dict.fromkeys(columns(), ()))),
        "episode has no table with rows of numbers",
    ),
    "csv, empty": Case(csv_episodes(lambda path: path.write_text("")), "table is empty"),
    "mcap": Case(write_mcap, "holds no camera and no signal"),
    "ros 1": Case(bags(write_ros1, ".bag"), "holds no camera and no signal"),
    "ros 2": Case(bags(write_ros2, ""), "holds no camera and no signal"),
    "agibot, no row": Case(agibot_with(empty_agibot()), NO_STEP),
    "agibot, times alone": Case(agibot_with(empty_agibot("timestamp")), NO_STEP),
    "agibot, no file": Case(
        agibot_with(lambda folder: (folder / "proprio_stats/1352/7/proprio_stats.h5").unlink()),
        "proprio_stats.h5 is missing",
    ),
    "agibot, not here": Case(
        agibot_with(lambda folder: write_task(folder, 1352, [7, 8])), "episode of task_info is not here"
    ),
    "video": Case(write_videos, "video file is missing"),
}  # fmt: skip


@dataclass(frozen=True)
class CommandAnswers:
    """What the commands say of all cases, each of which lies in a separate folder.

    Attributes:
        planned: Failures by reason of a dry run, by case.
        failures: Failures by reason of the ingestion.
        num_planned: Episodes of the ingestion.
        num_kept: Those that it kept, or had kept already of an equal dataset.
        checked: Failures, and the first of them, of `ares check`, by case.
        statuses: Exit status of each command.
    """

    planned: Mapping[str, Counter[str]]
    failures: Counter[str]
    num_planned: int
    num_kept: int
    checked: Mapping[str, tuple[int, str]]
    statuses: tuple[int, ...]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> CommandAnswers:
    """The three commands over one folder with all cases."""
    root = tmp_path_factory.mktemp("empty")
    names = {f"case_{number}": name for number, name in enumerate(CASES)}
    for folder, name in names.items():
        (root / "data" / folder).mkdir(parents=True)
        CASES[name].write(root / "data" / folder / f"set_{folder}")
    data, workspace = str(root / "data"), str(root / "ws")
    statuses, documents = zip(
        *(
            run(*words)
            for words in (
                ("ingest", data, "--dry-run", "-w", workspace),
                ("ingest", data, "-w", workspace),
                ("check", data),
            )
        ),
        strict=True,
    )
    plan, report, checked = documents

    def case_of(path: str) -> str:
        return names[Path(path).relative_to(data).parts[0]]

    planned: dict[str, Counter[str]] = {name: Counter() for name in CASES}
    for dataset in plan["datasets"]:
        for failure in dataset.get("failures", ()):
            planned[case_of(dataset["path"])][failure["reason"]] += failure["count"]
    return CommandAnswers(
        planned=planned,
        failures=Counter({failure["reason"]: failure["count"] for failure in report["failures"]}),
        num_planned=report["planned"],
        num_kept=report["kept"] + report["already"],
        checked={
            case_of(dataset["path"]): (dataset["failed"], dataset["first_failure"])
            for dataset in checked["datasets"]
        },
        statuses=statuses,
    )


def run(*words: str) -> tuple[int, Any]:
    """Exit status and JSON of a command."""
    with redirect_stdout(io.StringIO()) as answer:
        status = main([*words, "--json", "-q"])
    return status, json.loads(answer.getvalue())


@pytest.mark.parametrize("name", some_by_day(CASES, 6))
def test_each_is_told_with_its_reason(name: str, answers: CommandAnswers) -> None:
    case = CASES[name]
    assert answers.planned[name] == {case.reason: case.failed}
    num_failed, first = answers.checked[name]
    assert num_failed == case.failed and case.reason in first


def test_they_are_counted_and_make_an_error(answers: CommandAnswers) -> None:
    expected = Counter[str]()
    for case in CASES.values():
        expected[case.reason] += case.failed
    assert answers.failures == expected
    assert answers.num_kept + expected.total() == answers.num_planned >= 3 * len(CASES)
    assert set(answers.statuses) == {1}


def test_a_file_of_no_known_family_is_not_kept_by_its_images_alone(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for key, values in arrays(0, STEPS).items():
            file[key] = values
    (source,) = open_sources([str(tmp_path)], SourceOptions(reads_unknown=True))
    (item,) = source.items
    with pytest.raises(SourceError, match=r"episode holds no step: there is no row in action, state"):
        item.load()
