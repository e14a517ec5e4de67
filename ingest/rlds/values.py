"""Values of the features of one record as arrays, texts and metadata; a wrong length is None, not an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ares.episode import Json
from ares.errors import SourceError
from ares.input import decompress_zlib, input_budgets
from ingest.rlds.features import Feature
from ingest.signals import MAX_SIGNAL_WIDTH

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ExampleFeatures = Mapping[str, Any]


def raw_values(example: ExampleFeatures, feature: Feature) -> Sequence[Any]:
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
        length = _step_count(len(raw_values(example, feature)), feature)
        if length:
            counts[length] += 1
    return max(counts.items(), key=lambda pair: (pair[1], pair[0]))[0] if counts else 0


def _step_count(num_values: int, feature: Feature) -> int:
    """How many steps a number of stored values is; 0 when it is not a multiple of the feature's size."""
    if feature.kind != "number" or feature.encoding != "none":
        return num_values
    size = feature.size
    return num_values // size if size and num_values % size == 0 else 0


def step_numbers(example: ExampleFeatures, feature: Feature, steps: int) -> NDArray[np.float32] | None:
    """(T, D) float32 of a numeric feature; None when the record does not have one value for each step."""
    import numpy as np

    values = raw_values(example, feature)
    if not values or _step_count(len(values), feature) != steps:
        return None
    if feature.encoding == "none":
        flat = np.array(values, np.float32)
        return flat.reshape(steps, -1)
    rows = [_decode_bytes(value, feature) for value in values]
    if any(row is None or row.size != feature.size for row in rows):
        return None
    return np.stack([row.astype(np.float32).ravel() for row in rows if row is not None])


def ragged_numbers(example: ExampleFeatures, feature: Feature, steps: int) -> NDArray[np.float32] | str:
    """(T, D) float32 of a numeric feature of open length, where every step has as many numbers; else why not."""
    import numpy as np

    values, lengths = raw_values(example, feature), example.get(f"{feature.key}/ragged_row_lengths_0")
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


def stored_numbers(example: ExampleFeatures, feature: Feature) -> NDArray[Any] | None:
    """(T,) of a feature of one number per step in the type in which it is stored; None where it is absent."""
    import numpy as np

    values = raw_values(example, feature)
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
    values = np.array(raw_values(example, feature))
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
    values = raw_values(example, feature)
    if feature.kind == "text":
        return [value.decode("utf-8", "replace") for value in dict.fromkeys(values)]
    size = feature.size or len(values) or 1
    rows = dict.fromkeys(tuple(values[start : start + size]) for start in range(0, len(values), size))
    return ["".join(chr(point) for point in row if 0 < point < 0x110000) for row in rows]


def read_metadata(example: ExampleFeatures, feature: Feature) -> Json:
    """A feature as metadata: one value or a short list; None when it is absent or too long."""
    values = raw_values(example, feature)
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
