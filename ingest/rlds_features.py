"""The feature tree of a TFDS dataset (features.json), flattened to the keys of its records."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ares import files
from ares.errors import SourceError

Kind = Literal["image", "text", "number", "other"]

_STEPS = "steps"
_NUMBERS = ("float", "int", "uint", "bool", "bfloat")


@dataclass(frozen=True, slots=True)
class Feature:
    """One leaf of the feature tree.

    Attributes:
        key: Key in the record, parts joined by "/".
        kind: What its values are.
        shape: Shape of one value (of one step, under "steps"); None for an open dimension.
        dtype: numpy's name of the declared type.
        encoding: How a number feature is stored: "none" as a list, "bytes" raw, "zlib" raw and compressed.
        ragged: Whether it is a sequence inside the steps, stored under other keys.
    """

    key: str
    kind: Kind
    shape: tuple[int | None, ...] = ()
    dtype: str = ""
    encoding: str = "none"
    ragged: bool = False

    @property
    def per_step(self) -> bool:
        """Whether there is a value for each step."""
        return self.key.startswith(_STEPS + "/")

    @property
    def name(self) -> str:
        """Last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def size(self) -> int | None:
        """Numbers in one value, or None when that is open."""
        return None if None in self.shape else math.prod(size or 0 for size in self.shape)


def read_features(path: Path) -> tuple[Feature, ...]:
    """Every leaf of a features.json, in its order.

    Raises SourceError when the file is not JSON or no feature tree.
    """
    try:
        tree = json.loads(path.read_bytes())
    except OSError as error:
        raise SourceError("features.json cannot be read", f"{path}: {files.words(error)}") from None
    except ValueError as error:
        raise SourceError("features.json is not JSON", f"{path}: {error}") from None
    try:
        features = tuple(_leaves(tree, "", (), False))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise SourceError("features.json is no feature tree", f"{path}: {error!r}") from None
    if not features:
        raise SourceError("features.json is no feature tree", f"{path}: it names no feature")
    return features


def _leaves(
    node: Mapping[str, Any], key: str, outer: tuple[int | None, ...], ragged: bool
) -> Iterator[Feature]:
    node = _today(node)
    if "featuresDict" in node:
        for name, child in node["featuresDict"]["features"].items():
            yield from _leaves(child, f"{key}/{name}" if key else name, outer, ragged)
    elif "sequence" in node:
        yield from _sequence(node["sequence"], key, outer, ragged)
    elif key:
        yield _leaf(node, key, outer, ragged)


def _sequence(
    node: Mapping[str, Any], key: str, outer: tuple[int | None, ...], ragged: bool
) -> Iterator[Feature]:
    if key == _STEPS:
        yield from _leaves(node["feature"], key, outer, ragged)
        return
    length = int(node.get("length", -1))
    inside = key.startswith(_STEPS + "/")
    size = None if length < 0 else length
    yield from _leaves(node["feature"], key, (*outer, size), ragged or (inside and size is None))


def _leaf(node: Mapping[str, Any], key: str, outer: tuple[int | None, ...], ragged: bool) -> Feature:
    kind = str(node.get("pythonClassName", "")).rpartition(".")[2]
    if "image" in node:
        return Feature(
            key,
            "image",
            (*outer, *_shape(node["image"])),
            node["image"].get("dtype") or "uint8",
            ragged=ragged,
        )
    if "text" in node or kind == "Text":
        return Feature(key, "text", outer, "object", ragged=ragged)
    if "classLabel" in node:
        return Feature(key, "number", outer, "int64", ragged=ragged)
    if "tensor" not in node:
        return Feature(key, "other", outer, kind, ragged=ragged)
    tensor = node["tensor"]
    dtype, shape = str(tensor.get("dtype", "")), (*outer, *_shape(tensor))
    encoding = str(tensor.get("encoding", "none")).lower()
    if dtype in ("string", "object", "str"):
        return Feature(key, "text", shape, "object", encoding, ragged)
    return Feature(key, "number" if dtype.startswith(_NUMBERS) else "other", shape, dtype, encoding, ragged)


def _shape(node: Mapping[str, Any]) -> tuple[int | None, ...]:
    shape = node.get("shape") or ()
    sizes = shape.get("dimensions", ()) if isinstance(shape, Mapping) else shape
    return tuple(None if size is None or int(size) < 0 else int(size) for size in sizes)


def _today(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """A node in the form of today, from the {"type", "content"} that tensorflow_datasets wrote until 2022."""
    if "type" not in node or "content" not in node:
        return node
    name, content = str(node["type"]), node["content"]
    content = json.loads(content) if isinstance(content, str) else content or {}
    made: dict[str, Any] = {"pythonClassName": name}
    kind = name.rpartition(".")[2]
    if kind == "FeaturesDict":
        made["featuresDict"] = content if node.get("proto_cls") else {"features": content}
    elif kind in ("Sequence", "Dataset"):
        made["sequence"] = {"feature": content["feature"], "length": _or(content.get("length"), -1)}
    elif kind in ("Image", "LabeledImage"):
        made["image"] = content
    elif kind == "ClassLabel":
        made["classLabel"] = content
    elif kind in ("Tensor", "Scalar"):
        made["tensor"] = content
    return made


def _or(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value
