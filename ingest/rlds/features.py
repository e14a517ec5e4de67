"""The feature tree of a TFDS dataset (features.json), flattened to the keys of its records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ares.errors import SourceError
from ares.input import parse_json, read_input
from ingest.json_files import read_json_object

Kind = Literal["image", "text", "number", "other"]

_STEPS_KEY = "steps"
_NUMBER_DTYPES = ("float", "int", "uint", "bool", "bfloat")


@dataclass(frozen=True, slots=True)
class Feature:
    """One leaf of the feature tree.

    Attributes:
        key: Key in the record, with "/" between its parts.
        kind: What its values are.
        shape: Shape of one value (of one step, under "steps"); None for a dimension of unknown size.
        dtype: NumPy name of the declared type.
        encoding: Storage of a numeric feature: "none" as a list, "bytes" as raw bytes, "zlib" as compressed bytes.
        ragged: Whether it is a sequence of unknown length in each step, which is stored under other keys.
        labels: Names of the classes that its numbers stand for, where the dataset has them.
        class_count: Number of classes; 0 for what is no class label.
        is_video: Whether it is the frames of one video beside the steps.
    """

    key: str
    kind: Kind
    shape: tuple[int | None, ...] = ()
    dtype: str = ""
    encoding: str = "none"
    ragged: bool = False
    labels: tuple[str, ...] = ()
    class_count: int = 0
    is_video: bool = False

    @property
    def per_step(self) -> bool:
        """Whether it has a value for each step."""
        return self.key.startswith(_STEPS_KEY + "/")

    @property
    def name(self) -> str:
        """Last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def size(self) -> int | None:
        """Numbers in one value, or None when that is unknown."""
        return None if None in self.shape else math.prod(size or 0 for size in self.shape)


def read_features(path: Path) -> tuple[Feature, ...]:
    """All leaves of a features.json, in the order of the file.

    Raises SourceError when the file is not JSON or not a feature tree.
    """
    tree = read_json_object(path)
    try:
        features = tuple(_leaves(tree, "", (), False))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise SourceError("features.json is not a feature tree", f"{path}: {error!r}") from None
    if not features:
        raise SourceError("features.json is not a feature tree", f"{path}: it has no features")
    return tuple(_with_labels(path.parent, feature) for feature in features)


def _with_labels(folder: Path, feature: Feature) -> Feature:
    """A class label with the names of its classes, which tensorflow_datasets writes into a file of their own."""
    if feature.class_count == 0:
        return feature
    # Of "steps/mode" the file is steps-mode.labels.txt.
    name = feature.key.replace("/", "-") + ".labels.txt"
    try:
        text = read_input(str(folder / name)).decode("utf-8", "replace")
    except (OSError, SourceError):
        return feature
    return replace(feature, labels=tuple(line.strip() for line in text.splitlines() if line.strip()))


def _leaves(
    node: Mapping[str, Any], key: str, outer: tuple[int | None, ...], ragged: bool
) -> Iterator[Feature]:
    node = _current_form(node)
    if "featuresDict" in node:
        for name, child in node["featuresDict"]["features"].items():
            yield from _leaves(child, f"{key}/{name}" if key else name, outer, ragged)
    elif "sequence" in node:
        yield from _sequence_leaves(node["sequence"], key, outer, ragged)
    elif "optional" in node:
        yield from _leaves(node["optional"]["feature"], key, outer, ragged)
    elif "translation" in node and node["translation"].get("languages"):
        for language in node["translation"]["languages"]:
            yield Feature(f"{key}/{language}", "text", outer, "object", ragged=ragged)
    elif key:
        yield _build_feature(node, key, outer, ragged)


def _sequence_leaves(
    node: Mapping[str, Any], key: str, outer: tuple[int | None, ...], ragged: bool
) -> Iterator[Feature]:
    if key == _STEPS_KEY:
        yield from _leaves(node["feature"], key, outer, ragged)
        return
    length = int(node.get("length", -1))
    inside = key.startswith(_STEPS_KEY + "/")
    size = None if length < 0 else length
    yield from _leaves(node["feature"], key, (*outer, size), ragged or (inside and size is None))


def _build_feature(node: Mapping[str, Any], key: str, outer: tuple[int | None, ...], ragged: bool) -> Feature:
    kind = str(node.get("pythonClassName", "")).rpartition(".")[2]
    if "image" in node:
        return Feature(
            key,
            "image",
            (*outer, *_shape(node["image"])),
            node["image"].get("dtype") or "uint8",
            ragged=ragged,
        )
    if "video" in node:
        # Stored as the encoded images of a sequence.
        is_inside = key.startswith(_STEPS_KEY + "/")
        size = (*outer, *_shape(node["video"])[1:])
        return Feature(key, "image", size, "uint8", ragged=ragged or is_inside, is_video=not is_inside)
    if "text" in node or kind == "Text":
        return Feature(key, "text", outer, "object", ragged=ragged)
    if "classLabel" in node:
        count = max(int(node["classLabel"].get("numClasses") or 0), 1)
        return Feature(key, "number", outer, "int64", ragged=ragged, class_count=count)
    if "boundingBox" in node or kind == "BBoxFeature":
        # Normalised ymin, xmin, ymax, xmax.
        return Feature(key, "number", (*outer, 4), "float32", ragged=ragged)
    if "tensor" not in node:
        return Feature(key, "other", outer, kind, ragged=ragged)
    tensor = node["tensor"]
    dtype, shape = str(tensor.get("dtype", "")), (*outer, *_shape(tensor))
    encoding = str(tensor.get("encoding", "none")).lower()
    if dtype in ("string", "object", "str"):
        return Feature(key, "text", shape, "object", encoding, ragged)
    return Feature(
        key, "number" if dtype.startswith(_NUMBER_DTYPES) else "other", shape, dtype, encoding, ragged
    )


def _shape(node: Mapping[str, Any]) -> tuple[int | None, ...]:
    shape = node.get("shape") or ()
    sizes = shape.get("dimensions", ()) if isinstance(shape, Mapping) else shape
    return tuple(None if size is None or int(size) < 0 else int(size) for size in sizes)


def _current_form(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """A node in the current form; tensorflow_datasets wrote {"type", "content"} until 2022."""
    if "type" not in node or "content" not in node:
        return node
    name, content = str(node["type"]), node["content"]
    content = parse_json(content, "features.json") if isinstance(content, str) else content or {}
    converted: dict[str, Any] = {"pythonClassName": name}
    kind = name.rpartition(".")[2]
    if kind == "FeaturesDict":
        converted["featuresDict"] = content if node.get("proto_cls") else {"features": content}
    elif kind in ("Sequence", "Dataset"):
        converted["sequence"] = {
            "feature": content["feature"],
            "length": _if_not_none(content.get("length"), -1),
        }
    elif kind in ("Image", "LabeledImage"):
        converted["image"] = content
    elif kind == "ClassLabel":
        converted["classLabel"] = content
    elif kind in ("Tensor", "Scalar"):
        converted["tensor"] = content
    return converted


def _if_not_none(value: Any, default: Any) -> Any:
    return default if value is None else value
