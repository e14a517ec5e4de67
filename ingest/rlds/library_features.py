"""Features of classes that only tensorflow-datasets knows, decoded by it, without TensorFlow where it can."""

from __future__ import annotations

import contextlib
import functools
import io
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.errors import SourceError
from ingest.json_files import read_json_object
from ingest.rlds.features import Feature
from ingest.signals import MAX_SIGNAL_WIDTH

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# features.json names the classes that the library imports: no other module may be named by a file.
_CLASSES = "tensorflow_datasets.core.features."


def library_numbers(folder: str, feature: Feature, payload: bytes, steps: int) -> NDArray[np.float32] | str:
    """(T, D) float32 of a feature of the steps, as tensorflow-datasets decodes it; else why it is not stored.

    Args:
        folder: Folder of the dataset.
        feature: The feature.
        payload: The record.
        steps: Number of steps of the record.
    """
    import numpy as np

    decoder = _decoder(folder, feature.key)
    if isinstance(decoder, str):
        return decoder
    names = feature.key.split("/")[1:]
    try:
        rows = [_value_at(step, names) for step in decoder.deserialize_example_np(payload)["steps"]]
        values = np.stack([np.asarray(row).reshape(-1) for row in rows])
    except Exception as error:  # the library raises errors of all kinds for what it cannot decode
        return f"tensorflow-datasets cannot read it: {type(error).__name__}"
    if values.dtype.kind not in "biuf" or values.shape[0] != steps:
        return "no number for each step"
    if not 0 < values.shape[1] <= MAX_SIGNAL_WIDTH:
        return "too wide for a signal, or empty"
    return values.astype(np.float32)


def _value_at(step: Any, names: list[str]) -> Any:
    return functools.reduce(lambda value, name: value[name], names, step)


@functools.lru_cache(maxsize=256)
def _decoder(folder: str, key: str) -> Any:
    """The tree of tensorflow-datasets with one feature; or why there is none."""
    if find_spec("tensorflow_datasets") is None:
        return "its type needs pip install 'ares-curation[tfds]'"
    try:
        tree = _single_feature(read_json_object(Path(folder, "features.json")), key.split("/"))
    except (KeyError, StopIteration, TypeError, AttributeError, SourceError):
        return "features.json has no such feature in its present form"
    if any(not name.startswith(_CLASSES) for name in _class_names(tree)):
        return "its class is not one of tensorflow-datasets"
    # The library prints that TensorFlow is missing, and warns of other packages.
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        try:
            from tensorflow_datasets.core.features import FeaturesDict

            return FeaturesDict.from_json(tree)
        except ModuleNotFoundError as error:
            return f"tensorflow-datasets needs {error.name} for its type"
        except Exception as error:  # damaged fields of its class
            return f"tensorflow-datasets does not accept it: {type(error).__name__}"


def _single_feature(node: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """A node of features.json with only the feature at the end of some names. Raises KeyError where it is not there."""
    if not names:
        return dict(node)
    if "sequence" in node:
        inner = _single_feature(node["sequence"]["feature"], names)
        return {**node, "sequence": {**node["sequence"], "feature": inner}}
    features = node["featuresDict"]["features"]
    # A name may have a slash itself.
    count = next(end for end in range(1, len(names) + 1) if "/".join(names[:end]) in features)
    name = "/".join(names[:count])
    return {**node, "featuresDict": {"features": {name: _single_feature(features[name], names[count:])}}}


def _class_names(node: Any) -> list[str]:
    """Every class that a tree names, also those in the fields of a class."""
    if isinstance(node, Mapping):
        own = [str(value) for key, value in node.items() if key in ("pythonClassName", "type", "proto_cls")]
        return own + [name for value in node.values() for name in _class_names(value)]
    return [name for part in node for name in _class_names(part)] if isinstance(node, list) else []
