"""Episodes in folders of images and tables of comma-separated values."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_ingest.image_folders.image_source import image_episodes as image_episodes
    from ares_ingest.image_folders.source import csv_episodes as csv_episodes

__getattr__ = lazy_exports(__name__)
