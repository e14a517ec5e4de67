"""Finds the datasets in a tree of folders, of every format, and accounts for each of its files."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_ingest.discovery.datasets import (
        OpenedDataset as OpenedDataset,
        StoredDataset as StoredDataset,
        stored_datasets as stored_datasets,
    )
    from ares_ingest.discovery.discovery import (
        DiscoveredData as DiscoveredData,
        discover as discover,
        make_ingest_plan as make_ingest_plan,
        refuse_options_for_several as refuse_options_for_several,
        unread_file_lines as unread_file_lines,
    )
    from ares_ingest.discovery.options_file import (
        collect_options_by_path as collect_options_by_path,
        write_options_file as write_options_file,
    )

__getattr__ = lazy_exports(__name__)
