"""Merges sources of five formats by a plan, and compares what libraries read of the exports: see verify_exports.sh.

    python -m scripts.verify_merged write FOLDER            the sources, and FOLDER/lerobot, lerobot-v2.1 and rlds
    python -m scripts.verify_merged check FOLDER READ.json [FRAMES.npz]
    LEROBOT_PYTHON scripts/verify_merged.py weights FOLDER

`write` runs with the Python of ARES; the sources are episodes of the demo's sample as RLDS, LeRobot v3.0 and v2.1, HDF5
and raw video. `READ.json` and `FRAMES.npz` are what scripts/check_lerobot.py or scripts/check_rlds.py read. `weights`
reads the weights of FOLDER/lerobot by lerobot, and draws steps by them with the sampler of PyTorch.
"""

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path

FORMATS = ("lerobot", "lerobot-v2.1", "rlds")
EXPECTED_FILE, FRAMES_FILE = "expected.json", "expected_frames.npz"
_RATE_HZ = 10.0
_EPISODES = {"v30": 4, "v21": 3, "hdf5": 2}
# The weight of the episodes of a source format in the LeRobot export; of the others it is 1.
_WEIGHTS = {"rlds": 0.25, "hdf5": 0.0}
_DRAWS = 20_000


def write_folder(folder):
    """Make the sources, merge them by a plan that is filled in here, and note what has to be read."""
    import ares
    from ares_app.demo.run import DEMO_FOLDER

    samples = DEMO_FOLDER / "samples"
    with ares.open(folder / "first", create=True) as first:
        first.ingest(str(samples / "rlds"), quiet=True)
        write_sources(first, folder / "sources")
    with ares.open(folder / "workspace", create=True) as merged:
        for name in _EPISODES:
            options = {"rate_hz": _RATE_HZ} if name == "hdf5" else {}
            merged.ingest(str(folder / "sources" / name), quiet=True, **options)
        merged.ingest(str(samples / "rlds"), limit=2, quiet=True)
        merged.ingest(str(samples / "video"), limit=2, quiet=True)
        ids = sorted(merged.stores.tables.episodes.ids())
        chosen = merged.sets.create("merged", ids, {})
        merged.write_merge_plan(chosen, folder / "plan.yaml", like="v30")
        answer_plan(folder / "plan.yaml")
        table = folder / "weights-by-format.csv"
        lines = [f"{episode.episode_id},{_WEIGHTS.get(episode.format, 1.0)}" for episode in merged.episodes]
        table.write_text("\n".join(["episode_id,weight", *lines]))
        for name in FORMATS:
            options = {"format": name, "plan": folder / "plan.yaml", "quiet": True}
            weights = str(table) if name == "lerobot" else ""
            report = merged.export(chosen, folder / name, weights=weights, **options)
            print(
                f"{name}: {report.episodes} episodes, {report.failed} failed, {report.copied_packets} packets copied, "
                f"{report.encoded_frames} frames encoded"
            )
        note_expected(merged, folder)


def write_sources(workspace, folder):
    """Episodes of the sample as folders of LeRobot v3.0 and v2.1 and as HDF5, each of other episodes."""
    import h5py
    import numpy as np

    from ares.media import all_frames

    ids = sorted(workspace.stores.tables.episodes.ids())
    for name, format in (("v30", "lerobot"), ("v21", "lerobot-v2.1")):
        own, ids = ids[: _EPISODES[name]], ids[_EPISODES[name] :]
        workspace.export(workspace.sets.create(name, own, {}), folder / name, format=format, quiet=True)
    (folder / "hdf5").mkdir()
    with h5py.File(folder / "hdf5" / "demos.hdf5", "w") as file:
        for number, id in enumerate(ids[: _EPISODES["hdf5"]]):
            episode = workspace.stores.tables.episodes.get_episode(id)
            trajectory, group = (
                workspace.stores.tables.trajectories.get(id),
                file.create_group(f"data/demo_{number}"),
            )
            group["actions"] = np.asarray(trajectory.action.values, np.float32)
            group["obs/robot0_joint_pos"] = np.asarray(trajectory.state.values, np.float32)
            rng, steps = np.random.default_rng(number), episode.num_steps
            group["obs/tactile"] = rng.normal(size=(steps, 4, 4)).astype(np.float32)
            group["obs/contact"] = np.arange(steps) % 3 == 0
            group["obs/agentview_image"] = np.stack(list(all_frames(episode.camera("image").media)))


def answer_plan(path):
    """Answer what the plan lists: dimensions by their order, cameras by their role."""
    import yaml

    plan = yaml.safe_load(path.read_text())
    for source in plan["sources"]:
        for kind in ("state", "action"):
            source[kind] = dict(zip(source.get(kind, {}), plan[kind], strict=False))
        free = list(plan["cameras"])
        for name in source.get("cameras", {}):
            goal = next((goal for goal in free if ("wrist" in goal) == ("wrist" in name)), "")
            source["cameras"][name] = goal
            free = [camera for camera in free if camera != goal]
    # Names and values of the HDF5 files do not tell that they are metres as well.
    groups = [f"{signal}.{kind}" for signal in ("state", "action") for kind in ("position", "gripper")]
    plan["convert"] = [f"hdf5/{group}: as in v30" for group in groups]
    path.write_text(yaml.safe_dump(plan, sort_keys=False))


