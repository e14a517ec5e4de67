"""Player: every camera and plot of one episode on one clock, with keyboard, timeline and hover."""

from __future__ import annotations

from collections.abc import Callable

from app.dashboard.components import load
from ares.episode import Json


def player(
    data: dict[str, Json], key: str, moved: Callable[[int], None], framed: Callable[[str], None]
) -> None:
    """Draw the player.

    Args:
        data: What to show.
        key: Of the component.
        moved: Called with -1 or 1 when a person asks for the previous or next episode.
        framed: Called with "CAMERA@SECONDS" when a person asks for what looks like the frame that is shown.
    """

    def settle() -> None:
        import streamlit as st

        step = st.session_state[key].move
        if step:
            moved(int(step))

    shown = load("player", "clock.js", "plots.js", "index.js")(
        data=data, key=key, on_move_change=settle, on_frame_change=lambda: None
    )
    # A page can only be left from its script, not from a callback.
    if shown.frame:
        framed(str(shown.frame))
