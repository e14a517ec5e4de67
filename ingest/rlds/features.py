"""The features of an RLDS record by key: their tree, slices of them, and their values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ares.console import count_of
from ares.episode import Json
from ares.errors import SourceError
from ares.input import decompress_zlib, input_budgets, parse_json, read_input
from ares_ingest.files import read_json_object
from ares_ingest.signals import MAX_SIGNAL_WIDTH, numbered_names, spread_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares_ingest.spec import SliceSpec


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
        features = tuple(_leaf_features(tree, "", (), False))
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


def _leaf_features(
    node: Mapping[str, Any], key: str, outer: tuple[int | None, ...], ragged: bool
) -> Iterator[Feature]:
    node = _current_form(node)
    if "featuresDict" in node:
        for name, child in node["featuresDict"]["features"].items():
            yield from _leaf_features(child, f"{key}/{name}" if key else name, outer, ragged)
    elif "sequence" in node:
        yield from _sequence_leaves(node["sequence"], key, outer, ragged)
    elif "optional" in node:
        yield from _leaf_features(node["optional"]["feature"], key, outer, ragged)
    elif "translation" in node and node["translation"].get("languages"):
        for language in node["translation"]["languages"]:
            yield Feature(f"{key}/{language}", "text", outer, "object", ragged=ragged)
    elif key:
        yield _build_feature(node, key, outer, ragged)


def _sequence_leaves(
    node: Mapping[str, Any], key: str, outer: tuple[int | None, ...], ragged: bool
) -> Iterator[Feature]:
    if key == _STEPS_KEY:
        yield from _leaf_features(node["feature"], key, outer, ragged)
        return
    length = int(node.get("length", -1))
    inside = key.startswith(_STEPS_KEY + "/")
    size = None if length < 0 else length
    yield from _leaf_features(node["feature"], key, (*outer, size), ragged or (inside and size is None))


def _build_feature(node: Mapping[str, Any], key: str, outer: tuple[int | None, ...], ragged: bool) -> Feature:
    kind = str(node.get("pythonClassName", "")).rpartition(".")[2]
    if "image" in node:
        return Feature(
            key,
            "image",
            (*outer, *_stated_shape(node["image"])),
            node["image"].get("dtype") or "uint8",
            ragged=ragged,
        )
    if "video" in node:
        # Stored as the encoded images of a sequence.
        is_inside = key.startswith(_STEPS_KEY + "/")
        size = (*outer, *_stated_shape(node["video"])[1:])
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
    dtype, shape = str(tensor.get("dtype", "")), (*outer, *_stated_shape(tensor))
    encoding = str(tensor.get("encoding", "none")).lower()
    if dtype in ("string", "object", "str"):
        return Feature(key, "text", shape, "object", encoding, ragged)
    return Feature(
        key, "number" if dtype.startswith(_NUMBER_DTYPES) else "other", shape, dtype, encoding, ragged
    )


def _stated_shape(node: Mapping[str, Any]) -> tuple[int | None, ...]:
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


# Begin of the warning that a spec is not used.
MISFIT = "the spec's {} does not fit"


class Misfit(NamedTuple):
    """What a spec says and a dataset does not have.

    Attributes:
        field: Field of the spec: "state".
        key: The feature that it names.
        reason: Why it does not fit.
        warning: How it is told where the spec is not the user's own; "" for not at all.
    """

    field: str
    key: str
    reason: str
    warning: str = ""


class FeatureSlice(NamedTuple):
    """Numbers [start, stop) of a feature, and their names."""

    feature: Feature
    start: int
    stop: int
    names: tuple[str, ...]


def full_feature_slices(features: Iterable[Feature]) -> tuple[FeatureSlice, ...]:
    """A slice for each feature with all its numbers, named after the feature."""
    return tuple(
        FeatureSlice(feature, 0, feature.size or 0, numbered_names(feature.name, feature.size or 0))
        for feature in features
    )


def find_slices_of_spec(
    slices: Sequence[SliceSpec], signals: Sequence[Feature], role: str, misfits: list[Misfit]
) -> tuple[FeatureSlice, ...] | None:
    """The slices of a spec; None when there are none, or when they do not fit the features.

    Args:
        slices: From the spec, in order.
        signals: Numeric features of the steps.
        role: "state" or "action", for the message.
        misfits: Why the spec does not fit is appended here.
    """
    if not slices:
        return None
    by_key = {feature.key: feature for feature in signals}
    result: list[FeatureSlice] = []
    for spec_slice in slices:
        reason = _reason_misfit(spec_slice, by_key.get(spec_slice.key))
        if reason:
            misfits.append(_signal_misfit(role, spec_slice.key, reason))
            return None
        feature = by_key[spec_slice.key]
        stop = spec_slice.stop or feature.size or 0
        part_names = spread_names(spec_slice.names, stop - spec_slice.start)
        _append_merged(result, FeatureSlice(feature, spec_slice.start, stop, part_names))
    names = [name for feature_slice in result for name in feature_slice.names]
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        misfits.append(_signal_misfit(role, duplicate, f"two numbers are named {duplicate}"))
        return None
    return tuple(result)


def _signal_misfit(role: str, key: str, reason: str) -> Misfit:
    return Misfit(role, key, reason, f"{MISFIT.format(role)} ({reason}), chosen by name instead")


def _reason_misfit(spec_slice: SliceSpec, feature: Feature | None) -> str:
    if feature is None:
        return f"{spec_slice.key} does not exist"
    size = feature.size or 0
    if (spec_slice.stop or spec_slice.start + 1) > size:
        return f"{spec_slice.key} has {count_of(size, 'number')}"
    if spec_slice.stop is None and len(spec_slice.names) not in (1, size - spec_slice.start):
        return f"{spec_slice.key} has {count_of(size, 'number')}, {len(spec_slice.names)} are named"
    return ""


def _append_merged(slices: list[FeatureSlice], new_slice: FeatureSlice) -> None:
    """Append a slice, merged with the last one where it continues it: fewer slices are faster to read."""
    last = slices[-1] if slices else None
    if last and last.feature == new_slice.feature and last.stop == new_slice.start:
        slices[-1] = FeatureSlice(last.feature, last.start, new_slice.stop, (*last.names, *new_slice.names))
    else:
        slices.append(new_slice)


ExampleFeatures = Mapping[str, Any]


def read_feature_values(example: ExampleFeatures, feature: Feature) -> Sequence[Any]:
    """The values of a feature as the record stores them; empty when its key is absent."""
    key = f"{feature.key}/ragged_flat_values" if feature.ragged else feature.key
    if key not in example:
        return ()
    kind = example[key]
    if feature.kind in ("image", "text") or feature.encoding != "none":
        values: Sequence[Any] = kind.bytes_list.value
    elif feature.dtype.startswith(("float", "bfloat")):
        values = kind.float_list.value or kind.int64_list.value
    else:
        values = kind.int64_list.value or kind.float_list.value
    return values


def count_steps(example: ExampleFeatures, features: Sequence[Feature]) -> int:
    """Number of steps of the record: the length of most of its step features; 0 when it has none."""
    counts: Counter[int] = Counter()
    for feature in features:
        length = _step_count(len(read_feature_values(example, feature)), feature)
        if length:
            counts[length] += 1
    return max(counts.items(), key=lambda pair: (pair[1], pair[0]))[0] if counts else 0


def _step_count(num_values: int, feature: Feature) -> int:
    """How many steps a number of stored values is; 0 when it is not a multiple of the feature's size."""
    if feature.kind != "number" or feature.encoding != "none":
        return num_values
    size = feature.size
    return num_values // size if size and num_values % size == 0 else 0


