"""The cameras of an episode whose pictures are files: which pictures are of one camera, when, and of what size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ares.console import count_are
from ares.episode import Camera, Json, MediaRef, NotRead
from ares.errors import MediaError, SourceError
from ares.input import check_relative_path, decode_image, parse_image_header, read_input
from ares.io import FolderEntries, describe_os_error, list_folder
from ares.media import IMAGE_SUFFIXES, CameraImageFiles, group_images
from ares_ingest.depth import DEPTH_SUFFIXES, find_depth_of_files
from ares_ingest.files import describe_camera

PICTURE_SUFFIXES = (*IMAGE_SUFFIXES, *DEPTH_SUFFIXES)
_HEADER_BYTES = 2**28
# Folders that hold those of the cameras, and words before a number that name no camera.
_FOLDERS_OF_CAMERAS = ("images", "image", "imgs", "img", "cameras", "videos", "rgb", "frames")
_PLAIN_WORDS = ("frame", "img", "image", "im", "rgb", "color")


def image_folders(folder: Path) -> Iterator[FolderEntries]:
    """An episode's folder and those at most two levels below it that hold images."""
    waiting = [(list_folder(folder), 0)]
    while waiting:
        entries, depth = waiting.pop()
        if holds_images(entries):
            yield entries
        if depth < 2:
            below = (
                name for name in reversed(entries.folders) if name[0] != "." and name not in entries.links
            )
            waiting += [(list_folder(entries.path / name), depth + 1) for name in below]


def holds_images(entries: FolderEntries) -> bool:
    """Whether images lie directly in a folder."""
    return not entries.suffixes.isdisjoint(PICTURE_SUFFIXES)


def count_images(entries: FolderEntries) -> int:
    """Images directly in a folder."""
    return sum(name.lower().endswith(PICTURE_SUFFIXES) and name[0] != "." for name in entries.files)


class CameraImageList(NamedTuple):
    """The images of one camera.

    Attributes:
        name: Name of the camera.
        folder: Where they lie.
        prefix: What stands before the numbers in their names.
        images: The images, in order.
    """

    name: str
    folder: Path
    prefix: str
    images: CameraImageFiles

    def media(self, start: float, rate_hz: float) -> MediaRef:
        """Where the images are: at the rate of the stamps in their names, else at `rate_hz`.

        Args:
            start: Second of the start of the episode on their clock.
            rate_hz: Steps per second.
        """
        count, seconds = len(self.images.names), self.images.seconds
        if seconds is not None and count > 1:
            rate_hz = (count - 1) / (seconds[-1] - seconds[0])
        return MediaRef(
            kind="images",
            uri=f"{self.folder}/",
            start_seconds=start,
            stop_seconds=start + count / rate_hz,
            num_frames=count,
            rate_hz=rate_hz,
            key=self.prefix,
        )


def list_camera_images(
    folder: Path, warnings: dict[str, None], depth: dict[str, Json]
) -> Iterator[CameraImageList]:
    """The cameras of an episode in order.

    Args:
        folder: The folder of the episode.
        warnings: Receives what is left out.
        depth: Receives where depth is, which is no camera.
    """
    named = set[str]()
    for entries in image_folders(folder):
        groups = group_images(list(entries.files), PICTURE_SUFFIXES)
        if left_out := count_images(entries) - sum(len(images.names) for images in groups.values()):
            where = entries.path.relative_to(folder).as_posix()
            warnings[
                NotRead(f"{count_are(left_out, 'image', where)} left out: their names hold no number")
            ] = None
        for prefix, images in groups.items():
            name = _name_camera(folder, entries.path, prefix)
            of_depth = find_depth_of_files(name, entries.path, prefix, images.names, warnings)
            if of_depth is not None:
                depth[name] = of_depth
            elif name not in named:
                named.add(name)
                yield CameraImageList(name, entries.path, prefix, images)


def _name_camera(folder: Path, images: Path, prefix: str) -> str:
    """Name of the camera of some images: of "images/front/0001.jpg" it is "front", of "front_0001.jpg" as well."""
    parts = list(images.relative_to(folder).parts)
    if len(parts) > 1 and parts[0].lower() in _FOLDERS_OF_CAMERAS:
        parts = parts[1:]
    label = prefix.strip("_-. ")
    if label and (not parts or label.lower() not in (*_PLAIN_WORDS, parts[-1].lower())):
        parts.append(label)
    return ".".join(parts) or "images"


def make_image_camera(
    name: str, media: MediaRef, folder: Path, names: tuple[str, ...], digest: Any
) -> Camera:
    """The camera, by the header of its first image; the first is decoded, and three are part of the content hash.

    Raises SourceError for an image that cannot be read or decoded.
    """
    data = [_read_image(folder, names[number]) for number in (0, len(names) // 2, len(names) - 1)]
    for image in data:
        digest.update(image)
    info = parse_image_header(data[0])
    where = f"{folder / names[0]}"
    if info is None:
        raise SourceError("image is neither JPEG nor PNG", where)
    try:
        decode_image(data[0], where)
    except MediaError as error:
        raise SourceError(error.reason, error.detail) from None
    return describe_camera(name, info, media)


def _read_image(folder: Path, name: str) -> bytes:
    path = folder / check_relative_path(name, str(folder))
    try:
        return read_input(str(path), _HEADER_BYTES)
    except OSError as error:
        raise SourceError("image cannot be read", f"{path}: {describe_os_error(error)}") from None
