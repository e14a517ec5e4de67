"""Compares an export on Lance with the same one in files, item by item: see scripts/verify_exports.sh.

    .venv/bin/python -m scripts.verify_lance write FOLDER
    LANCE_PYTHON scripts/verify_lance.py read FOLDER

The second Python has lerobot 0.6.1 and lerobot-lancedb 0.3.1. That reader is the client: no released lerobot has it.
"""

import os
import sys
import tempfile
from pathlib import Path


def write(folder):
    """Export the videos of the demo's sample in both layouts."""
    import ares

    samples = Path(__file__).resolve().parent.parent / "app" / "demo" / "samples"
    with tempfile.TemporaryDirectory() as scratch, ares.open(scratch, create=True) as workspace:
        workspace.ingest(samples / "video", limit=3, quiet=True)
        for name, format in (("lance", "lerobot-lance"), ("files", "lerobot")):
            workspace.export(workspace.episodes, Path(folder, name), format=format, quiet=True)


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


def read(folder):
    """Read both layouts. Returns 1 where anything differs."""
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    # The folder of this script has a tree.py, which would hide a library.
    sys.path.pop(0)
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from lerobot_lancedb import LanceDBDataset

    in_files = LeRobotDataset("local/files", root=Path(folder, "files"))
    on_lance = LanceDBDataset(repo_id="local/lance", root=Path(folder, "lance"))
    lines = [*find_differences(on_lance, in_files)][:10]
    print("\n".join(lines) or f"{len(on_lance)} steps on Lance are those of the files")
    return int(bool(lines))


if __name__ == "__main__":
    command, target = sys.argv[1:]
    raise SystemExit(write(target) if command == "write" else read(target))
