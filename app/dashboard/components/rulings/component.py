"""Captions with the rulings of their grades, and tables of names with values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.dashboard.components.registration import load_component
from ares.episode import Json


def draw_rulings(captions: Sequence[Json], key: str) -> None:
    """Draw captions with their grades."""
    load_component("rulings")(data={"captions": list(captions), "pairs": []}, key=key)


def draw_pairs(rows: Mapping[str, str], key: str) -> None:
    """Draw names with their values as text."""
    pairs = [[name, value] for name, value in rows.items()]
    load_component("rulings")(data={"captions": [], "pairs": pairs}, key=key)