def note_expected(workspace, folder):
    """What every episode has to have: its steps, task, values, and the pictures of what is copied."""
    import numpy as np
    import yaml

    from ares.media import frames_at

    plan, expected, frames = yaml.safe_load((folder / "plan.yaml").read_text()), {}, {}
    cameras = {(source["dataset"], source["format"], name): goal
               for source in plan["sources"] for name, goal in source.get("cameras", {}).items()}  # fmt: skip
    for episode in workspace.stores.tables.episodes.read():
        trajectory, id = workspace.stores.tables.trajectories.get(episode.episode_id), episode.episode_id
        steps = len(range(0, episode.num_steps, round(episode.rate_hz / _RATE_HZ)))
        zeros = np.zeros((steps, len(plan["state"])), np.float32)
        expected[id] = {"length": steps, "format": episode.format}
        for name, signal in (("observation.state", trajectory.state), ("action", trajectory.action)):
            values = zeros if signal is None else np.ascontiguousarray(signal.values, np.float32)
            expected[id][f"{name}_sha256"] = hashlib.sha256(values.tobytes()).hexdigest()
            expected[id][name] = values.tolist()
        for camera in episode.cameras:
            goal = cameras.get((episode.dataset, episode.format, camera.name), camera.name)
            if camera.media.kind == "mp4" and episode.rate_hz == _RATE_HZ and goal in plan["cameras"]:
                numbers = sorted({0, steps // 2, steps - 1})
                pictures = frames_at(camera.media, [number / _RATE_HZ for number in numbers])
                for number, picture in zip(numbers, pictures, strict=True):
                    frames[f"{id}|observation.images.{goal}|{number}"] = picture
    (folder / EXPECTED_FILE).write_text(json.dumps(expected))
    np.savez(folder / FRAMES_FILE, **frames)


def check_read(folder, read, frames):
    """What a library read against what was meant; returns what differs, one line each, and a line on what is equal."""
    import numpy as np

    expected = json.loads((folder / EXPECTED_FILE).read_text())
    described = json.loads(read.read_text())
    entries = described["episode"] if isinstance(described, dict) else described
    differences = [f"missing: {id}" for id in expected.keys() - {entry["id"] for entry in entries}]
    values = 0
    for entry in entries:
        wanted = expected[entry["id"]]
        if entry.get("length", entry.get("steps")) != wanted["length"]:
            differences.append(
                f"{entry['id']}: {entry.get('length', entry.get('steps'))} steps, not {wanted['length']}"
            )
        if isinstance(described, list):
            is_same = np.array_equal(np.float32(entry["action"]), np.float32(wanted["action"]))
            differences += [] if is_same else [f"{entry['id']}: another action"]
        for name in (name for name in wanted if name.endswith("_sha256")):
            is_action = name == "action_sha256" and isinstance(described, list)
            if not is_action and entry.get(name) != wanted[name]:
                differences.append(f"{entry['id']}: another {name.removesuffix('_sha256')}")
        values += sum(name.endswith("_sha256") for name in wanted) * wanted["length"]
    copied = 0
    if frames:
        found, wanted = np.load(frames), np.load(folder / FRAMES_FILE)
        for name in wanted.files:
            copied += 1
            if name not in found.files or not np.array_equal(found[name], wanted[name]):
                differences.append(f"{name}: another picture")
    return (
        differences,
        f"{len(entries)} episodes, {values} rows of signals, {copied} copied pictures compared",
    )


def check_weights(folder):
    """The weights that lerobot reads, and what a sampler draws by them: what differs, and a line on what is equal."""
    # The folder of this script has a tree.py, which would hide a library.
    sys.path.pop(0)
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    import torch
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    expected = json.loads((folder / EXPECTED_FILE).read_text())
    dataset = LeRobotDataset("local/merged", root=folder / "lerobot", video_backend="pyav")
    wanted = torch.cat([
        torch.full((row["length"],), _WEIGHTS.get(expected[row["ares/episode_id"]]["format"], 1.0))
        for row in dataset.meta.episodes
    ])  # fmt: skip
    weights = torch.as_tensor(dataset.hf_dataset["sample_weight"]).flatten()
    differences = [] if torch.equal(weights, wanted) else ["lerobot reads other weights"]
    if dataset[0]["sample_weight"].item() != wanted[0].item():
        differences.append("an item has another weight")
    generator = torch.Generator().manual_seed(0)
    sampler = torch.utils.data.WeightedRandomSampler(weights, _DRAWS, generator=generator)
    drawn = weights[list(sampler)]
    shares = []
    for weight in sorted({*_WEIGHTS.values(), 1.0}):
        share = (drawn == weight).double().mean().item()
        meant = (wanted[wanted == weight].sum() / wanted.sum()).item()
        shares.append(f"{weight}: {share:.3f} of the draws, {meant:.3f} meant")
        if abs(share - meant) > 5 * (meant * (1 - meant) / _DRAWS) ** 0.5:
            differences.append(f"steps of weight {shares[-1]}")
    return differences, f"{len(weights)} weights; " + "; ".join(shares)


def main():
    """Write or check; a check ends with 1 where anything differs."""
    parser = argparse.ArgumentParser(
        description="merge sources of five formats, or check what was read of them"
    )
    parser.add_argument("mode", choices=("write", "check", "weights"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("read", type=Path, nargs="?")
    parser.add_argument("frames", type=Path, nargs="?")
    args = parser.parse_args()
    if args.mode == "write":
        args.folder.mkdir(parents=True, exist_ok=True)
        write_folder(args.folder)
        return 0
    if args.mode == "weights":
        differences, summary = check_weights(args.folder)
    else:
        differences, summary = check_read(args.folder, args.read, args.frames)
    print(summary)
    for line in differences[:20]:
        print(line)
    print(
        f"not equal: {len(differences)} differences"
        if differences
        else "verified: values, weights or copied pictures are equal"
    )
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
