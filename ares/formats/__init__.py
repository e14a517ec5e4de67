"""File formats shared by readers and writers: TFRecord and ArrayRecord, TFDS, LeRobot, rosbag2, Zarr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.formats.arrow import arrow_numbers
    from ares.formats.lerobot import (
        ACTION_KEY,
        ARES_PREFIX,
        CHUNK_FILES,
        DATA_FILE_COLUMNS,
        EPISODE_LINES_PATH,
        EPISODE_STATS_PATH,
        EPISODES_FILE_COLUMNS,
        EPISODES_FOLDER,
        INDEX_DTYPES,
        INFO_PATH,
        META_FOLDER,
        MODALITY_PATH,
        RATE_SOURCE_COLUMN,
        REWARD_KEY,
        ROW_RANGE_COLUMNS,
        STATE_KEY,
        STATS_PATH,
        TASK_LINES_PATH,
        TASK_TEXT_COLUMN,
        TASKS_PATH,
        V2_DATA_PATH,
        V2_VIDEO_PATH,
        V3_DATA_PATH,
        V3_EPISODES_PATH,
        V3_VIDEO_PATH,
        V21_VERSION,
        VERSION,
        camera_key,
        video_columns,
    )
    from ares.formats.records import find_records, read_record
    from ares.formats.rosbag2 import ROSBAG2_METADATA, recording_files
    from ares.formats.tfds import DATASET_INFO_FILE, DATASET_METADATA_FILE, FEATURES_FILE, SHARD_TEMPLATE
    from ares.formats.tfrecord import (
        ExampleValues,
        RecordSpan,
        encode_example,
        frame_record,
        parse_example,
        write_records,
    )
    from ares.formats.zarr import is_zarr_folder, is_zarr_zip, zarr_metadata_files

__all__ = [
    "ACTION_KEY",
    "ARES_PREFIX",
    "CHUNK_FILES",
    "DATASET_INFO_FILE",
    "DATASET_METADATA_FILE",
    "DATA_FILE_COLUMNS",
    "EPISODES_FILE_COLUMNS",
    "EPISODES_FOLDER",
    "EPISODE_LINES_PATH",
    "EPISODE_STATS_PATH",
    "FEATURES_FILE",
    "INDEX_DTYPES",
    "INFO_PATH",
    "META_FOLDER",
    "MODALITY_PATH",
    "RATE_SOURCE_COLUMN",
    "REWARD_KEY",
    "ROSBAG2_METADATA",
    "ROW_RANGE_COLUMNS",
    "SHARD_TEMPLATE",
    "STATE_KEY",
    "STATS_PATH",
    "TASKS_PATH",
    "TASK_LINES_PATH",
    "TASK_TEXT_COLUMN",
    "V2_DATA_PATH",
    "V2_VIDEO_PATH",
    "V3_DATA_PATH",
    "V3_EPISODES_PATH",
    "V3_VIDEO_PATH",
    "V21_VERSION",
    "VERSION",
    "ExampleValues",
    "RecordSpan",
    "arrow_numbers",
    "camera_key",
    "encode_example",
    "find_records",
    "frame_record",
    "is_zarr_folder",
    "is_zarr_zip",
    "parse_example",
    "read_record",
    "recording_files",
    "video_columns",
    "write_records",
    "zarr_metadata_files",
]

__getattr__ = lazy_exports(__name__)
