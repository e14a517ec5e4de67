"""Spans in which nothing changes are found from the sizes of packets between keyframes."""

from __future__ import annotations

from ares.media import find_inactive_spans


def test_few_frames_are_never_an_inactive_span() -> None:
    assert find_inactive_spans([100] * 9, [True] + [False] * 8, 64) == ()
    assert find_inactive_spans([], [], 64) == ()
    assert find_inactive_spans([900, *[20] * 19, 900, *[20] * 5], [True, *[False] * 25], 64) == ((0, 20),)
