"""Every fault that is looked for is found in every format that can have it, with the second where it shows."""

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
from ingest.base import Options
from ingest.load import Loaded, load

STEPS, START = 20, 1_760_000_000
_HEADER = (
    "\n" + 80 * "=" + "\nMSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n"
    + 80 * "=" + "\nMSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n"
)  # fmt: skip
_JOINTS = "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort"


@dataclass(frozen=True)
class Made:
    """An episode to be written in any format: (T, 2), (T, 2), (T, H, W, 3), (T,) seconds."""

    state: NDArray[np.float32]
    action: NDArray[np.float32]
    frames: NDArray[np.uint8]
    seconds: NDArray[np.float64]
    text: str = "lift the cup"


def good(steps: int = STEPS) -> Made:
    numbers = np.random.default_rng(0).normal(size=(steps, 4)).astype(np.float32)
    frames = np.full((steps, 64, 96, 3), 90, np.uint8)
    for number, frame in enumerate(frames):
        frame[20:40, 2 * number : 2 * number + 20] = 250
    return Made(numbers[:, :2], numbers[:, 2:], frames, np.arange(steps) / 10)


def rlds(folder: Path, made: list[Made], make_rlds: Any) -> None:
    one = made[0]
    leaves = {
        "steps/observation/state": "float32 2",
        "steps/action": "float32 2",
        "steps/observation/front": "png 64 96 3",
        "steps/language_instruction": "text",
    }
    values = dict(zip(leaves, (one.state, one.action, one.frames, [one.text] * len(one.state)), strict=True))
    written = make_rlds("toy", leaves, steps=len(one.state), records=len(made), changed=values)
    written.path.parent.rename(folder / "toy")


def lerobot(folder: Path, made: list[Made], _: Any) -> None:
    (folder / "meta").mkdir()
    (folder / "data/chunk-000").mkdir(parents=True)
    vector = {"dtype": "float32", "shape": [2], "names": ["a", "b"]}
    camera = {"dtype": "video", "shape": [64, 96, 3], "names": None}
    features = {"observation.state": vector, "action": vector, "observation.images.front": camera}
    info = {"codebase_version": "v2.1", "fps": 10, "features": features}
    (folder / "meta/info.json").write_text(json.dumps(info))
    (folder / "meta/tasks.jsonl").write_text(json.dumps({"task_index": 0, "task": made[0].text}))
    lines = []
    for number, one in enumerate(made):
        steps = len(one.state)
        rows = {"observation.state": one.state.tolist(), "action": one.action.tolist()}
        whole = {"frame_index": range(steps), "index": range(steps), "task_index": [0] * steps}
        table = rows | {"timestamp": one.seconds, "episode_index": [number] * steps} | whole
        pq.write_table(pa.table(table), folder / f"data/chunk-000/episode_{number:06d}.parquet")
        mp4(folder / f"videos/chunk-000/observation.images.front/episode_{number:06d}.mp4", one.frames)
        lines.append(json.dumps({"episode_index": number, "tasks": [one.text], "length": steps}))
    (folder / "meta/episodes.jsonl").write_text("\n".join(lines))


def hdf5(folder: Path, made: list[Made], _: Any) -> None:
    with h5py.File(folder / "demo.hdf5", "w") as file:
        file.create_group("data").attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 10}})
        for number, one in enumerate(made):
            demo = file.create_group(f"data/demo_{number}")
            demo.attrs["ep_meta"] = json.dumps({"lang": one.text})
            demo["actions"], demo["obs/robot0_eef_pos"] = one.action, one.state
            demo["obs/front"] = one.frames


