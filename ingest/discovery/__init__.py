"""Finds the datasets in a tree of folders, of every format, and accounts for each of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.discovery.accounting import make_plan
    from ingest.discovery.datasets import OpenedDataset
    from ingest.discovery.discovery import (
        Discovery,
        discover,
        import_ingester,
        refuse_options_for_several,
    )
    from ingest.discovery.file_kinds import kind_of_file, stand_in_for_data
    from ingest.discovery.left_files import left_lines
    from ingest.discovery.options_file import options_by_path, read_options_file, write_options_file
    from ingest.discovery.options_model import DatasetOptions
    from ingest.discovery.stored import StoredDataset, stored_datasets

__all__ = [
    "DatasetOptions",
    "Discovery",
    "OpenedDataset",
    "StoredDataset",
    "discover",
    "import_ingester",
    "kind_of_file",
    "left_lines",
    "make_plan",
    "options_by_path",
    "read_options_file",
    "refuse_options_for_several",
    "stand_in_for_data",
    "stored_datasets",
    "write_options_file",
]

__getattr__ = lazy_exports(__name__)
