"""Player: every camera and plot of one episode on one clock, with keyboard, timeline and hover."""

from __future__ import annotations

from collections.abc import Callable

from app.dashboard.components.registration import load_component
from ares.episode import Json


def draw_player(
    data: dict[str, Json],
    key: str,
    on_step: Callable[[int], None],
    on_frame_search: Callable[[str], None],
) -> None:
    """Draw the player.

    Args:
        data: Cameras, signals and timeline of the episode.
        key: Streamlit key of the component.
        on_step: Called with -1 or 1 when the user opens the previous or next episode.
        on_frame_search: Called with "CAMERA@SECONDS" when the user searches for frames like the current one.
    """

    def handle_step() -> None:
        import streamlit as st

        step = st.session_state[key].move
        if step:
            on_step(int(step))

    def handle_frame() -> None:
        import streamlit as st

        frame = st.session_state[key].frame
        if frame:
            on_frame_search(str(frame))

    load_component("player")(data=data, key=key, on_move_change=handle_step, on_frame_change=handle_frame)