def mcap(folder: Path, made: list[Made], _: Any) -> None:
    for number, one in enumerate(made):
        with (folder / f"{number}.mcap").open("wb") as file:
            writer = Writer(file)
            joints = writer.register_msgdef("sensor_msgs/msg/JointState", _JOINTS + _HEADER)
            form = "std_msgs/Header header\nstring format\nuint8[] data" + _HEADER
            image = writer.register_msgdef("sensor_msgs/msg/CompressedImage", form)
            text = writer.register_msgdef("std_msgs/msg/String", "string data")
            writer.write_message("/task", text, Message(data=one.text), START * 10**9, START * 10**9)
            for step, second in enumerate(one.seconds):
                part = round(second * 1e9)
                stamp = Message(sec=START + part // 10**9, nanosec=part % 10**9)
                at, head = START * 10**9 + part, Message(stamp=stamp, frame_id="")
                for topic, values in (("/joint_states", one.state), ("/command", one.action)):
                    row = values[step].tolist()
                    held = Message(header=head, name=["a", "b"], position=row, velocity=[], effort=[])
                    writer.write_message(topic, joints, held, at, at)
                data = cv2.imencode(".png", one.frames[step])[1].tobytes()
                writer.write_message("/front", image, Message(header=head, format="png", data=data), at, at)
            writer.finish()  # type: ignore[no-untyped-call]


def video(folder: Path, made: list[Made], _: Any) -> None:
    rows = []
    for number, one in enumerate(made):
        mp4(folder / f"{number}.mp4", one.frames)
        rows.append(json.dumps({"videos": {"front": f"{number}.mp4"}, "instruction": one.text}))
    (folder / "metadata.jsonl").write_text("\n".join(rows))


def mp4(path: Path, frames: NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def changed(of: str, where: Any, value: Any) -> Made:
    values = np.array(getattr(good(), of))
    values[where] = value
    part: dict[str, Any] = {of: values}
    return replace(good(), **part)


FORMATS: dict[str, Callable[[Path, list[Made], Any], None]] = {
    "rlds": rlds, "lerobot": lerobot, "hdf5": hdf5, "mcap": mcap, "video": video,
}  # fmt: skip
SIGNALS, ALL = ("rlds", "lerobot", "hdf5", "mcap"), tuple(FORMATS)
CLOCKED = ("lerobot", "mcap")
late = np.arange(STEPS) / 10 + (np.arange(STEPS) > 8) * 1.0
# By name: the episode, the reason and the second, and the formats that can have the fault.
FAULTS: dict[str, tuple[Made, str, float, tuple[str, ...]]] = {
    "not finite": (changed("state", 5, np.nan), "state is not finite", 0.5, SIGNALS),
    "constant": (changed("state", slice(None), 1), "state never changes", 0.0, SIGNALS),
    "saturated": (changed("action", (slice(6, 19), 0), 9), "is saturated", 0.6, SIGNALS),
    "gap": (replace(good(), seconds=late), "timestamps have a gap", 0.8, CLOCKED),
    "frozen": (changed("frames", slice(None), good().frames[0]), "camera front is frozen", 0.0, ALL),
    "black": (changed("frames", slice(None), 0), "camera front is black", 0.0, ALL),
    "one step": (good(1), "episode has one step", 0.0, ALL),
    "text": (replace(good(), text="test"), "instruction says nothing", 0.0, ALL),
    "no text": (replace(good(), text=""), "there is no instruction", 0.0, ALL),
}


def loaded(folder: Path, made: list[Made], format: str, make_rlds: Any) -> tuple[Loaded, list[Any]]:
    (folder / "data").mkdir()
    FORMATS[format](folder / "data", made, make_rlds)
    ws = open_workspace(str(folder / "ws"))
    result = load(ws, [str(folder / "data")], Options(rate_hz=10.0 if format == "rlds" else None), quiet=True)
    assert result.report.kept == len(made)
    ids = sorted(ws.tables.episodes.ids())
    facts: list[Any] = ws.annotations.about(ids, ["quality"])
    return result, [
        (row["reason"], round(row["seconds"], 6)) for fact in facts for row in fact.value["findings"]
    ]


@pytest.mark.parametrize("format", ALL)
def test_good_episodes_are_quiet_and_the_same_one_twice_is_told(
    format: str, tmp_path: Path, make_rlds: Any
) -> None:
    result, findings = loaded(tmp_path, [good(), good()], format, make_rlds)
    assert findings == [] and result.duplicates == 1


@pytest.mark.parametrize(
    ("fault", "format"),
    [(fault, format) for fault, (_, _, _, formats) in FAULTS.items() for format in formats],
)
def test_a_fault_is_found(fault: str, format: str, tmp_path: Path, make_rlds: Any) -> None:
    made, reason, second, _ = FAULTS[fault]
    result, findings = loaded(tmp_path, [made], format, make_rlds)
    assert [at for found, at in findings if found.endswith(reason)] == [second], findings
    assert any(told.endswith(reason) for told in result.report.warnings)
