"""Compares an export on Lance with the same one in files, item by item, and trains three steps of ACT on it.

    LANCE_PYTHON scripts/verify_lance.py FOLDER

FOLDER has "lance" and "files", as scripts/verify_exports.py writes them. This Python has lerobot 0.6.1 and
lerobot-lancedb 0.3.1. That reader is the client: no released lerobot has it. See scripts/verify_exports.sh.
"""

import os
import sys
from pathlib import Path


def find_differences(on_lance, in_files):
    """What differs of the items, one line each."""
    if len(on_lance) != len(in_files):
        yield f"{len(on_lance)} steps, not {len(in_files)}"
    for index in range(len(in_files)):
        item, expected = on_lance[index], in_files[index]
        if item.keys() != expected.keys():
            yield f"step {index} has {sorted(item)}, not {sorted(expected)}"
        for name, value in expected.items():
            is_same = item[name].equal(value) if hasattr(value, "equal") else item[name] == value
            if not is_same:
                yield f"step {index}: {name} is {item[name]!r}, not {value!r}"


def train_steps(root):
    """The losses of three steps of a small ACT, the model and the batches of lerobot."""
    import torch
    from lerobot.datasets.factory import resolve_delta_timestamps
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.factory import make_policy, make_pre_post_processors
    from lerobot_lancedb import LanceDBDataset

    config = ACTConfig(
        device="cpu", pretrained_backbone_weights=None, dim_model=64, chunk_size=10, n_action_steps=10
    )
    windows = resolve_delta_timestamps(config, LanceDBDataset(repo_id="local/lance", root=root).meta)
    dataset = LanceDBDataset(repo_id="local/lance", root=root, delta_timestamps=windows)
    policy = make_policy(config, ds_meta=dataset.meta)
    prepare, _ = make_pre_post_processors(config, dataset_stats=dataset.meta.stats)
    optimizer = torch.optim.AdamW(policy.parameters(), 1e-5)
    for _, batch in zip(
        range(3), torch.utils.data.DataLoader(dataset, batch_size=2, shuffle=True), strict=False
    ):
        loss, _ = policy.forward(prepare(batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def main(folder):
    """Read both layouts, and train. Returns 1 where anything differs."""
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    # The folder of this script has a tree.py, which would hide a library.
    sys.path.pop(0)
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from lerobot_lancedb import LanceDBDataset

    in_files = LeRobotDataset("local/files", root=Path(folder, "files"))
    on_lance = LanceDBDataset(repo_id="local/lance", root=Path(folder, "lance"))
    lines = [*find_differences(on_lance, in_files)][:10]
    print("\n".join(lines) or f"{len(on_lance)} steps on Lance are those of the files")
    losses = [f"{loss:.3f}" for loss in train_steps(Path(folder, "lance"))]
    print(f"three steps of ACT on Lance: loss {', '.join(losses)}")
    return int(bool(lines))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