def read_step_numbers(example: ExampleFeatures, feature: Feature, steps: int) -> NDArray[np.float32] | None:
    """(T, D) float32 of a numeric feature; None when the record does not have one value for each step."""
    import numpy as np

    values = read_feature_values(example, feature)
    if not values or _step_count(len(values), feature) != steps:
        return None
    if feature.encoding == "none":
        flat = np.array(values, np.float32)
        return flat.reshape(steps, -1)
    rows = [_decode_bytes(value, feature) for value in values]
    if any(row is None or row.size != feature.size for row in rows):
        return None
    return np.stack([row.astype(np.float32).ravel() for row in rows if row is not None])


def read_ragged_numbers(example: ExampleFeatures, feature: Feature, steps: int) -> NDArray[np.float32] | str:
    """(T, D) float32 of a numeric feature of open length, where every step has as many numbers; else why not."""
    import numpy as np

    values, lengths = (
        read_feature_values(example, feature),
        example.get(f"{feature.key}/ragged_row_lengths_0"),
    )
    if f"{feature.key}/ragged_row_lengths_1" in example:
        return "sequences in sequences"
    counts = set(lengths.int64_list.value) if lengths is not None else set()
    if len(counts) > 1:
        return "its length differs from step to step"
    if not values or lengths is None or len(lengths.int64_list.value) != steps or len(values) % steps:
        return "no number for each step"
    if len(values) // steps > MAX_SIGNAL_WIDTH:
        return "too wide for a signal"
    return np.array(values, np.float32).reshape(steps, -1)


