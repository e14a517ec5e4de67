"""Features of classes that only tensorflow-datasets knows are decoded by it, or left out with the reason."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.episode import Record
from ingest.base import SourceOptions
from ingest.rlds import rlds
from ingest.rlds.episode import _library_decoder

MakeRlds = Callable[..., Any]
FORCE = "steps/observation/force"
LEAVES = {"steps/action": "float32 7", FORCE: "float32 2", "steps/observation/image": "png 8 12 3"}
CLASSES = "tensorflow_datasets.core.features."


@pytest.fixture
def tripled(monkeypatch: pytest.MonkeyPatch) -> str:
    """A class of tensorflow-datasets that ARES does not know; its values are three times the stored ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tfds = pytest.importorskip("tensorflow_datasets")
    from tensorflow_datasets.core.features import tensor_feature

    class Tripled(tfds.features.FeatureConnector):  # type: ignore[misc, name-defined]
        # The library knows its classes by these names.
        __module__ = CLASSES + "tensor_feature"
        __qualname__ = "Tripled"

        def get_tensor_info(self) -> Any:
            return tfds.features.TensorInfo(shape=(2,), dtype=np.float32)

        def get_serialized_info(self) -> Any:
            return self.get_tensor_info()

        def decode_example_np(self, example_data: Any) -> Any:
            return np.asarray(example_data) * 3

        def decode_example(self, tfexample_data: Any) -> Any:
            return tfexample_data

        def encode_example(self, example_data: Any) -> Any:
            return example_data

        def to_json_content(self) -> Any:
            return {}

        @classmethod
        def from_json_content(cls, value: Any) -> Any:
            return cls()

    monkeypatch.setattr(tensor_feature, "Tripled", Tripled, raising=False)
    _library_decoder.cache_clear()
    return CLASSES + "tensor_feature.Tripled"


def load(folder: Path, class_name: str, content: dict[str, Any]) -> Record:
    path = folder / "features.json"
    tree = json.loads(path.read_text())
    steps = tree["featuresDict"]["features"]["steps"]["sequence"]["feature"]["featuresDict"]["features"]
    inside = steps["observation"]["featuresDict"]["features"]
    inside["force"] = {"pythonClassName": class_name, **content}
    path.write_text(json.dumps(tree))
    (source,) = rlds.open(str(folder), SourceOptions())
    record: Record = next(iter(source.items)).load()
    return record


def test_a_class_of_tensorflow_datasets_is_decoded_by_it(make_rlds: MakeRlds, tripled: str) -> None:
    dataset = make_rlds("a", LEAVES)
    record = load(dataset.path, tripled, {"jsonFeature": {"json": "{}"}})
    assert record.warnings == () and "tensorflow" not in sys.modules
    np.testing.assert_array_equal(record.trajectory.extra["force"].values, dataset.values[FORCE] * 3)


def test_a_class_that_needs_tensorflow_is_left_out_and_named(make_rlds: MakeRlds) -> None:
    content = {"audio": {"shape": {"dimensions": ["-1"]}, "dtype": "int64", "encoding": "none"}}
    record = load(make_rlds("a", LEAVES).path, CLASSES + "audio_feature.Audio", content)
    assert record.trajectory.action is not None and "force" not in record.trajectory.extra
    assert f"{FORCE} is not stored (tensorflow-datasets needs tensorflow for its type)" in record.warnings


def test_no_module_of_another_package_is_imported(
    make_rlds: MakeRlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "attack.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    record = load(make_rlds("a", LEAVES).path, "attack.Feature", {"jsonFeature": {"json": "{}"}})
    assert f"{FORCE} is not stored (its class is not one of tensorflow-datasets)" in record.warnings
    assert "attack" not in sys.modules
