"""HDF5 files of no known family: listed, guessed by --show-spec, and read by a spec."""

from __future__ import annotations

from pathlib import Path

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

from ares.errors import SourceError
from ares.media import frames_at
from ingest.base import SourceOptions
from ingest.operation import show_specs
from tests.ingesting import open_sources, request_for

SPEC = """
reference: me
rate_hz: 20
state:
  - {key: arm/angles, start: 1, names: [b, c], unit: rad}
action:
  - {key: wanted, names: [u]}
cameras: {eye: {key: KEY, channels: bgr}}
success: good
language: [goal]
"""


@pytest.mark.parametrize("groups", [("",), ("trial_2", "trial_10")])
def test_a_spec_reads_them_and_without_one_they_are_refused(tmp_path: Path, groups: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    angles, wanted = rng.random((6, 3)).astype(np.float32), rng.random((5, 2)).astype(np.float32)
    images = rng.integers(0, 255, (6, 8, 8, 3), np.uint8)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number, name in enumerate(groups):
            group = file.require_group(name) if name else file
            group["arm/angles"], group["wanted"], group["eye"] = angles + number, wanted, images
            group.attrs["goal"], group.attrs["good"] = "close it", True
    (plain,) = open_sources([str(tmp_path)])
    with pytest.raises(SourceError, match=r"no known family: .*holds .*angles.*--spec spec.yaml"):
        next(iter(plain.items)).load()
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.replace("KEY", "eye"))
    (source,) = open_sources([str(tmp_path)], SourceOptions(spec=str(spec)))
    records = [item.load() for item in source.items]
    assert [record.episode.key for record in records] == [f"a.h5/{name}".rstrip("/") for name in groups]
    for number, record in enumerate(records):
        state, action = record.trajectory.state, record.trajectory.action
        assert state is not None and action is not None and state.names == ("b", "c")
        np.testing.assert_array_equal(state.values, (angles + np.float32(number))[:5, 1:])
        np.testing.assert_array_equal(action.values, wanted)
        assert record.episode.cameras[0].media.channels == "bgr"
        assert (record.episode.success, record.episode.instruction) == (True, "close it")
        assert (record.episode.rate_hz, record.episode.rate_source) == (20.0, "spec")
    frame = next(iter(frames_at(records[0].episode.cameras[0].media, [0.2])))
    np.testing.assert_array_equal(frame, images[4][..., ::-1])
    shown = show_specs(request_for([str(tmp_path)]))
    assert "#   arm/angles (T x 3 float32)" in shown and "key: wanted" not in shown
