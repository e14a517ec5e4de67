"""Frames that show nothing of what was filmed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from annotators.grade.judge import blank, scrambled


@given(height=st.integers(1, 70), width=st.integers(1, 70), count=st.integers(0, 3))
def test_changed_frames_have_the_form_of_frames(height: int, width: int, count: int) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (count, height, width, 3), dtype=np.uint8)
    for change in (blank, scrambled):
        changed = change(frames)
        assert changed.shape == frames.shape and changed.dtype == frames.dtype


def test_blank_frames_are_one_colour() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (2, 64, 48, 3), dtype=np.uint8)
    assert np.ptp(blank(frames)) == 0


@pytest.mark.parametrize("side", [64, 96])
def test_scrambled_frames_keep_their_colours_and_lose_their_shapes(side: int) -> None:
    gradient = np.arange(side, dtype=np.uint8)[None, :, None] + np.zeros((side, side, 3), np.uint8)
    frames = np.stack([gradient, gradient])
    changed = scrambled(frames)
    assert (np.sort(changed, axis=None) == np.sort(frames, axis=None)).all()
    # A row of the gradient rises by one a pixel: nearly no row of the scrambled frame does all the way.
    rises = (np.diff(changed[0, :, :, 0].astype(int), axis=1) == 1).all(axis=1)
    assert rises.mean() < 0.1
    assert (changed[0] != changed[1]).any()
