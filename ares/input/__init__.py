"""Files of foreign datasets: every reader opens them here, within budgets and inside their folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.input.archives import (
        decompress_lz4,
        decompress_zlib,
        decompress_zstd,
        open_zip,
        parse_npy,
        read_npz,
        read_zip_entry,
    )
    from ares.input.budgets import InputBudgets, input_budgets
    from ares.input.documents import parse_json, parse_yaml, read_json, read_yaml
    from ares.input.files import (
        check_input_file,
        check_links,
        check_relative_path,
        forget_links,
        open_input,
        read_input,
        read_lines,
        reading_dataset,
    )
    from ares.input.hdf5_file import (
        has_own_storage,
        is_hard_link,
        open_hdf5,
        open_hdf5_object,
        require_own_storage,
        translate_hdf5_errors,
    )
    from ares.input.memory import limited_memory
    from ares.input.path_template import check_path_template
    from ares.input.pictures import ImageInfo, check_pixels, decode_image, open_video, parse_image_header
    from ares.input.stand_ins import LFS_ADVICE, MISSING_TARGET, is_lfs_pointer, lfs_pointer_error
    from ares.input.tables import check_parquet_read, connect_sqlite, open_parquet
    from ares.input.time_limit import call_within, call_within_per_file
    from ares.input.xml_documents import parse_xml, read_xml

__all__ = [
    "LFS_ADVICE",
    "MISSING_TARGET",
    "ImageInfo",
    "InputBudgets",
    "call_within",
    "call_within_per_file",
    "check_input_file",
    "check_links",
    "check_parquet_read",
    "check_path_template",
    "check_pixels",
    "check_relative_path",
    "connect_sqlite",
    "decode_image",
    "decompress_lz4",
    "decompress_zlib",
    "decompress_zstd",
    "forget_links",
    "has_own_storage",
    "input_budgets",
    "is_hard_link",
    "is_lfs_pointer",
    "lfs_pointer_error",
    "limited_memory",
    "open_hdf5",
    "open_hdf5_object",
    "open_input",
    "open_parquet",
    "open_video",
    "open_zip",
    "parse_image_header",
    "parse_json",
    "parse_npy",
    "parse_xml",
    "parse_yaml",
    "read_input",
    "read_json",
    "read_lines",
    "read_npz",
    "read_xml",
    "read_yaml",
    "read_zip_entry",
    "reading_dataset",
    "require_own_storage",
    "translate_hdf5_errors",
]

__getattr__ = lazy_exports(__name__)
