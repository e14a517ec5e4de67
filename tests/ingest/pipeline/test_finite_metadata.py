"""NaN and infinity in the JSON files of a dataset cost no episode."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

import ares
from ingest.pipeline.read import NOT_FINITE, replace_non_finite_metadata

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def test_they_are_stored_as_null_and_told(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    np.savez(folder / "a.npz", state=np.random.default_rng(0).normal(size=(20, 3)))
    (folder / "a.json").write_text('{"instruction": "push", "force": NaN, "limits": [1.5, 1e999], "mass": 2}')
    ws = ares.open(tmp_path / "workspace", create=True)
    report = ws.ingest(str(folder), rate_hz=10.0)
    assert (report.kept, report.failed) == (1, 0)
    assert NOT_FINITE in [warning.reason for warning in report.warnings]
    (episode,) = ws.stores.tables.episodes.read()
    assert dict(episode.metadata) == {"force": None, "limits": [1.5, None], "mass": 2}


@given(st.dictionaries(st.text(), _VALUES))
def test_only_they_are_changed(metadata: dict[str, Any]) -> None:
    assert repr(replace_non_finite_metadata(metadata)) == repr(_expected(metadata))
    if repr(metadata) == repr(_expected(metadata)):
        assert replace_non_finite_metadata(metadata) is metadata


def _expected(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _expected(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_expected(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
