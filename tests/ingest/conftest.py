"""RLDS datasets of any feature tree, written the way tensorflow_datasets writes them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from ares.episode import Episode, make_episode_id
from ares.formats.tf_example import make_tf_example_class
from tests.generators.tfrecords import write_tfrecords


def make_episode(format: str, key: str, **fields: Any) -> Episode:
    """An episode without cameras, of two steps at 10 Hz where `fields` do not say otherwise."""
    usual: dict[str, Any] = {
        "episode_id": make_episode_id(format=format, dataset=format, version="", split="", key=key)
    }
    usual |= {"format": format, "dataset": format, "version": "", "split": "", "key": key, "source": key}
    usual |= {
        "content_hash": key,
        "instruction": "lift",
        "instructions": ("lift",),
        "robot": "",
        "cameras": (),
    }
    usual |= {"num_steps": 2, "rate_hz": 10.0, "rate_source": "source"}
    return Episode(**usual | fields)


_TFDS = "tensorflow_datasets.core.features."


@dataclass(frozen=True)
class WrittenRlds:
    """A dataset that was written.

    Attributes:
        path: Its folder.
        values: The values of its first record, (T, ...) by key.
    """

    path: Path
    values: Mapping[str, Any]


MakeRlds = Callable[..., WrittenRlds]


@pytest.fixture
def make_rlds(tmp_path: Path) -> MakeRlds:
    """Write a dataset into the folder of the test; see `write_rlds`."""
    return partial(write_rlds, tmp_path)


def write_rlds(
    parent: Path,
    name: str,
    leaves: Mapping[str, str],
    steps: int = 4,
    records: int = 1,
    changed: Mapping[str, Any] | None = None,
    old_form: bool = False,
) -> WrittenRlds:
    """Write a dataset from leaves such as {"steps/action": "float32 7"}; `changed` overrides values by key."""
    folder = parent / name / "0.1.0"
    folder.mkdir(parents=True)
    root = _root(leaves)
    (folder / "features.json").write_text(json.dumps(_in_old_form(root) if old_form else root))
    info = {"name": name, "version": "0.1.0", "fileFormat": "tfrecord"}
    info |= {"splits": [{"name": "train", "shardLengths": [str(records)]}]}  # type: ignore[dict-item]
    (folder / "dataset_info.json").write_text(json.dumps(info))
    record_values = [
        {key: _values(leaf, steps if key.startswith("steps/") else 0, seed) for key, leaf in leaves.items()}
        | dict(changed or {})
        for seed in range(records)
    ]
    payloads = [_example(leaves, values) for values in record_values]
    write_tfrecords(folder / f"{name}-train.tfrecord-00000-of-00001", payloads)
    return WrittenRlds(folder, record_values[0])


def _root(leaves: Mapping[str, str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, leaf in leaves.items():
        # Names inside observation and action may have a slash themselves: future/xyz_residual.
        *folders, name = key.split("/", 2 if key.startswith(("steps/observation/", "steps/action")) else 1)
        node = tree
        for folder in folders:
            node = node.setdefault(folder, {})
        node[name] = _leaf(leaf)
    return _dict(tree)


def _dict(tree: Mapping[str, Any]) -> dict[str, Any]:
    features = {
        key: value if "pythonClassName" in value else _steps(value) if key == "steps" else _dict(value)
        for key, value in tree.items()
    }
    return {
        "pythonClassName": _TFDS + "features_dict.FeaturesDict",
        "featuresDict": {"features": features},
    }


def _steps(tree: Mapping[str, Any]) -> dict[str, Any]:
    sequence = {"feature": _dict(tree), "length": "-1"}
    return {"pythonClassName": _TFDS + "dataset_feature.Dataset", "sequence": sequence}


def _leaf(leaf: str) -> dict[str, Any]:
    kind, *tokens = leaf.split()
    if kind == "text":
        return {"pythonClassName": _TFDS + "text_feature.Text", "text": {}}
    if kind == "texts":
        sequence = {"feature": _leaf("text"), "length": "-1"}
        return {"pythonClassName": _TFDS + "sequence_feature.Sequence", "sequence": sequence}
    if kind == "ragged":
        sequence = {"feature": _leaf(" ".join(tokens)), "length": "-1"}
        return {"pythonClassName": _TFDS + "sequence_feature.Sequence", "sequence": sequence}
    encoding = tokens.pop() if tokens and not tokens[-1].lstrip("-").isdigit() else "none"
    shape = {"dimensions": tokens} if tokens else {}
    if kind == "png":
        image = {"shape": shape, "dtype": "uint8", "encodingFormat": "png"}
        return {"pythonClassName": _TFDS + "image_feature.Image", "image": image}
    tensor = {"shape": shape, "dtype": kind, "encoding": encoding}
    return {"pythonClassName": _TFDS + "tensor_feature.Tensor", "tensor": tensor}


def _in_old_form(node: Mapping[str, Any]) -> dict[str, Any]:
    """The tree in the form that was written before 2022: {"type", "content"}, dimensions as lists with null."""
    name = node["pythonClassName"]
    if "featuresDict" in node:
        content: Any = {key: _in_old_form(value) for key, value in node["featuresDict"]["features"].items()}
    elif "sequence" in node:
        content = {"feature": _in_old_form(node["sequence"]["feature"]), "length": None}
    else:
        fields = dict(node.get("image") or node.get("tensor") or {})
        sizes = fields.pop("shape", {}).get("dimensions", [])
        content = fields | (
            {"shape": [None if int(size) < 0 else int(size) for size in sizes]} if fields else {}
        )
        content |= {"encoding_format": content.pop("encodingFormat")} if "encodingFormat" in content else {}
    return {"type": name, "content": content}


def _values(leaf: str, steps: int, seed: int) -> Any:
    """Values of one feature: (T, ...) of a step feature, one value of another (no steps)."""
    kind, *tokens = leaf.split()
    rng = np.random.default_rng([seed, *leaf.encode()])
    count = steps or 1
    if kind == "text":
        return ["open the drawer"] * count
    if kind in ("texts", "ragged"):
        return [["open it", "open the drawer"]] * count
    shape = [3 if int(word) < 0 else int(word) for word in tokens if word.lstrip("-").isdigit()]
    if kind == "png":
        return rng.integers(0, 256, (count, *shape), np.uint8)
    if kind == "bool":
        return rng.integers(0, 2, (count, *shape)).astype(bool)
    if "int" in kind:
        return rng.integers(0, 100, (count, *shape)).astype(kind)
    return rng.normal(size=(count, *shape)).astype(kind)


def _example(leaves: Mapping[str, str], values: Mapping[str, Any]) -> bytes:
    example = make_tf_example_class()()
    for key, leaf in leaves.items():
        if key in values and values[key] is not None:
            _store(example.features.feature, key, leaf, values[key])
    data: bytes = example.SerializeToString()
    return data


def _store(features: Any, key: str, leaf: str, values: Any) -> None:
    kind, encoding = leaf.split()[0], leaf.split()[-1]
    if kind in ("texts", "ragged"):
        flat = [value for row in values for value in row]
        inner = "text" if kind == "texts" else leaf.split(maxsplit=1)[1]
        _store(features, f"{key}/ragged_flat_values", inner, flat)
        features[f"{key}/ragged_row_lengths_0"].int64_list.value.extend(len(row) for row in values)
    elif kind == "text":
        features[key].bytes_list.value.extend(value.encode() for value in values)
    elif kind == "png":
        pictures = [cv2.imencode(".png", picture[..., ::-1])[1] for picture in values]
        features[key].bytes_list.value.extend(bytes(picture.tobytes()) for picture in pictures)
    elif encoding == "zlib":
        features[key].bytes_list.value.extend(zlib.compress(value.tobytes()) for value in values)
    elif encoding == "bytes":
        features[key].bytes_list.value.extend(value.tobytes() for value in values)
    elif kind.startswith("float"):
        features[key].float_list.value.extend(np.ravel(values).tolist())
    else:
        features[key].int64_list.value.extend(int(value) for value in np.ravel(values))
