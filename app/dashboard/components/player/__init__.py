"""Player: every camera and plot of one episode on one clock, with keyboard, timeline and hover."""

from __future__ import annotations

from app.dashboard.components import load
from ares.episode import Json


def player(data: dict[str, Json], key: str) -> int:
    """Draw the player; returns -1 or 1 when the person asked for the previous or next episode, else 0."""
    result = load("player", "clock.js", "plots.js", "index.js")(
        data=data, key=key, on_move_change=lambda: None
    )
    return int(result.move or 0)
