"""Ingester of AgiBot World (alpha and beta): a folder for each episode, and a JSON file for each task."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_ingest.agibot.source import agibot as agibot

__getattr__ = lazy_exports(__name__)
