"""Cameras of a LeRobot episode whose images stand in its data file: only the first one is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ares.episode import Camera
from ares.errors import MediaError, SourceError
from ares.media.imageinfo import ImageInfo, image_info
from ares.media.parquet import encoded
from ares.media.ref import MediaRef
from ingest.lerobot_plan import View
from ingest.lerobot_values import Rows
from ingest.roles import camera_role


def image_cameras(
    views: Sequence[View], path: str, rows: Rows, rate_hz: float, warnings: list[str]
) -> Iterator[Camera]:
    """The cameras whose images can be used; of each other one the reason goes into the warnings.

    Args:
        views: Columns of images.
        path: The data file.
        rows: The episode's rows in it.
        rate_hz: Steps per second.
        warnings: Grows.
    """
    for view in views:
        media = MediaRef(
            kind="parquet",
            uri=path,
            start_seconds=rows.first / rate_hz,
            stop_seconds=(rows.first + rows.count) / rate_hz,
            num_frames=rows.count,
            rate_hz=rate_hz,
            key=view.key,
        )
        try:
            info = _looked_at(media)
        except (MediaError, SourceError) as error:
            warnings.append(f"camera {view.name} left out: {error.reason}")
            continue
        if view.size and view.size != (info.width, info.height):
            warnings.append(f"camera {view.name} is not of the size that info.json says")
        yield Camera(
            name=view.name,
            role=camera_role(view.name),
            width=info.width,
            height=info.height,
            codec=info.codec,
            media=media,
        )


def _looked_at(media: MediaRef) -> ImageInfo:
    """Size and codec of the first image. Raises MediaError or SourceError when it is none, or depth."""
    data = next(encoded(media, [0]))
    info = image_info(data)
    if info is None:
        raise SourceError("its images are neither JPEG nor PNG", f"{media.key} of {media.uri}")
    if info.codec == "png" and data[24:25] == b"\x10":
        raise SourceError("it holds depth, not colour", f"{media.key} of {media.uri}")
    return info
