"""Local files, URLs of object stores, and JSON streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.io.files import (
        FileState,
        absolute_path,
        copy_file,
        describe_os_error,
        existing_path,
        file_state,
        folder_name,
        is_url,
        open_file,
        parse_path,
        relative_path,
        translate_remote_errors,
    )
    from ares.io.folders import FolderEntries, folders_listed_once, known_folders, list_folder, walk_folders
    from ares.io.json_stream import stream_json

__all__ = [
    "FileState",
    "FolderEntries",
    "absolute_path",
    "copy_file",
    "describe_os_error",
    "existing_path",
    "file_state",
    "folder_name",
    "folders_listed_once",
    "is_url",
    "known_folders",
    "list_folder",
    "open_file",
    "parse_path",
    "relative_path",
    "stream_json",
    "translate_remote_errors",
    "walk_folders",
]

__getattr__ = lazy_exports(__name__)
