"""Every fault that the checks cover is reported in every format that can have it, with its second."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace as Message
from typing import Any

import av
import cv2
import h5py  # type: ignore[import-untyped]
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mcap_ros2.writer import Writer
from numpy.typing import NDArray

from ares import open as open_workspace
from ingest.base import SourceOptions
from ingest.pipeline.run import IngestCounts
from tests.ingesting import ingest_paths
from tests.thinning import some_by_day

STEPS, START = 20, 1_760_000_000
_HEADER = (
    "\n" + 80 * "=" + "\nMSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n"
    + 80 * "=" + "\nMSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n"
)  # fmt: skip
_JOINTS = "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort"


@dataclass(frozen=True)
class EpisodeValues:
    """An episode to be written in any format: (T, 2), (T, 2), (T, H, W, 3), (T,) seconds."""

    state: NDArray[np.float32]
    action: NDArray[np.float32]
    frames: NDArray[np.uint8]
    seconds: NDArray[np.float64]
    text: str = "lift the cup"


def good_episode(steps: int = STEPS) -> EpisodeValues:
    numbers = np.random.default_rng(0).normal(size=(steps, 4)).astype(np.float32)
    frames = np.full((steps, 64, 96, 3), 90, np.uint8)
    for number, frame in enumerate(frames):
        frame[20:40, 2 * number : 2 * number + 20] = 250
    return EpisodeValues(numbers[:, :2], numbers[:, 2:], frames, np.arange(steps) / 10)


def write_rlds(folder: Path, episodes: list[EpisodeValues], make_rlds: Any) -> None:
    episode = episodes[0]
    leaves = {
        "steps/observation/state": "float32 2",
        "steps/action": "float32 2",
        "steps/observation/front": "png 64 96 3",
        "steps/language_instruction": "text",
    }
    values = dict(
        zip(
            leaves,
            (episode.state, episode.action, episode.frames, [episode.text] * len(episode.state)),
            strict=True,
        )
    )
    written = make_rlds("toy", leaves, steps=len(episode.state), records=len(episodes), changed=values)
    written.path.parent.rename(folder / "toy")


def write_lerobot(folder: Path, episodes: list[EpisodeValues], _: Any) -> None:
    (folder / "meta").mkdir()
    (folder / "data/chunk-000").mkdir(parents=True)
    vector = {"dtype": "float32", "shape": [2], "names": ["a", "b"]}
    camera = {"dtype": "video", "shape": [64, 96, 3], "names": None}
    features = {"observation.state": vector, "action": vector, "observation.images.front": camera}
    info = {"codebase_version": "v2.1", "fps": 10, "features": features}
    (folder / "meta/info.json").write_text(json.dumps(info))
    (folder / "meta/tasks.jsonl").write_text(json.dumps({"task_index": 0, "task": episodes[0].text}))
    lines = []
    for number, episode in enumerate(episodes):
        steps = len(episode.state)
        rows = {"observation.state": episode.state.tolist(), "action": episode.action.tolist()}
        columns = {"frame_index": range(steps), "index": range(steps), "task_index": [0] * steps}
        table = rows | {"timestamp": episode.seconds, "episode_index": [number] * steps} | columns
        pq.write_table(pa.table(table), folder / f"data/chunk-000/episode_{number:06d}.parquet")
        write_mp4(
            folder / f"videos/chunk-000/observation.images.front/episode_{number:06d}.mp4", episode.frames
        )
        lines.append(json.dumps({"episode_index": number, "tasks": [episode.text], "length": steps}))
    (folder / "meta/episodes.jsonl").write_text("\n".join(lines))


def write_hdf5(folder: Path, episodes: list[EpisodeValues], _: Any) -> None:
    with h5py.File(folder / "demo.hdf5", "w") as file:
        file.create_group("data").attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 10}})
        for number, episode in enumerate(episodes):
            demo = file.create_group(f"data/demo_{number}")
            demo.attrs["ep_meta"] = json.dumps({"lang": episode.text})
            demo["actions"], demo["obs/robot0_eef_pos"] = episode.action, episode.state
            demo["obs/front"] = episode.frames


def write_mcap(folder: Path, episodes: list[EpisodeValues], _: Any) -> None:
    for number, episode in enumerate(episodes):
        with (folder / f"{number}.mcap").open("wb") as file:
            writer = Writer(file)
            joints = writer.register_msgdef("sensor_msgs/msg/JointState", _JOINTS + _HEADER)
            form = "std_msgs/Header header\nstring format\nuint8[] data" + _HEADER
            image = writer.register_msgdef("sensor_msgs/msg/CompressedImage", form)
            text = writer.register_msgdef("std_msgs/msg/String", "string data")
            writer.write_message("/task", text, Message(data=episode.text), START * 10**9, START * 10**9)
            for step, second in enumerate(episode.seconds):
                part = round(second * 1e9)
                stamp = Message(sec=START + part // 10**9, nanosec=part % 10**9)
                at, head = START * 10**9 + part, Message(stamp=stamp, frame_id="")
                for topic, values in (("/joint_states", episode.state), ("/command", episode.action)):
                    row = values[step].tolist()
                    message = Message(header=head, name=["a", "b"], position=row, velocity=[], effort=[])
                    writer.write_message(topic, joints, message, at, at)
                data = cv2.imencode(".png", episode.frames[step])[1].tobytes()
                writer.write_message("/front", image, Message(header=head, format="png", data=data), at, at)
            writer.finish()  # type: ignore[no-untyped-call]


def write_video(folder: Path, episodes: list[EpisodeValues], _: Any) -> None:
    rows = []
    for number, episode in enumerate(episodes):
        write_mp4(folder / f"{number}.mp4", episode.frames)
        rows.append(json.dumps({"videos": {"front": f"{number}.mp4"}, "instruction": episode.text}))
    (folder / "metadata.jsonl").write_text("\n".join(rows))


def write_mp4(path: Path, frames: NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def changed_episode(of: str, where: Any, value: Any) -> EpisodeValues:
    values = np.array(getattr(good_episode(), of))
    values[where] = value
    part: dict[str, Any] = {of: values}
    return replace(good_episode(), **part)


FORMATS: dict[str, Callable[[Path, list[EpisodeValues], Any], None]] = {
    "rlds": write_rlds, "lerobot": write_lerobot, "hdf5": write_hdf5, "mcap": write_mcap, "video": write_video,
}  # fmt: skip
SIGNALS, ALL = ("rlds", "lerobot", "hdf5", "mcap"), tuple(FORMATS)
WITH_CLOCK = ("lerobot", "mcap")
delayed_seconds = np.arange(STEPS) / 10 + (np.arange(STEPS) > 8) * 1.0
# By name: the episode, the reason and the second, and the formats that can have the fault.
FAULTS: dict[str, tuple[EpisodeValues, str, float, tuple[str, ...]]] = {
    "not finite": (
        changed_episode("state", 5, np.nan),
        "A001 not-finite: values are NaN or infinite (state)",
        0.5,
        SIGNALS,
    ),
    "constant": (changed_episode("state", slice(None), 1), "A002 dead-channel", 0.0, SIGNALS),
    "gap": (replace(good_episode(), seconds=delayed_seconds), "A016 dropped-steps", 0.8, WITH_CLOCK),
    "frozen": (
        changed_episode("frames", slice(None), good_episode().frames[0]),
        "A034 video-frozen",
        0.0,
        ALL,
    ),
    "black": (changed_episode("frames", slice(None), 0), "A033 video-black", 0.0, ALL),
    "one step": (good_episode(1), "A051 one-step: the episode has one step", 0.0, ALL),
    "text": (replace(good_episode(), text="test"), "A054 empty-instruction", 0.0, ALL),
    "no text": (replace(good_episode(), text=""), "A053 no-instruction: there is no instruction", 0.0, ALL),
}


def ingest_episodes(
    folder: Path, episodes: list[EpisodeValues], format: str, make_rlds: Any
) -> tuple[IngestCounts, list[Any]]:
    (folder / "data").mkdir()
    FORMATS[format](folder / "data", episodes, make_rlds)
    ws = open_workspace(folder / "ws", create=True)
    result = ingest_paths(
        ws.stores,
        [str(folder / "data")],
        SourceOptions(rate_hz=10.0 if format == "rlds" else None),
        quiet=True,
    )
    assert result.counts.kept == len(episodes)
    ids = sorted(ws.stores.tables.episodes.ids())
    annotations: list[Any] = ws.stores.annotations.find_annotations(ids, ["quality"])
    return result, [
        (row["reason"], round(row["seconds"], 6))
        for annotation in annotations
        for row in annotation.value["findings"]
    ]


@pytest.mark.parametrize("format", some_by_day(ALL))
def test_good_episodes_are_quiet_and_the_same_one_twice_is_told(
    format: str, tmp_path: Path, make_rlds: Any
) -> None:
    result, findings = ingest_episodes(tmp_path, [good_episode(), good_episode()], format, make_rlds)
    assert findings == [] and result.duplicates == 1


@pytest.mark.parametrize(
    ("fault", "format"),
    some_by_day(
        ((fault, format) for fault, (_, _, _, formats) in FAULTS.items() for format in formats),
        2,
        rows=True,
    ),
)
def test_a_fault_is_found(fault: str, format: str, tmp_path: Path, make_rlds: Any) -> None:
    episode, reason, second, _ = FAULTS[fault]
    result, findings = ingest_episodes(tmp_path, [episode], format, make_rlds)
    assert {seconds for text, seconds in findings if text.startswith(reason)} == {second}, findings
    assert any(warning.startswith(reason) for warning in result.counts.warnings)
