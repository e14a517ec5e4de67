"""Frames of cameras at given seconds, and videos that a browser plays, from any container."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.media.camera_views import (
        describe_turn as describe_turn,
        frozen_camera_flags as frozen_camera_flags,
        is_better_fit as is_better_fit,
        median_pictures as median_pictures,
        picture_fit as picture_fit,
    )
    from ares.media.copies import (
        MEDIA_FOLDER as MEDIA_FOLDER,
        copy_camera_media as copy_camera_media,
    )
    from ares.media.file_cache import FileCache as FileCache
    from ares.media.fingerprint import (
        SOURCE_REMEDIES as SOURCE_REMEDIES,
        compute_file_stamp as compute_file_stamp,
        file_stamp_or_empty as file_stamp_or_empty,
        fingerprint_blocks as fingerprint_blocks,
        has_file_changed as has_file_changed,
        make_file_stamp_fields as make_file_stamp_fields,
        stamp_mismatch as stamp_mismatch,
        verify_source as verify_source,
    )
    from ares.media.frames import (
        all_frames as all_frames,
        bytes_per_frame as bytes_per_frame,
        encoded_frames as encoded_frames,
        frames_at as frames_at,
        frames_in_order as frames_in_order,
        frames_or_errors as frames_or_errors,
    )
    from ares.media.playback import (
        SMALL_FRAME_PIXELS as SMALL_FRAME_PIXELS,
        browser_video as browser_video,
        small_frames as small_frames,
        thumbnail as thumbnail,
    )
    from ares.media.readers.arrays import (
        ZarrStore as ZarrStore,
        has_zarr_images as has_zarr_images,
        image_size as image_size,
        open_zarr as open_zarr,
        translate_zarr_errors as translate_zarr_errors,
    )
    from ares.media.readers.csv_table import (
        CsvTable as CsvTable,
        list_number_columns as list_number_columns,
        read_csv_table as read_csv_table,
    )
    from ares.media.readers.hdf5 import (
        has_encoded_images as has_encoded_images,
        has_raw_images as has_raw_images,
        read_encoded_image as read_encoded_image,
        read_raw_bytes as read_raw_bytes,
    )
    from ares.media.readers.image_files import (
        IMAGE_SUFFIXES as IMAGE_SUFFIXES,
        CameraImageFiles as CameraImageFiles,
        group_images as group_images,
    )
    from ares.media.readers.images import read_parquet_images as read_parquet_images
    from ares.media.readers.npy import (
        LAST_NUMBER as LAST_NUMBER,
        NpyArray as NpyArray,
        StackedSteps as StackedSteps,
        is_single_image as is_single_image,
        open_npy as open_npy,
        open_step as open_step,
        step_file_path as step_file_path,
        translate_npy_errors as translate_npy_errors,
        value_of_step as value_of_step,
    )
    from ares.media.recordings.container import McapMessage as McapMessage, read_metadata as read_metadata
    from ares.media.recordings.images import (
        classify_image_message as classify_image_message,
        image_message_info as image_message_info,
        list_image_message_fields as list_image_message_fields,
        message_type as message_type,
        settle_image_kind as settle_image_kind,
    )
    from ares.media.recordings.messages import (
        MessageDecoders as MessageDecoders,
        decode_message as decode_message,
        header_time as header_time,
        message_times as message_times,
        publish_time as publish_time,
        require_fields as require_fields,
    )
    from ares.media.recordings.recording import scan_messages as scan_messages
    from ares.media.recordings.topic_frames import (
        PUBLISHED as PUBLISHED,
        ImageCollector as ImageCollector,
        TopicImages as TopicImages,
        first_image_at as first_image_at,
    )
    from ares.media.video.codec import OpenVideos as OpenVideos
    from ares.media.video.encode import VideoEncoding as VideoEncoding, encode_mp4 as encode_mp4
    from ares.media.video.packets import (
        NotCopyable as NotCopyable,
        PacketJoiner as PacketJoiner,
        PacketSpan as PacketSpan,
        SpanClock as SpanClock,
        StreamFormat as StreamFormat,
        cut_packets as cut_packets,
        span_clock as span_clock,
        tick_seconds as tick_seconds,
    )
    from ares.media.video.probe import (
        HOLDS_DEPTH as HOLDS_DEPTH,
        FrameSpans as FrameSpans,
        VideoInfo as VideoInfo,
        describe_ffmpeg_error as describe_ffmpeg_error,
        find_inactive_spans as find_inactive_spans,
        open_video_stream as open_video_stream,
        probe_video as probe_video,
    )

__getattr__ = lazy_exports(__name__)
