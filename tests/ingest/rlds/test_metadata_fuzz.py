"""Damaged metadata opens or is refused with an AresError; there is no other exception."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ares.errors import AresError
from ares_ingest.base import SourceOptions
from ares_ingest.rlds import rlds
from ares_ingest.spec import DatasetSpec, read_spec
from tests.ingest.conftest import MakeRlds
from tests.torture.mutations import change_json

LEAVES = {
    "steps/action": "float32 2",
    "steps/language_instruction": "text",
    "steps/observation/image": "png 8 12 3",
    "steps/observation/words": "texts",
    "episode_metadata/success": "bool",
}
FUZZ_SETTINGS = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def open_and_load(path: Path) -> None:
    """Open a dataset and load its first records; an AresError is an answer."""
    try:
        sources = rlds.open(str(path), SourceOptions())
    except AresError as error:
        assert error.reason and error.detail
        return
    for source in sources:
        assert source.total >= 0
        for _, item in zip(range(3), source.items, strict=False):
            try:
                item.load()
            except AresError as error:
                assert error.reason and error.detail


@pytest.mark.parametrize("old_form", [False, True])
@pytest.mark.parametrize("name", ["features.json", "dataset_info.json"])
def test_odd_metadata(make_rlds: MakeRlds, name: str, old_form: bool) -> None:
    dataset = make_rlds("a", LEAVES, old_form=old_form)
    metadata = (dataset.path / name).read_bytes()

    @FUZZ_SETTINGS
    @given(seed=st.integers(0, 2**32))
    def run(seed: int) -> None:
        (dataset.path / name).write_bytes(change_json(metadata, random.Random(seed)))
        open_and_load(dataset.path)

    run()


def test_a_name_that_no_file_can_have_costs_the_records_and_not_the_job(make_rlds: MakeRlds) -> None:
    dataset = make_rlds("a", LEAVES, old_form=True)
    info = json.loads((dataset.path / "dataset_info.json").read_text())
    (dataset.path / "dataset_info.json").write_text(json.dumps({**info, "name": "\0"}))
    open_and_load(dataset.path)


@FUZZ_SETTINGS
@given(seed=st.integers(0, 2**32))
def test_odd_specs(tmp_path: Path, seed: int) -> None:
    spec = {
        "rate_hz": 5,
        "robot": "x",
        "cameras": {"image": "front"},
        "bgr": {"image": [8, 12]},
        "state": [{"key": "a", "start": 0, "stop": 2, "names": ["x", "y"], "unit": "m"}],
        "language": ["b"],
        "faults": ["c"],
        "reference": "d",
    }
    path = tmp_path / "spec.yaml"
    path.write_bytes(change_json(json.dumps(spec).encode(), random.Random(seed)))
    try:
        assert isinstance(read_spec(path), DatasetSpec)
    except AresError as error:
        assert str(path) in error.detail
