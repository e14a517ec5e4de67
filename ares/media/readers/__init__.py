"""Frames from video files, folders of images, image columns, TFRecord examples, HDF5 datasets and Zarr arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.media.readers.csv_table import CsvTable, read_csv_table
    from ares.media.readers.hdf5 import (
        has_encoded_images,
        has_raw_images,
        read_encoded_image,
        read_hdf5_frames,
        read_hdf5_images,
        read_raw_bytes,
    )
    from ares.media.readers.image_column import read_column_frames, read_column_images
    from ares.media.readers.image_folder import (
        IMAGE_SUFFIXES,
        NumberedImages,
        frame_numbers,
        group_images,
        image_file_seconds,
        read_image_file_frames,
        read_image_files,
        sample_images,
    )
    from ares.media.readers.npy_array import NpyArray, open_npy, read_npy_frames, translate_npy_errors
    from ares.media.readers.tfrecord import read_tfrecord_frames, read_tfrecord_images
    from ares.media.readers.video_file import read_all_video_frames, read_video_frames
    from ares.media.readers.zarr_array import has_images, image_size, read_zarr_frames
    from ares.media.readers.zarr_store import ZarrStore, open_zarr, translate_zarr_errors

__all__ = [
    "IMAGE_SUFFIXES",
    "CsvTable",
    "NpyArray",
    "NumberedImages",
    "ZarrStore",
    "frame_numbers",
    "group_images",
    "has_encoded_images",
    "has_images",
    "has_raw_images",
    "image_file_seconds",
    "image_size",
    "open_npy",
    "open_zarr",
    "read_all_video_frames",
    "read_column_frames",
    "read_column_images",
    "read_csv_table",
    "read_encoded_image",
    "read_hdf5_frames",
    "read_hdf5_images",
    "read_image_file_frames",
    "read_image_files",
    "read_npy_frames",
    "read_raw_bytes",
    "read_tfrecord_frames",
    "read_tfrecord_images",
    "read_video_frames",
    "read_zarr_frames",
    "sample_images",
    "translate_npy_errors",
    "translate_zarr_errors",
]

__getattr__ = lazy_exports(__name__)
