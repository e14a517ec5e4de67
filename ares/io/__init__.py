"""Local files, URLs of object stores, and JSON streams."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.io.model_hub import (
        ask_hub as ask_hub,
        hub_constants as hub_constants,
    )
    from ares.io.outputs import (
        output_file as output_file,
        output_path as output_path,
    )
    from ares.io.paths_and_urls import (
        FileState as FileState,
        FolderEntries as FolderEntries,
        absolute_path as absolute_path,
        cache_folder_listings as cache_folder_listings,
        copy_file as copy_file,
        describe_os_error as describe_os_error,
        existing_path as existing_path,
        expanded_path as expanded_path,
        file_state as file_state,
        file_suffixes as file_suffixes,
        folder_name as folder_name,
        hash_files as hash_files,
        is_url as is_url,
        list_folder as list_folder,
        local_file_path as local_file_path,
        local_output as local_output,
        open_file as open_file,
        parse_path as parse_path,
        relative_path as relative_path,
        translate_remote_errors as translate_remote_errors,
        use_folder_listings as use_folder_listings,
        walk_folders as walk_folders,
    )
    from ares.io.server_address import (
        ServerAddress as ServerAddress,
        read_server_address as read_server_address,
    )

__getattr__ = lazy_exports(__name__)
