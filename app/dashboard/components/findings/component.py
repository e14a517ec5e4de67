"""Lanes with the findings of the checks, as wide as the timeline above them; a click on one moves the player."""

from __future__ import annotations

from collections.abc import Sequence

from app.dashboard.components.registration import load_component
from ares.episode import Json


def draw_findings(lanes: Sequence[Json], duration_seconds: float, key: str) -> None:
    """Draw a lane for each code.

    Args:
        lanes: Lanes of `app.dashboard.finding_view.finding_lanes`.
        duration_seconds: Length of the episode.
        key: Streamlit key of the component.
    """
    load_component("findings")(data={"lanes": list(lanes), "duration": duration_seconds}, key=key)
