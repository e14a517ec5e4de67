"""Curate: frozen selections of episodes."""

from __future__ import annotations

__all__: list[str] = []
