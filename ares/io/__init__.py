"""Local files, URLs of object stores, and JSON streams."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.io.files import (
        FileState as FileState,
        absolute_path as absolute_path,
        copy_file as copy_file,
        describe_os_error as describe_os_error,
        existing_path as existing_path,
        file_state as file_state,
        folder_name as folder_name,
        is_disk_full as is_disk_full,
        is_url as is_url,
        open_file as open_file,
        parse_path as parse_path,
        relative_path as relative_path,
        translate_remote_errors as translate_remote_errors,
    )
    from ares.io.folders import (
        FolderEntries as FolderEntries,
        folders_listed_once as folders_listed_once,
        known_folders as known_folders,
        list_folder as list_folder,
        walk_folders as walk_folders,
    )

__getattr__ = lazy_exports(__name__)