def read_stored_numbers(example: ExampleFeatures, feature: Feature) -> NDArray[Any] | None:
    """(T,) of a feature of one number per step in the type in which it is stored; None where it is absent."""
    import numpy as np

    values = read_feature_values(example, feature)
    if feature.encoding == "none":
        return np.array(values) if values else None
    rows = [_decode_bytes(value, feature) for value in values]
    present = [row for row in rows if row is not None and row.size == 1]
    return np.concatenate(present) if present and len(present) == len(rows) else None


def is_rounded(example: ExampleFeatures, feature: Feature) -> bool:
    """Whether float32 cannot represent the integers of a feature exactly."""
    import numpy as np

    if "int" not in feature.dtype or feature.encoding != "none":
        return False
    values = np.array(read_feature_values(example, feature))
    return bool(values.dtype.kind == "i" and (values.astype(np.float32).astype(np.float64) != values).any())


def _decode_bytes(value: bytes, feature: Feature) -> NDArray[Any] | None:
    import numpy as np

    try:
        dtype = np.dtype(feature.dtype)
        max_bytes = min((feature.size or 2**62) * dtype.itemsize, input_budgets().array_bytes)
        raw = decompress_zlib(value, max_bytes, feature.key) if feature.encoding == "zlib" else value
        return np.frombuffer(raw, dtype)
    except (SourceError, ValueError, TypeError):
        return None


def read_texts(example: ExampleFeatures, feature: Feature) -> list[str]:
    """The distinct texts of a feature, in order of appearance; padded code points are decoded."""
    values = read_feature_values(example, feature)
    if feature.kind == "text":
        return [value.decode("utf-8", "replace") for value in dict.fromkeys(values)]
    size = feature.size or len(values) or 1
    rows = dict.fromkeys(tuple(values[start : start + size]) for start in range(0, len(values), size))
    return ["".join(chr(point) for point in row if 0 < point < 0x110000) for row in rows]


def read_step_texts(example: ExampleFeatures, feature: Feature, steps: int) -> list[str]:
    """The text of each step; empty where the feature has no text for each."""
    values = read_feature_values(example, feature)
    if not feature.per_step or not values or len(values) % steps:
        return []
    if feature.kind == "text":
        return [value.decode("utf-8", "replace") for value in values] if len(values) == steps else []
    size = len(values) // steps
    rows = (values[start : start + size] for start in range(0, len(values), size))
    return ["".join(chr(point) for point in row if 0 < point < 0x110000) for row in rows]


def read_metadata(example: ExampleFeatures, feature: Feature) -> Json:
    """A feature as metadata: one value or a short list; None when it is absent or too long."""
    values = read_feature_values(example, feature)
    if not values or (len(values) > 64 and feature.kind == "number"):
        return None
    if feature.kind == "text":
        items: list[Json] = list(read_texts(example, feature)[:16])
    elif feature.encoding != "none":
        return None
    elif feature.dtype == "bool":
        items = [bool(value) for value in values]
    elif feature.labels:
        names = feature.labels
        items = [names[value] if 0 <= value < len(names) else value for value in values]
    else:
        items = list(values)
    return items[0] if len(items) == 1 else items
