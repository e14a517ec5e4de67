"""LeRobot v2.1 folders: a file and a video per episode, the list of episodes, statistics, and GR00T's modalities."""

from __future__ import annotations

import json
from pathlib import Path

import av
import numpy as np
import pyarrow.parquet as pq
import pytest

from ares.workspace import Workspace
from tests.ares.export.made_episodes import make_record, make_set, read_info, read_json


@pytest.fixture(scope="module")
def exported(sample_workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The videos of the samples, 12 episodes."""
    folder = tmp_path_factory.mktemp("v21") / "out"
    report = sample_workspace.export("video", folder, format="lerobot-v2.1", quiet=True)
    assert (report.episodes, report.copied_packets, report.encoded_frames) == (12, 2 * report.frames, 0)
    return folder


@pytest.fixture(scope="module")
def with_actions(sample_workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The TFRecord samples, which have actions and images."""
    folder = tmp_path_factory.mktemp("v21") / "out"
    report = sample_workspace.export("rlds", folder, format="lerobot-v2.1", quiet=True)
    assert (report.episodes, report.copied_packets, report.encoded_frames) == (12, 0, 2 * report.frames)
    return folder


def test_every_episode_has_a_file_and_a_video_of_its_length(exported: Path) -> None:
    info = read_info(exported)
    episodes = read_json(exported / "meta" / "episodes.jsonl")
    assert (info["codebase_version"], info["total_videos"], info["total_chunks"]) == ("v2.1", 24, 1)
    cameras = [key for key, feature in info["features"].items() if feature["dtype"] == "video"]
    first = 0
    for number, episode in enumerate(episodes):
        place = {"episode_chunk": 0, "episode_index": number}
        table = pq.read_table(exported / info["data_path"].format(**place))
        assert table["index"].to_pylist() == list(range(first, first + episode["length"]))
        assert table["timestamp"].to_pylist() == pytest.approx(np.arange(episode["length"]) / info["fps"])
        first += episode["length"]
        for key in cameras:
            with av.open(str(exported / info["video_path"].format(**place, video_key=key))) as video:
                times = [frame.time for frame in video.decode(video=0)]
            assert times == pytest.approx(np.arange(episode["length"]) / info["fps"], abs=1e-4)
    assert first == info["total_frames"]


@pytest.mark.slow
def test_tasks_are_numbered_and_statistics_are_those_of_the_version(with_actions: Path) -> None:
    tasks = {line["task_index"]: line["task"] for line in read_json(with_actions / "meta" / "tasks.jsonl")}
    episodes = read_json(with_actions / "meta" / "episodes.jsonl")
    statistics = read_json(with_actions / "meta" / "episodes_stats.jsonl")
    for number, (episode, line) in enumerate(zip(episodes, statistics, strict=True)):
        table = pq.read_table(with_actions / f"data/chunk-000/episode_{number:06d}.parquet")
        assert {tasks[index] for index in table["task_index"].to_pylist()} == set(episode["tasks"])
        action = np.array(table["action"].to_pylist())
        assert set(line["stats"]["action"]) == {"min", "max", "mean", "std", "count"}
        assert line["stats"]["action"]["mean"] == pytest.approx(action.mean(axis=0), abs=1e-5)
        assert line["stats"]["action"]["count"] == [len(action)]


@pytest.mark.slow
def test_lists_have_the_type_that_old_readers_know(with_actions: Path) -> None:
    """`datasets` before version 4, which the readers of v2.1 pin, knows no type "List"."""
    schema = pq.read_schema(with_actions / "data/chunk-000/episode_000000.parquet")
    features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    assert features["action"]["_type"] == "Sequence"


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (("arm_0", "arm_1", "gripper"), {"arm": (0, 2), "gripper": (2, 3)}),
        (("x", "y_0", "z_1"), {"x": (0, 1), "y_0": (1, 2), "z_1": (2, 3)}),
        (("arm_0", "arm_1", "hand", "arm_0", "arm_1"), {"state": (0, 5)}),
    ],
)
def test_modalities_cover_every_number_of_the_state(
    names: tuple[str, ...], parts: dict[str, tuple[int, int]], ws: Workspace, tmp_path: Path
) -> None:
    frozen = make_set(ws, [make_record(0, names=names)])
    ws.export(frozen, tmp_path / "out", format="lerobot-v2.1", quiet=True)
    modality = read_json(tmp_path / "out" / "meta" / "modality.json")
    assert {name: (part["start"], part["end"]) for name, part in modality["state"].items()} == parts
    assert modality["video"] == {"front": {"original_key": "observation.images.front"}}
    assert modality["annotation"] == {"human.task_description": {"original_key": "task_index"}}
