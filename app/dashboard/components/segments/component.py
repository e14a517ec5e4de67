"""Table of the segments of an episode; a click on one moves the player."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.dashboard.components.registration import load_component
from ares.episode import Json


def draw_segments(segments: Sequence[Mapping[str, Json]], key: str) -> None:
    """Draw segments with their columns."""
    load_component("segments")(data={"segments": [dict(segment) for segment in segments]}, key=key)
