"""Metadata that is damaged or odd opens, or is refused in words; nothing else comes out."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ares.errors import AresError
from ingest.base import Options
from ingest.rlds import rlds
from ingest.spec import DatasetSpec, read_spec

MakeRlds = Callable[..., Any]
LEAVES = {
    "steps/action": "float32 2",
    "steps/language_instruction": "text",
    "steps/observation/image": "png 8 12 3",
    "steps/observation/words": "texts",
    "episode_metadata/success": "bool",
}
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 5),
    st.sampled_from([10**30, 1.5, float("inf")]),
    st.text(max_size=4),
    st.sampled_from(["steps", "float32", "uint8", "string", "complex64", "zlib", "image", "-1", "0"]),
    st.lists(st.integers(-2, 4) | st.none() | st.text(max_size=2), max_size=3),
    st.dictionaries(st.sampled_from(["shape", "dimensions", "feature", "length", "dtype"]), st.integers(), max_size=2),
)  # fmt: skip
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every node below the root."""
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


def changed(tree: Any, data: st.DataObject) -> Any:
    """The tree with one to three nodes taken out or made odd."""
    tree = copy.deepcopy(tree)
    for _ in range(data.draw(st.integers(1, 3))):
        found = list(places(tree))
        if not found:
            return tree
        *way, last = data.draw(st.sampled_from(found))
        node = tree
        for key in way:
            node = node[key]
        if data.draw(st.booleans()):
            del node[last]
        else:
            node[last] = data.draw(ODD)
    return tree


def take_in(path: Path) -> None:
    """Open a dataset and load what it plans; AresErrors are answers."""
    try:
        sources = rlds.open(str(path), Options())
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


@pytest.mark.parametrize("as_was", [False, True])
@pytest.mark.parametrize("name", ["features.json", "dataset_info.json"])
def test_odd_metadata(make_rlds: MakeRlds, name: str, as_was: bool) -> None:
    made = make_rlds("a", LEAVES, as_was=as_was)
    good = json.loads((made.path / name).read_text())

    @QUICK
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        (made.path / name).write_text(json.dumps(changed(good, data)))
        take_in(made.path)

    run()


@QUICK
@given(data=st.data())
def test_odd_specs(tmp_path: Path, data: st.DataObject) -> None:
    good = {
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
    path.write_text(json.dumps(changed(good, data)))
    try:
        assert isinstance(read_spec(path), DatasetSpec)
    except AresError as error:
        assert str(path) in error.detail
