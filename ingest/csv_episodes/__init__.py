"""Ingester of folders with a CSV table of signals for each episode, with images and a JSON file beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.csv_episodes.source import csv_episodes

__all__ = ["csv_episodes"]

__getattr__ = lazy_exports(__name__)
