"""RLDS datasets of any feature tree, written the way tensorflow_datasets writes them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from ares.media.tfrecord import example_class, write_records

_TFDS = "tensorflow_datasets.core.features."


@dataclass(frozen=True)
class Made:
    """A dataset that was written.

    Attributes:
        path: Its folder.
        values: What stands in its first record, (T, ...) by key.
    """

    path: Path
    values: Mapping[str, Any]


MakeRlds = Callable[..., Made]


@pytest.fixture
def make_rlds(tmp_path: Path) -> MakeRlds:
    """Write a dataset from leaves such as {"steps/action": "float32 7"}; `changed` overrides values by key."""

    def make(
        name: str,
        leaves: Mapping[str, str],
        steps: int = 4,
        records: int = 1,
        changed: Mapping[str, Any] | None = None,
        as_was: bool = False,
    ) -> Made:
        folder = tmp_path / name / "0.1.0"
        folder.mkdir(parents=True)
        root = _root(leaves)
        (folder / "features.json").write_text(json.dumps(_as_was(root) if as_was else root))
        info = {"name": name, "version": "0.1.0", "fileFormat": "tfrecord"}
        info |= {"splits": [{"name": "train", "shardLengths": [str(records)]}]}  # type: ignore[dict-item]
        (folder / "dataset_info.json").write_text(json.dumps(info))
        made = [
            {
                key: _values(leaf, steps if key.startswith("steps/") else 0, seed)
                for key, leaf in leaves.items()
            }
            | dict(changed or {})
            for seed in range(records)
        ]
        payloads = [_example(leaves, values) for values in made]
        write_records(folder / f"{name}-train.tfrecord-00000-of-00001", payloads)
        return Made(folder, made[0])

    return make


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
    kind, *words = leaf.split()
    if kind == "text":
        return {"pythonClassName": _TFDS + "text_feature.Text", "text": {}}
    if kind == "texts":
        sequence = {"feature": _leaf("text"), "length": "-1"}
        return {"pythonClassName": _TFDS + "sequence_feature.Sequence", "sequence": sequence}
    if kind == "ragged":
        sequence = {"feature": _leaf(" ".join(words)), "length": "-1"}
        return {"pythonClassName": _TFDS + "sequence_feature.Sequence", "sequence": sequence}
    encoding = words.pop() if words and not words[-1].lstrip("-").isdigit() else "none"
    shape = {"dimensions": words} if words else {}
    if kind == "png":
        image = {"shape": shape, "dtype": "uint8", "encodingFormat": "png"}
        return {"pythonClassName": _TFDS + "image_feature.Image", "image": image}
    tensor = {"shape": shape, "dtype": kind, "encoding": encoding}
    return {"pythonClassName": _TFDS + "tensor_feature.Tensor", "tensor": tensor}


def _as_was(node: Mapping[str, Any]) -> dict[str, Any]:
    """The tree in the form of before 2022: {"type", "content"}, dimensions as lists with null."""
    name = node["pythonClassName"]
    if "featuresDict" in node:
        content: Any = {key: _as_was(value) for key, value in node["featuresDict"]["features"].items()}
    elif "sequence" in node:
        content = {"feature": _as_was(node["sequence"]["feature"]), "length": None}
    else:
        inner = dict(node.get("image") or node.get("tensor") or {})
        sizes = inner.pop("shape", {}).get("dimensions", [])
        content = inner | (
            {"shape": [None if int(each) < 0 else int(each) for each in sizes]} if inner else {}
        )
        content |= {"encoding_format": content.pop("encodingFormat")} if "encodingFormat" in content else {}
    return {"type": name, "content": content}


def _values(leaf: str, steps: int, seed: int) -> Any:
    """Values of one feature: (T, ...) of a step feature, one value of another (no steps)."""
    kind, *words = leaf.split()
    rng = np.random.default_rng([seed, *leaf.encode()])
    count = steps or 1
    if kind == "text":
        return ["open the drawer"] * count
    if kind in ("texts", "ragged"):
        return [["open it", "open the drawer"]] * count
    shape = [3 if int(each) < 0 else int(each) for each in words if each.lstrip("-").isdigit()]
    if kind == "png":
        return rng.integers(0, 256, (count, *shape), np.uint8)
    if kind == "bool":
        return rng.integers(0, 2, (count, *shape)).astype(bool)
    if "int" in kind:
        return rng.integers(0, 100, (count, *shape)).astype(kind)
    return rng.normal(size=(count, *shape)).astype(kind)


def _example(leaves: Mapping[str, str], values: Mapping[str, Any]) -> bytes:
    example = example_class()()
    for key, leaf in leaves.items():
        if key in values and values[key] is not None:
            _store(example.features.feature, key, leaf, values[key])
    data: bytes = example.SerializeToString()
    return data


def _store(features: Any, key: str, leaf: str, values: Any) -> None:
    kind, encoding = leaf.split()[0], leaf.split()[-1]
    if kind in ("texts", "ragged"):
        flat = [each for row in values for each in row]
        inner = "text" if kind == "texts" else leaf.split(maxsplit=1)[1]
        _store(features, f"{key}/ragged_flat_values", inner, flat)
        features[f"{key}/ragged_row_lengths_0"].int64_list.value.extend(len(row) for row in values)
    elif kind == "text":
        features[key].bytes_list.value.extend(each.encode() for each in values)
    elif kind == "png":
        pictures = [cv2.imencode(".png", picture[..., ::-1])[1] for picture in values]
        features[key].bytes_list.value.extend(bytes(each.tobytes()) for each in pictures)
    elif encoding == "zlib":
        features[key].bytes_list.value.extend(zlib.compress(each.tobytes()) for each in values)
    elif encoding == "bytes":
        features[key].bytes_list.value.extend(each.tobytes() for each in values)
    elif kind.startswith("float"):
        features[key].float_list.value.extend(np.ravel(values).tolist())
    else:
        features[key].int64_list.value.extend(int(each) for each in np.ravel(values))
