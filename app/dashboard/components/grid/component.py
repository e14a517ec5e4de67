"""Grid of episode cards with posters, previews on hover and coloured grades."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from app.dashboard.components.registration import load_component
from ares.episode import Json


def draw_grid(
    cards: Sequence[Json],
    key: str,
    on_open: Callable[[str, int, float], None],
    compact: bool = False,
    ticked: Collection[str] | None = None,
    on_tick: Callable[[list[str], list[str]], None] | None = None,
) -> None:
    """Draw cards.

    Args:
        cards: Cards of `app.dashboard.cards.build_cards`.
        key: Streamlit key of the component.
        on_open: Called with the episode id, its position in the results and the second of a card that is clicked.
        compact: Whether the cards are small.
        ticked: Ids of the episodes that are ticked; None draws no boxes.
        on_tick: Called with the ids of all cards and those of the ticked cards. Both are called before the page is
            drawn again.
    """

    def handle_opened() -> None:
        import streamlit as st

        opened = st.session_state[key].opened
        if opened:
            episode_id, position, second = opened
            on_open(str(episode_id), int(position), float(second))

    def handle_ticked() -> None:
        import streamlit as st

        change = st.session_state[key].ticked
        if change and on_tick:
            on_tick([str(id) for id in change["shown"]], [str(id) for id in change["ticked"]])

    data: dict[str, Json] = {
        "cards": list(cards),
        "compact": compact,
        "ticked": None if ticked is None else list[Json](sorted(ticked)),
    }
    load_component("grid")(data=data, key=key, on_opened_change=handle_opened, on_ticked_change=handle_ticked)
