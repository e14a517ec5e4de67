"""Ingester of AgiBot World (alpha and beta): a folder for each episode, and a JSON file for each task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.agibot.source import agibot

__all__ = ["agibot"]

__getattr__ = lazy_exports(__name__)
