"""Every fault that the checks cover is reported in every format that can have it, with its second."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace as Message
from typing import Any

import cv2
import h5py  # type: ignore[import-untyped]
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from ares.episode import Episode
from ares.media import encode_mp4
from tests.ingest.conftest import write_rlds as write_rlds_dataset
from tests.ingest.recordings.mcap.conftest import START, header, joints, task, write
from tests.ingesting import ingest_paths

STEPS = 20


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


def write_rlds(folder: Path, episodes: list[EpisodeValues]) -> None:
    """A dataset for each episode."""
    for number, episode in enumerate(episodes):
        leaves = {
            "steps/observation/state": "float32 2",
            "steps/action": "float32 2",
            "steps/observation/front": "png 64 96 3",
            "steps/language_instruction": "text",
        }
        texts = [episode.text] * len(episode.state)
        changed = dict(zip(leaves, (episode.state, episode.action, episode.frames, texts), strict=True))
        write_rlds_dataset(folder, f"toy_{number}", leaves, steps=len(episode.state), changed=changed)


def write_lerobot(folder: Path, episodes: list[EpisodeValues]) -> None:
    (folder / "meta").mkdir()
    (folder / "data/chunk-000").mkdir(parents=True)
    vector = {"dtype": "float32", "shape": [2], "names": ["a", "b"]}
    camera = {"dtype": "video", "shape": [64, 96, 3], "names": None}
    features = {"observation.state": vector, "action": vector, "observation.images.front": camera}
    info = {"codebase_version": "v2.1", "fps": 10, "features": features}
    (folder / "meta/info.json").write_text(json.dumps(info))
    tasks, lines = [], []
    for number, episode in enumerate(episodes):
        steps = len(episode.state)
        rows = {"observation.state": episode.state.tolist(), "action": episode.action.tolist()}
        columns = {"frame_index": range(steps), "index": range(steps), "task_index": [number] * steps}
        table = rows | {"timestamp": episode.seconds, "episode_index": [number] * steps} | columns
        pq.write_table(pa.table(table), folder / f"data/chunk-000/episode_{number:06d}.parquet")
        video = f"videos/chunk-000/observation.images.front/episode_{number:06d}.mp4"
        write_mp4(folder / video, episode.frames)
        tasks.append(json.dumps({"task_index": number, "task": episode.text}))
        lines.append(json.dumps({"episode_index": number, "tasks": [episode.text], "length": steps}))
    (folder / "meta/tasks.jsonl").write_text("\n".join(tasks))
    (folder / "meta/episodes.jsonl").write_text("\n".join(lines))


def write_hdf5(folder: Path, episodes: list[EpisodeValues]) -> None:
    with h5py.File(folder / "demo.hdf5", "w") as file:
        file.create_group("data").attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 10}})
        for number, episode in enumerate(episodes):
            demo = file.create_group(f"data/demo_{number}")
            demo.attrs["ep_meta"] = json.dumps({"lang": episode.text})
            demo["actions"], demo["obs/robot0_eef_pos"] = episode.action, episode.state
            demo["obs/front"] = episode.frames


def write_mcap(folder: Path, episodes: list[EpisodeValues]) -> None:
    for number, episode in enumerate(episodes):
        entries = [task(episode.text)]
        for step, second in enumerate(episode.seconds):
            at = START + round(second * 1e9)
            for topic, values in (("/joint_states", episode.state), ("/command", episode.action)):
                entries.append((topic, "sensor_msgs/msg/JointState", at, joints(at, values[step].tolist())))
            data = cv2.imencode(".png", episode.frames[step])[1].tobytes()
            image = Message(header=header(at), format="png", data=data)
            entries.append(("/front", "sensor_msgs/msg/CompressedImage", at, image))
        write(folder / f"{number}.mcap", entries)


def write_video(folder: Path, episodes: list[EpisodeValues]) -> None:
    rows = []
    for number, episode in enumerate(episodes):
        write_mp4(folder / f"{number}.mp4", episode.frames)
        rows.append(json.dumps({"videos": {"front": f"{number}.mp4"}, "instruction": episode.text}))
    (folder / "metadata.jsonl").write_text("\n".join(rows))


def write_mp4(path: Path, frames: NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    encode_mp4(frames, path, 10.0)


def changed_episode(of: str, where: Any, value: Any) -> EpisodeValues:
    values = np.array(getattr(good_episode(), of))
    values[where] = value
    part: dict[str, Any] = {of: values}
    return replace(good_episode(), **part)


FORMATS = {
    "rlds": write_rlds,
    "lerobot": write_lerobot,
    "hdf5": write_hdf5,
    "mcap": write_mcap,
    "video": write_video,
}
SIGNALS, ALL, WITH_CLOCK = ("rlds", "lerobot", "hdf5", "mcap"), tuple(FORMATS), ("lerobot", "mcap")
delayed_seconds = np.arange(STEPS) / 10 + (np.arange(STEPS) > 8) * 1.0
still = good_episode().frames[0]
# An episode, the reason and the second of its fault, and the formats that can have it.
FAULTS: list[tuple[EpisodeValues, str, float, tuple[str, ...]]] = [
    (changed_episode("state", 5, np.nan), "A001 not-finite: values are NaN or infinite (state)", 0.5, SIGNALS),
    (changed_episode("state", slice(None), 1), "A002 dead-channel", 0.0, SIGNALS),
    (replace(good_episode(), seconds=delayed_seconds), "A016 dropped-steps", 0.8, WITH_CLOCK),
    (changed_episode("frames", slice(None), still), "A034 video-frozen", 0.0, ALL),
    (changed_episode("frames", slice(None), 0), "A033 video-black", 0.0, ALL),
    (good_episode(1), "A051 one-step: the episode has one step", 0.0, ALL),
    (replace(good_episode(), text="test"), "A054 empty-instruction", 0.0, ALL),
    (replace(good_episode(), text=""), "A053 no-instruction: there is no instruction", 0.0, ALL),
]  # fmt: skip


def number_of(episode: Episode) -> int:
    """The number that the writers gave an episode."""
    name = episode.dataset if episode.format == "rlds" else Path(episode.key).stem
    return int(re.findall(r"\d+", name)[-1])


@pytest.mark.parametrize(
    "format", ["lerobot", *(pytest.param(name, marks=pytest.mark.slow) for name in ALL if name != "lerobot")]
)
def test_every_fault_is_told_with_its_second_and_a_good_episode_is_quiet(
    format: str, ws: Any, tmp_path: Path
) -> None:
    """The first two episodes are good and the same, which is told, too."""
    (tmp_path / "data").mkdir()
    FORMATS[format](tmp_path / "data", [good_episode(), good_episode(), *(fault[0] for fault in FAULTS)])
    counts = ingest_paths(ws.stores, [str(tmp_path / "data")], quiet=True).counts
    assert counts.kept == 2 + len(FAULTS)
    episodes = {number_of(episode): episode for episode in ws.stores.tables.episodes.read()}
    findings = {
        number: [
            (row["reason"], round(row["seconds"], 6))
            for annotation in ws.stores.annotations.find_annotations([episode.episode_id], ["quality"])
            for row in annotation.value["findings"]
        ]
        for number, episode in episodes.items()
    }
    assert findings[0] == findings[1] == []
    for number, (_, reason, second, formats) in enumerate(FAULTS, 2):
        seconds = {at for text, at in findings[number] if text.startswith(reason)}
        assert seconds == ({second} if format in formats else set()), (reason, findings[number])
        assert any(text.startswith(reason) for text in counts.warnings) == (format in formats)
    rows = ws.stores.tables.episodes.read_columns(["episode_id", "duplicate_of"]).to_pylist()
    originals = {row["episode_id"]: row["duplicate_of"] for row in rows}
    assert originals[episodes[1].episode_id] == episodes[0].episode_id
