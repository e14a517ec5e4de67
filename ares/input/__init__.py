"""Files of foreign datasets: every reader opens them here, within budgets and inside their folder."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.input.containers import (
        decompress_lz4 as decompress_lz4,
        decompress_zlib as decompress_zlib,
        decompress_zstd as decompress_zstd,
        open_zip as open_zip,
        read_zip_entry as read_zip_entry,
    )
    from ares.input.documents import (
        STRICT_JSON as STRICT_JSON,
        parse_json as parse_json,
        parse_xml as parse_xml,
        parse_yaml as parse_yaml,
        read_json as read_json,
        read_xml as read_xml,
        read_yaml as read_yaml,
    )
    from ares.input.episode_names import EpisodeNames as EpisodeNames
    from ares.input.episode_spans import (
        OUTSIDE as OUTSIDE,
        LocatedSpan as LocatedSpan,
        locate_spans as locate_spans,
        match_spans_to_episodes as match_spans_to_episodes,
    )
    from ares.input.files import (
        LFS_ADVICE as LFS_ADVICE,
        MISSING_TARGET as MISSING_TARGET,
        check_symbolic_links as check_symbolic_links,
        forget_checked_links as forget_checked_links,
        is_lfs_pointer as is_lfs_pointer,
        lfs_pointer_error as lfs_pointer_error,
        open_input as open_input,
        prepare_input_file as prepare_input_file,
        read_input as read_input,
        read_lines as read_lines,
        refuse_outside_links as refuse_outside_links,
    )
    from ares.input.hdf5 import (
        has_own_storage as has_own_storage,
        is_hard_link as is_hard_link,
        open_hdf5 as open_hdf5,
        open_hdf5_object as open_hdf5_object,
        require_own_storage as require_own_storage,
        translate_hdf5_errors as translate_hdf5_errors,
    )
    from ares.input.limits import (
        input_budgets as input_budgets,
        limited_memory as limited_memory,
    )
    from ares.input.option_files import (
        check_option_keys as check_option_keys,
        format_option_groups as format_option_groups,
        format_options as format_options,
        parse_option_values as parse_option_values,
        read_options_document as read_options_document,
        write_options_text as write_options_text,
    )
    from ares.input.path_text import (
        check_path_template as check_path_template,
        check_relative_path as check_relative_path,
    )
    from ares.input.pictures import (
        ImageInfo as ImageInfo,
        check_pixels as check_pixels,
        decode_deep_image as decode_deep_image,
        decode_image as decode_image,
        is_cut_image as is_cut_image,
        open_video as open_video,
        parse_image_header as parse_image_header,
    )
    from ares.input.span_files import (
        REPEATED as REPEATED,
        SPAN_COLUMNS as SPAN_COLUMNS,
        WRONG_LINE as WRONG_LINE,
        NamedSpan as NamedSpan,
        SpanFile as SpanFile,
        SpanTally as SpanTally,
        convert_export as convert_export,
        parse_spans as parse_spans,
        read_span_file as read_span_file,
    )
    from ares.input.stated_tables import (
        TABLE_SUFFIXES as TABLE_SUFFIXES,
        TableColumns as TableColumns,
        as_json as as_json,
        is_table as is_table,
        name_words as name_words,
        parquet_columns as parquet_columns,
        read_table as read_table,
        read_valid_rows as read_valid_rows,
    )
    from ares.input.tables import (
        ARROW_SUFFIX as ARROW_SUFFIX,
        NO_OBJECT as NO_OBJECT,
        check_parquet_read as check_parquet_read,
        connect_sqlite as connect_sqlite,
        open_arrow as open_arrow,
        open_parquet as open_parquet,
        parse_json_lines as parse_json_lines,
        read_cells as read_cells,
    )
    from ares.input.time_limits import (
        call_with_file_time_limit as call_with_file_time_limit,
        call_with_time_limit as call_with_time_limit,
    )

__getattr__ = lazy_exports(__name__)
