"""Arrays that hold for a whole episode, attributes, and arrays that no step can be counted by: each has its reason."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

from ares.errors import SourceError
from ingest.hdf5 import values
from ingest.hdf5.values import LONGEST_LIST, LONGEST_TEXT, read_attributes


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.array([np.nan, 1.0]), "not finite"),
        ("", "an empty text"),
        (h5py.Empty("f8"), "it has no value"),
        (np.zeros(LONGEST_LIST + 1), "too long for the metadata"),
        ("a" * (LONGEST_TEXT + 1), "too long for the metadata"),
        (np.array([1.0, 2.0]), ""),
        ("<mujoco/>", ""),
    ],
    ids=["NaN", "empty text", "no value", "long list", "long text", "numbers", "text"],
)
def test_a_constant_that_is_not_stored_has_its_true_reason(
    h5: Any, tmp_path: Path, value: object, reason: str
) -> None:
    path = h5.demo(tmp_path / "a.hdf5", {"data": {"env_args": '{"env_name": "Lift", "type": 1}'}})
    with h5py.File(path, "r+") as file:
        file["data/demo_0/initial_state/arm"] = value
    record = h5.only(path)
    told = [warning for warning in record.warnings if "initial_state" in warning]
    assert told == ([f"initial_state/arm is not stored ({reason})"] if reason else [])
    assert ("initial_state/arm" in record.episode.metadata) == (not reason)


def test_attributes_are_limited_by_their_number_and_not_by_that_of_the_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "input_budgets", lambda: SimpleNamespace(members=5))
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for number in range(8):
            file[f"x{number}"] = number
        file.attrs["robot"] = "arm"
        assert read_attributes(file) == {"robot": "arm"}
        file.create_group("y").attrs.update({f"a{number}": number for number in range(8)})
        with pytest.raises(SourceError, match=r"HDF5 group holds too many attributes.*8 of 5"):
            read_attributes(file["y"])
