"""Ingesters of folders of images for each episode: beside CSV tables of signals, or with language alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.csv_episodes.image_source import image_episodes
    from ingest.csv_episodes.source import csv_episodes

__all__ = ["csv_episodes", "image_episodes"]

__getattr__ = lazy_exports(__name__)
