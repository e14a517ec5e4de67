"""Grid: cards of episodes with posters, previews on hover and verdicts coloured by value."""

from __future__ import annotations

from collections.abc import Sequence

from app.dashboard.components import load
from ares.episode import Json


def grid(cards: Sequence[Json], key: str, compact: bool = False) -> tuple[str, int, float] | None:
    """Draw cards; returns (episode_id, place in the results, second) of the one that was clicked, or None."""
    data: dict[str, Json] = {"cards": list(cards), "compact": compact}
    result = load("grid")(data=data, key=key, on_opened_change=lambda: None)
    if not result.opened:
        return None
    episode_id, at, seconds = result.opened
    return str(episode_id), int(at), float(seconds)
