"""Rulings: captions and why each was accepted or not, with the moments that show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.dashboard.components import load
from ares.episode import Json


def rulings(captions: Sequence[Json], key: str) -> None:
    """Draw captions with their grades."""
    load("rulings")(data={"captions": list(captions), "pairs": []}, key=key)


def pairs(rows: Mapping[str, str], key: str) -> None:
    """Draw names with their values as text."""
    load("rulings")(data={"captions": [], "pairs": [[name, value] for name, value in rows.items()]}, key=key)
