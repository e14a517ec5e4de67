"""Rulings: captions and why each was accepted or not, with the moments that show it."""

from __future__ import annotations

from collections.abc import Sequence

from app.dashboard.components import load
from ares.episode import Json


def rulings(captions: Sequence[Json], key: str) -> None:
    """Draw captions with their grades."""
    load("rulings")(data={"captions": list(captions)}, key=key)
