"""Opens the datasets of an export with TensorFlow and prints what it reads as one JSON line.

Run it with the Python of an environment that has tensorflow and tensorflow-datasets, not with that of ARES:

    TENSORFLOW_PYTHON scripts/check_rlds.py FOLDER
"""

import hashlib
import json
import os
import sys
from pathlib import Path

# The folder of this script has a tree.py, which would hide a library that tensorflow_datasets needs.
sys.path.pop(0)
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
# What LeRobot calls it.
_NAMES = {"state": "observation.state"}


def digest(rows):
    """SHA-256 of rows as float32, in order."""
    import numpy as np

    return hashlib.sha256(np.ascontiguousarray(rows, dtype=np.float32).tobytes()).hexdigest()


def read_text(metadata, name):
    """A text of the metadata; "" where there is none."""
    return metadata[name].numpy().decode() if name in metadata else ""


def describe_episode(episode):
    """Id, texts, actions, sizes of images and hashes of numbers of one episode; images are decoded."""
    import numpy as np

    steps = [
        {
            "language": step["language_instruction"].numpy().decode(),
            "action": step["action"].numpy().tolist() if "action" in step else None,
            "images": {
                name: value.shape.as_list()
                for name, value in step["observation"].items()
                if value.dtype == "uint8"
            },
            "numbers": {
                name: value.numpy() for name, value in step["observation"].items() if value.dtype == "float32"
            },
        }
        for step in episode["steps"]
    ]
    sizes = {
        name: [len(steps), *np.max([s["images"][name] for s in steps], axis=0).tolist()]
        for name in steps[0]["images"]
    }
    numbers = {name: [step["numbers"][name] for step in steps] for name in steps[0]["numbers"]}
    return {
        "id": episode["episode_metadata"]["ares_episode_id"].numpy().decode(),
        "steps": len(steps),
        "success": float(episode["episode_metadata"]["success"].numpy()),
        "caption": read_text(episode["episode_metadata"], "ares_caption"),
        "language": sorted({step["language"] for step in steps}),
        "action": [step["action"] for step in steps],
        "images": sizes,
        **{f"{_NAMES.get(name, name)}_sha256": digest(rows) for name, rows in numbers.items()},
    }


def main():
    import tensorflow_datasets as tfds

    episodes = []
    for folder in sorted(Path(sys.argv[1]).glob("*/*/")):
        builder = tfds.builder(folder.parent.name, data_dir=sys.argv[1])
        for split in builder.info.splits:
            dataset = builder.as_dataset(split=split)
            assert builder.info.splits[split].num_examples == len(dataset)
            episodes += [describe_episode(episode) for episode in dataset]
    print(json.dumps(episodes))


if __name__ == "__main__":
    main()
