"""Opens an exported folder with lerobot itself and prints what it reads as one JSON line.

Run it with the Python of an environment that has lerobot 0.4.4 or 0.6.1, or 0.3.3 for v2.1, not with that of ARES:

    LEROBOT_PYTHON scripts/check_lerobot.py FOLDER [--frames-out FILE.npz]

It never uses the network. Frames are decoded through `LeRobotDataset.__getitem__` for the first, the middle and
the last step of every episode. A video that is out of step by one frame makes lerobot itself fail.
"""

import argparse
import hashlib
import importlib.metadata
import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")


def video_backend():
    """Name of the video backend: torchcodec, the default of lerobot, where FFmpeg lets it load, else pyav."""
    try:
        import torchcodec.decoders  # noqa: F401
    except (ImportError, OSError, RuntimeError):
        return "pyav"
    return "torchcodec"


def digest(rows):
    """SHA-256 of rows as float32, in order."""
    import numpy as np

    return hashlib.sha256(np.ascontiguousarray(rows, dtype=np.float32).tobytes()).hexdigest()


def read_episode(dataset, columns, row, frames):
    """Length, task and hashes of one episode as lerobot reads it; decoded frames are added to `frames`."""
    import numpy as np

    start, stop = row["dataset_from_index"], row["dataset_to_index"]
    summary = {"length": stop - start, "task": dataset[start]["task"], "id": row["ares/episode_id"]}
    summary |= {f"{name}_sha256": digest(values[start:stop]) for name, values in columns.items()}
    for index in sorted({start, (start + stop) // 2, stop - 1}):
        item = dataset[index]
        for key in dataset.meta.video_keys:
            image = (item[key].permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)
            frames[f"{row['ares/episode_id']}|{key}|{index - start}"] = image
    return summary


def task_texts(tasks):
    """Texts of the tasks: a table since lerobot 0.4, a dictionary before."""
    return tasks.values() if isinstance(tasks, dict) else tasks.index


def episode_rows(dataset):
    """Rows of the episodes with where their steps begin and end, which lerobot 0.3 has in a separate table."""
    episodes = dataset.meta.episodes
    if not isinstance(episodes, dict):
        return episodes
    ends = {name: values.tolist() for name, values in dataset.episode_data_index.items()}
    return [
        {**row, "dataset_from_index": ends["from"][number], "dataset_to_index": ends["to"][number]}
        for number, row in enumerate(episodes.values())
    ]


def main():
    parser = argparse.ArgumentParser(description="open an exported folder with lerobot")
    parser.add_argument("folder")
    parser.add_argument("--frames-out", default="")
    args = parser.parse_args()
    import numpy as np
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/check", root=args.folder, video_backend=video_backend())
    table = dataset.hf_dataset.with_format("numpy")
    names = [name for name in ("observation.state", "action", "next.reward") if name in dataset.features]
    names += [name for name in dataset.features if name.startswith(("feature.", "mask."))]
    columns = {name: np.asarray(table[:][name]) for name in names}
    frames = {}
    episodes = [read_episode(dataset, columns, row, frames) for row in episode_rows(dataset)]
    if args.frames_out:
        np.savez(args.frames_out, **frames)
    summary = {
        "lerobot": importlib.metadata.version("lerobot"),
        "backend": video_backend(),
        "episodes": dataset.num_episodes,
        "frames": len(dataset),
        "fps": dataset.fps,
        "tasks": [str(task) for task in task_texts(dataset.meta.tasks)],
        "features": {name: list(feature["shape"]) for name, feature in dataset.features.items()},
        "stats": sorted(dataset.meta.stats),
        "decoded": len(frames),
        **{f"{name}_sha256": digest(values) for name, values in columns.items()},
        "episode": episodes,
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
