"""Values of one record's features as arrays and texts; what is absent or of another length is told, not raised."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ares.episode import Json
from ingest.rlds_features import Feature

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Example = Mapping[str, Any]


def stored(example: Example, feature: Feature) -> Sequence[Any]:
    """The values as the record holds them; empty when the key is absent."""
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


def count_steps(example: Example, features: Sequence[Feature]) -> int:
    """Steps of the record: the length that most of its step features have; 0 when there is none."""
    counts: Counter[int] = Counter()
    for feature in features:
        length = _length(len(stored(example, feature)), feature)
        if length:
            counts[length] += 1
    return max(counts.items(), key=lambda pair: (pair[1], pair[0]))[0] if counts else 0


def _length(values: int, feature: Feature) -> int:
    """How many steps that many stored values are; 0 when they do not come out even."""
    if feature.kind != "number" or feature.encoding != "none":
        return values
    size = feature.size
    return values // size if size and values % size == 0 else 0


def step_numbers(example: Example, feature: Feature, steps: int) -> NDArray[np.float32] | None:
    """(T, D) float32 of a number feature; None when the record has not one value for each step."""
    import numpy as np

    values = stored(example, feature)
    if not values or _length(len(values), feature) != steps:
        return None
    if feature.encoding == "none":
        flat = np.array(values, np.float32)
        return flat.reshape(steps, -1)
    rows = [_unpack(value, feature) for value in values]
    if any(row is None or row.size != feature.size for row in rows):
        return None
    return np.stack([row.astype(np.float32).ravel() for row in rows if row is not None])


def is_rounded(example: Example, feature: Feature) -> bool:
    """Whether float32 cannot hold the integers of a feature exactly."""
    import numpy as np

    if "int" not in feature.dtype or feature.encoding != "none":
        return False
    values = np.array(stored(example, feature))
    return bool(values.dtype.kind == "i" and (values.astype(np.float32).astype(np.float64) != values).any())


def _unpack(value: bytes, feature: Feature) -> NDArray[Any] | None:
    import numpy as np

    try:
        raw = zlib.decompress(value) if feature.encoding == "zlib" else value
        return np.frombuffer(raw, np.dtype(feature.dtype))
    except (zlib.error, ValueError, TypeError):
        return None


def texts(example: Example, feature: Feature) -> list[str]:
    """The different texts of a feature, in order of appearance; padded code points are turned into text."""
    values = stored(example, feature)
    if feature.kind == "text":
        return [value.decode("utf-8", "replace") for value in dict.fromkeys(values)]
    size = feature.size or len(values) or 1
    rows = dict.fromkeys(tuple(values[start : start + size]) for start in range(0, len(values), size))
    return ["".join(chr(point) for point in row if 0 < point < 0x110000) for row in rows]


def note(example: Example, feature: Feature) -> Json:
    """A feature as metadata: one value, a short list, or None when the record has it not or it is long."""
    values = stored(example, feature)
    if not values or (len(values) > 64 and feature.kind == "number"):
        return None
    if feature.kind == "text":
        found: list[Json] = list(texts(example, feature)[:16])
    elif feature.encoding != "none":
        return None
    elif feature.dtype == "bool":
        found = [bool(value) for value in values]
    else:
        found = list(values)
    return found[0] if len(found) == 1 else found
