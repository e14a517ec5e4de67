"""Player: every camera and plot of one episode on one clock, with keyboard, timeline and hover."""

from __future__ import annotations

from collections.abc import Callable

from app.dashboard.components import load
from ares.episode import Json


def player(data: dict[str, Json], key: str, moved: Callable[[int], None]) -> None:
    """Draw the player; `moved` is called with -1 or 1 when a person asks for the previous or next episode."""

    def settle() -> None:
        import streamlit as st

        step = st.session_state[key].move
        if step:
            moved(int(step))

    load("player", "clock.js", "plots.js", "index.js")(data=data, key=key, on_move_change=settle)
