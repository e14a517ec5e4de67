"""Writes small good datasets of every format; every episode of one differs from every other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

RLDS_LEAVES = {
    "steps/action": "float32 7",
    "steps/observation/state": "float32 8",
    "steps/observation/image": "png 16 24 3",
    "steps/language_instruction": "text",
    "episode_metadata/success": "bool",
}


def write_rlds(folder: Path, count: int, name: str = "good") -> None:
    """One shard of TFRecord with images."""
    from tests.ingest.conftest import write_rlds as write

    write(folder, f"{name}_rlds", RLDS_LEAVES, records=count)


def write_lerobot(folder: Path, count: int, name: str = "good") -> None:
    """A v2.1 dataset with one camera."""
    from tests.ingest.lerobot.conftest import DATA, LeRobotFolders

    dataset = LeRobotFolders().make(folder / f"{name}_lerobot", episodes=count)
    assert (dataset / DATA.format(count - 1)).exists()


def write_hdf5(folder: Path, count: int, name: str = "good") -> None:
    """Files of robomimic with a camera, three demonstrations each."""
    import h5py  # type: ignore[import-untyped]

    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, count, 3):
        with h5py.File(folder / f"{name}_{start}.hdf5", "w") as file:
            for number in range(start, min(start + 3, count)):
                random = np.random.default_rng(number)
                group = file.create_group(f"data/demo_{number}")
                group["actions"] = random.normal(size=(9, 7)).astype("float32")
                group["obs/robot0_joint_pos"] = random.normal(size=(9, 7)).astype("float32")
                group["obs/agentview_image"] = random.integers(0, 256, (9, 24, 32, 3), np.uint8)


def write_mcap(folder: Path, count: int, name: str = "good") -> None:
    """Recordings of joints and compressed images."""
    from tests.ingest.recordings.mcap.conftest import images, states, write

    for number in range(count):
        write(folder / f"{name}_{number:02}.mcap", [*states(6 + number), *images(6 + number)])


def write_bag(folder: Path, count: int, name: str = "good") -> None:
    """ROS 1 bags, some of them compressed."""
    from tests.ingest.recordings.rosbag.conftest import write_ros1

    for number in range(count):
        write_ros1(folder / f"{name}_{number:02}.bag", 6 + number, compression="LZ4" if number % 2 else "")


def write_db3(folder: Path, count: int, name: str = "good") -> None:
    """rosbag2 folders in SQLite, some of them with compressed messages."""
    from tests.ingest.recordings.rosbag.conftest import write_ros2

    for number in range(count):
        write_ros2(folder / f"{name}_{number:02}", 6 + number, packed=bool(number % 2))


def write_zarr(folder: Path, count: int, name: str = "good") -> None:
    """A store in a folder."""
    _write_zarr(folder / f"{name}.zarr", count)


def write_zarr_zip(folder: Path, count: int, name: str = "good") -> None:
    """A store in a zip file."""
    _write_zarr(folder / f"{name}.zarr.zip", count)


def write_video(folder: Path, count: int, name: str = "good") -> None:
    """Videos with a table that describes them."""
    import json

    from tests.ingest.lerobot.conftest import LeRobotFolders

    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        LeRobotFolders().write_video(folder / f"{name}_{number:03}_front.mp4", frames=6 + number)
    rows = [
        {"file": f"{name}_{number:03}_front.mp4", "instruction": f"stack cup {number}"}
        for number in range(count)
    ]
    (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_npz(folder: Path, count: int, name: str = "good") -> None:
    """Compressed .npz files with a JSON file beside each."""
    import json

    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        random = np.random.default_rng(number)
        np.savez_compressed(
            folder / f"{name}_{number:02}.npz",
            state=random.normal(size=(6, 3)),
            action=random.normal(size=(6, 2)),
            rgb=random.integers(0, 256, (6, 12, 16, 3), np.uint8),
        )
        described = {"instruction": f"stack cup {number}", "success": number % 2 == 1, "fps": 25}
        (folder / f"{name}_{number:02}.json").write_text(json.dumps(described))


def write_csv(folder: Path, count: int, name: str = "good") -> None:
    """Folders with a table, images of two cameras and a JSON file."""
    from tests.ingest.image_folders.conftest import STEPS, write_episode

    for number in range(count):
        changed = {"force_x": [float(number)] * STEPS}
        write_episode(folder / f"{name}_{number:02}", changed, instruction=f"stack cup {number}")


def write_agibot(folder: Path, count: int, name: str = "good") -> None:
    """A folder of AgiBot World with one task."""
    from tests.ingest.agibot.conftest import write_episode, write_task

    root, episodes = folder / f"{name}_agibot", [1_000 + number for number in range(count)]
    for episode in episodes:
        write_episode(root, 327, episode)
    write_task(root, 327, episodes)


def _write_zarr(path: Path, count: int) -> None:
    import zarr
    from zarr.storage import ZipStore

    path.parent.mkdir(parents=True, exist_ok=True)
    store = ZipStore(path, mode="w") if path.suffix == ".zip" else str(path)
    root = zarr.open_group(store, mode="w", zarr_format=2)
    data, meta = root.create_group("data"), root.create_group("meta")
    random = np.random.default_rng(3)
    steps = 5 * count
    data.create_array("action", data=random.normal(size=(steps, 2)).astype("float32"), chunks=(7, 2))
    data.create_array("state", data=random.normal(size=(steps, 3)).astype("float32"), chunks=(7, 3))
    data.create_array(
        "img", data=random.integers(0, 256, (steps, 12, 16, 3), np.uint8), chunks=(2, 12, 16, 3)
    )
    meta.create_array("episode_ends", data=np.arange(5, steps + 1, 5))
    if isinstance(store, ZipStore):
        store.close()


Writer = Callable[..., None]
# What writes `count` good episodes into a folder, by kind; and the ingester that reads it.
WRITERS: dict[str, Writer] = {
    "rlds": write_rlds,
    "lerobot": write_lerobot,
    "hdf5": write_hdf5,
    "mcap": write_mcap,
    "bag": write_bag,
    "db3": write_db3,
    "zarr": write_zarr,
    "zarr.zip": write_zarr_zip,
    "video": write_video,
    "npz": write_npz,
    "csv": write_csv,
    "agibot": write_agibot,
}
INGESTERS = {"bag": "rosbag", "db3": "rosbag", "zarr.zip": "zarr"}


def ingester_of(kind: str) -> str:
    """Name of the ingester that reads a kind of dataset."""
    return INGESTERS.get(kind, kind)
