"""File formats shared by readers and writers: TFRecord and ArrayRecord, TFDS, LeRobot, rosbag2, Zarr."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.formats.markers import (
        ACTION_KEY as ACTION_KEY,
        ARES_PREFIX as ARES_PREFIX,
        CHUNK_FILES as CHUNK_FILES,
        CONTENT_HASH_COLUMN as CONTENT_HASH_COLUMN,
        DATA_FILE_COLUMNS as DATA_FILE_COLUMNS,
        EPISODE_LINES_PATH as EPISODE_LINES_PATH,
        EPISODE_STATS_PATH as EPISODE_STATS_PATH,
        EPISODES_FILE_COLUMNS as EPISODES_FILE_COLUMNS,
        EPISODES_FOLDER as EPISODES_FOLDER,
        INDEX_DTYPES as INDEX_DTYPES,
        INFO_PATH as INFO_PATH,
        LANGUAGE_EVENTS as LANGUAGE_EVENTS,
        LANGUAGE_PERSISTENT as LANGUAGE_PERSISTENT,
        META_FOLDER as META_FOLDER,
        MODALITY_PATH as MODALITY_PATH,
        RATE_SOURCE_COLUMN as RATE_SOURCE_COLUMN,
        REWARD_KEY as REWARD_KEY,
        ROSBAG2_METADATA as ROSBAG2_METADATA,
        ROW_RANGE_COLUMNS as ROW_RANGE_COLUMNS,
        ROWS_HASH_COLUMN as ROWS_HASH_COLUMN,
        SEGMENTS_PATH as SEGMENTS_PATH,
        STATE_KEY as STATE_KEY,
        STATS_PATH as STATS_PATH,
        SUBTASK_INDEX as SUBTASK_INDEX,
        SUBTASK_TEXT_COLUMN as SUBTASK_TEXT_COLUMN,
        SUBTASKS_PATH as SUBTASKS_PATH,
        TASK_LINES_PATH as TASK_LINES_PATH,
        TASK_TEXT_COLUMN as TASK_TEXT_COLUMN,
        TASKS_PATH as TASKS_PATH,
        V2_DATA_PATH as V2_DATA_PATH,
        V2_VIDEO_PATH as V2_VIDEO_PATH,
        V3_DATA_PATH as V3_DATA_PATH,
        V3_EPISODES_PATH as V3_EPISODES_PATH,
        V3_VIDEO_PATH as V3_VIDEO_PATH,
        V21_VERSION as V21_VERSION,
        VERSION as VERSION,
        camera_key as camera_key,
        hash_written_episode as hash_written_episode,
        is_subtask_column as is_subtask_column,
        is_zarr_folder as is_zarr_folder,
        is_zarr_zip as is_zarr_zip,
        recording_files as recording_files,
        video_columns as video_columns,
        zarr_metadata_files as zarr_metadata_files,
    )
    from ares.formats.tf_example import (
        ExampleValues as ExampleValues,
        append_identity as append_identity,
        encode_example as encode_example,
        parse_tf_example as parse_tf_example,
        read_identity_hash as read_identity_hash,
    )
    from ares.formats.tfrecord import (
        DATASET_INFO_FILE as DATASET_INFO_FILE,
        DATASET_METADATA_FILE as DATASET_METADATA_FILE,
        FEATURES_FILE as FEATURES_FILE,
        SHARD_TEMPLATE as SHARD_TEMPLATE,
        RecordLocation as RecordLocation,
        encode_tfrecord as encode_tfrecord,
        read_record as read_record,
        scan_record_file as scan_record_file,
    )

__getattr__ = lazy_exports(__name__)
