"""MediaRef: where the pixels of one camera of one episode are, without holding any of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["mp4", "tfrecord", "hdf5", "mcap", "parquet"]
Channels = Literal["rgb", "bgr"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRef:
    """A pointer to frames in a source file.

    Attributes:
        kind: How to read it; one reader in ares/media per kind.
        uri: Absolute path or URL of the file.
        start_seconds: First second of the episode inside the file (a span of a shared mp4), or its first row /
            rate_hz (parquet); 0.0 otherwise.
        stop_seconds: End of the span in the file, half open; start_seconds + duration for image sequences.
        num_frames: Frames in the span.
        rate_hz: Frames per second of the span.
        byte_offset: First byte of the record (tfrecord payload); 0 otherwise.
        byte_size: Bytes of the record, or of a file that the workspace keeps; 0 where the whole file is meant.
        key: Which stream inside: feature key (tfrecord), dataset (hdf5), topic (mcap), column (parquet); "" for an mp4.
        channels: Order in which the colours were stored; "bgr" where the source swapped red and blue by mistake.
            Readers of frames always get RGB.
        stamp: What the file was when it was ingested, see `ares.media.stamp`; "" when that is not known.
    """

    kind: Kind
    uri: str
    start_seconds: float
    stop_seconds: float
    num_frames: int
    rate_hz: float
    byte_offset: int = 0
    byte_size: int = 0
    key: str = ""
    channels: Channels = "rgb"
    stamp: str = ""
