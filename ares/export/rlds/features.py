"""The features.json of an RLDS dataset: the tree of types that TFDS decodes records by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ares.export.plan import DatasetGroup
from ares.export.rlds.keys import (
    ACTION_KEY,
    DISCOUNT_KEY,
    FLAG_KEYS,
    LANGUAGE_KEY,
    METADATA_PREFIX,
    REWARD_KEY,
    STATE_KEY,
    RldsKeys,
)

_MODULE = "tensorflow_datasets.core.features"
# What ARES says of every episode, also of one whose record is copied.
ARES_METADATA = {
    "ares_episode_id": "text",
    "ares_dataset": "text",
    "ares_key": "text",
    "ares_caption": "text",
    "ares_acceptable": "int64",
    "ares_grade": "text",
    "ares_grade_trust": "text",
    "ares_export": "text",
}
# What records say that are written anew; the outcome is 1, 0, or -1 where it is not known.
_WRITTEN_METADATA = {"success": "int64", "robot": "text"}

Tree = dict[str, Any]


def written_features(group: DatasetGroup, keys: RldsKeys) -> Tree:
    """The features of records that are written anew."""
    layout = group.layout
    leaves: dict[str, Tree] = {LANGUAGE_KEY: _text(), DISCOUNT_KEY: _scalar("float32")}
    leaves |= {key: _scalar("bool") for key in FLAG_KEYS}
    if layout.state_names:
        leaves[STATE_KEY] = _vector(len(layout.state_names))
    if layout.action_names:
        leaves[ACTION_KEY] = _vector(len(layout.action_names))
    if group.has_reward:
        leaves[REWARD_KEY] = _scalar("float32")
    sizes = {name: (height, width) for name, width, height in layout.cameras}
    leaves |= {key: _image(*sizes[name]) for name, key in keys.cameras.items()}
    leaves |= {key: _vector(len(group.common_signals[name])) for name, key in keys.signals.items()}
    leaves |= {METADATA_PREFIX + name: _leaf(kind) for name, kind in _metadata_types().items()}
    return _tree(leaves)


def _metadata_types() -> dict[str, str]:
    return ARES_METADATA | _WRITTEN_METADATA


def extended_features(source: Tree) -> Tree | None:
    """The features of a dataset with those that ARES adds to its records; None where they cannot be added."""
    features = _children(source)
    if features is None or "steps" not in features:
        return None
    metadata = features.get("episode_metadata", _dict({}))
    own = _children(metadata)
    if own is None or ARES_METADATA.keys() & own.keys():
        return None
    added = {name: _leaf(kind) for name, kind in ARES_METADATA.items()}
    extended = metadata | {"featuresDict": {"features": own | added}}
    return source | {"featuresDict": {"features": features | {"episode_metadata": extended}}}


def _children(node: Tree) -> dict[str, Any] | None:
    """The features of a dictionary of features; None for any other node, and in the form that TFDS had until 2022."""
    content = node.get("featuresDict") if isinstance(node, dict) else None
    features = content.get("features") if isinstance(content, dict) else None
    return features if isinstance(features, dict) else None


def _tree(leaves: Mapping[str, Tree]) -> Tree:
    """The tree of some leaves by key; "steps" is a sequence."""
    folders: dict[str, dict[str, Tree]] = {}
    for key, leaf in leaves.items():
        first, _, rest = key.partition("/")
        folders.setdefault(first, {})[rest] = leaf
    nodes = {name: _node(name, inner) for name, inner in sorted(folders.items())}
    return _dict(nodes)


def _node(name: str, inner: Mapping[str, Tree]) -> Tree:
    if "" in inner:
        return inner[""]
    tree = _tree(inner)
    if name != "steps":
        return tree
    sequence = {"feature": tree, "length": "-1"}
    return {"pythonClassName": f"{_MODULE}.dataset_feature.Dataset", "sequence": sequence}


def _dict(features: Mapping[str, Tree]) -> Tree:
    return {
        "pythonClassName": f"{_MODULE}.features_dict.FeaturesDict",
        "featuresDict": {"features": dict(features)},
    }


def _leaf(kind: str) -> Tree:
    return _text() if kind == "text" else _scalar(kind)


def _text() -> Tree:
    return {"pythonClassName": f"{_MODULE}.text_feature.Text", "text": {}}


def _scalar(dtype: str) -> Tree:
    tensor = {"shape": {}, "dtype": dtype, "encoding": "none"}
    return {"pythonClassName": f"{_MODULE}.scalar.Scalar", "tensor": tensor}


def _vector(size: int) -> Tree:
    tensor = {"shape": {"dimensions": [str(size)]}, "dtype": "float32", "encoding": "none"}
    return {"pythonClassName": f"{_MODULE}.tensor_feature.Tensor", "tensor": tensor}


def _image(height: int, width: int) -> Tree:
    shape = {"dimensions": [str(height), str(width), "3"]}
    image = {"shape": shape, "dtype": "uint8", "encodingFormat": "jpeg"}
    return {"pythonClassName": f"{_MODULE}.image_feature.Image", "image": image}
