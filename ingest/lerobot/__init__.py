"""LeRobot datasets of versions 2.0 to 3.0 as episodes."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_ingest.lerobot.source import lerobot as lerobot

__getattr__ = lazy_exports(__name__)
