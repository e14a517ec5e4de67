"""Frames from video files, folders of images, image columns, TFRecord examples, HDF5 datasets and Zarr arrays."""
