"""Damaged metadata opens or is refused with an AresError; there is no other exception."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ares.errors import AresError
from ingest.base import SourceOptions
from ingest.rlds import rlds
from ingest.spec import DatasetSpec, read_spec
from tests.ingest.conftest import MakeRlds

LEAVES = {
    "steps/action": "float32 2",
    "steps/language_instruction": "text",
    "steps/observation/image": "png 8 12 3",
    "steps/observation/words": "texts",
    "episode_metadata/success": "bool",
}
WRONG_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 5),
    st.sampled_from([10**30, 1.5, float("inf")]),
    st.text(max_size=4),
    st.sampled_from(["steps", "float32", "uint8", "string", "complex64", "zlib", "image", "-1", "0"]),
    st.lists(st.integers(-2, 4) | st.none() | st.text(max_size=2), max_size=3),
    st.dictionaries(st.sampled_from(["shape", "dimensions", "feature", "length", "dtype"]), st.integers(), max_size=2),
)  # fmt: skip
FUZZ_SETTINGS = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def node_paths(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every node below the root."""
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from node_paths(child, (*path, key))


def damage_tree(tree: Any, data: st.DataObject) -> Any:
    """The tree with one to three nodes removed or replaced by wrong values."""
    tree = copy.deepcopy(tree)
    for _ in range(data.draw(st.integers(1, 3))):
        paths = list(node_paths(tree))
        if not paths:
            return tree
        *parents, last = data.draw(st.sampled_from(paths))
        node = tree
        for key in parents:
            node = node[key]
        if data.draw(st.booleans()):
            del node[last]
        else:
            node[last] = data.draw(WRONG_VALUES)
    return tree


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
    metadata = json.loads((dataset.path / name).read_text())

    @FUZZ_SETTINGS
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        (dataset.path / name).write_text(json.dumps(damage_tree(metadata, data)))
        open_and_load(dataset.path)

    run()


def test_a_name_that_no_file_can_have_costs_the_records_and_not_the_job(make_rlds: MakeRlds) -> None:
    dataset = make_rlds("a", LEAVES, old_form=True)
    info = json.loads((dataset.path / "dataset_info.json").read_text())
    (dataset.path / "dataset_info.json").write_text(json.dumps({**info, "name": "\0"}))
    open_and_load(dataset.path)


@FUZZ_SETTINGS
@given(data=st.data())
def test_odd_specs(tmp_path: Path, data: st.DataObject) -> None:
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
    path.write_text(json.dumps(damage_tree(spec, data)))
    try:
        assert isinstance(read_spec(path), DatasetSpec)
    except AresError as error:
        assert str(path) in error.detail
