"""Grid of episode cards with posters, previews on hover and coloured grades."""

from __future__ import annotations

from collections.abc import Sequence

from app.dashboard.components.registration import load_component
from ares.episode import Json


def draw_grid(cards: Sequence[Json], key: str, compact: bool = False) -> tuple[str, int, float] | None:
    """Draw cards.

    Returns:
        (episode_id, position in the results, second) of the card that was clicked, or None.
    """
    data: dict[str, Json] = {"cards": list(cards), "compact": compact}
    result = load_component("grid")(data=data, key=key, on_opened_change=lambda: None)
    if not result.opened:
        return None
    episode_id, position, second = result.opened
    return str(episode_id), int(position), float(second)
