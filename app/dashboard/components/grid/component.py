"""Grid of episode cards with posters, previews on hover and coloured grades."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.dashboard.components.registration import load_component
from ares.episode import Json


def draw_grid(
    cards: Sequence[Json], key: str, on_open: Callable[[str, int, float], None], compact: bool = False
) -> None:
    """Draw cards.

    Args:
        cards: Cards of `app.dashboard.cards.build_cards`.
        key: Streamlit key of the component.
        on_open: Called with the episode id, its position in the results and the second of a card that is clicked.
        compact: Whether the cards are small.
    """

    def handle_opened() -> None:
        import streamlit as st

        opened = st.session_state[key].opened
        if opened:
            episode_id, position, second = opened
            on_open(str(episode_id), int(position), float(second))

    data: dict[str, Json] = {"cards": list(cards), "compact": compact}
    load_component("grid")(data=data, key=key, on_opened_change=handle_opened)
