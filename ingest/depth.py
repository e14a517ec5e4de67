"""What is kept of depth: where it is, its size, its range and its unit; it is no camera of colours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import DEPTH_CAMERAS, Json, NotRead
from ares.errors import SourceError
from ares.input import decode_deep_image, read_input
from ares.media import HOLDS_DEPTH

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# TIFF holds depth in robotics; as colour nobody reads it.
DEPTH_SUFFIXES = (".tif", ".tiff")
_LARGEST_BYTES = 2**28
_PNG_BITS = slice(24, 25)
# The header before the PNG of a topic with compressed depth (package compressed_depth_image_transport).
_COMPRESSED_HEADER = 12
# Bytes of a pixel and NumPy type of raw depth, by encoding; REP 118: millimetres as whole numbers, metres as floats.
_UNITS = {"f4": "m", "f8": "m", "f2": "m", "u2": "mm", "i2": "mm"}
# A picture has more pixels than this on each side; one that no name calls depth has more than the other.
_FEWEST_PIXELS, _FEWEST_UNNAMED = 4, 15
_NAMED_DEPTH = re.compile(r"(.*/)?(depths?(_images?|_maps?)?/[^/]+|[^/]*depth[^/]*)")
_RAW_TYPES = {"16uc1": "u2", "mono16": "u2", "32fc1": "f4"}


def is_deep_image(data: bytes) -> bool:
    """Whether an image has 16 bits in each pixel's channel: a PNG by its header, a TIFF by its first picture."""
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return data[_PNG_BITS] == b"\x10"
    return data[:4] in (b"II*\0", b"MM\0*") and decode_depth(data).dtype.itemsize > 1


def is_depth_array(key: str, array: Any) -> bool:
    """Whether each row of an array is a picture of depth: it has one channel, and its name says so or it has 16 bits.

    Args:
        key: Its name, with "/" between the levels.
        array: (T, H, W), (T, H, W, 1) or (T, 1, H, W) of depth.
    """
    sides = _picture_sides(tuple(array.shape[1:]))
    if array.dtype.kind not in "iuf" or not sides:
        return False
    is_of_16_bits = array.dtype.kind == "u" and array.dtype.itemsize == 2
    return min(sides) > (_FEWEST_PIXELS if is_named_depth(key) else _FEWEST_UNNAMED) and (
        is_named_depth(key) or is_of_16_bits
    )


def _picture_sides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Height and width of a picture of one channel, which stands last or first; () for another shape."""
    if len(shape) == 3 and shape[2] == 1:
        return shape[:2]
    if len(shape) == 3 and shape[0] == 1:
        return shape[1:]
    return shape if len(shape) == 2 else ()


def is_named_depth(key: str) -> bool:
    """Whether a key says that it is depth: by its last part, or by a folder of such pictures."""
    return _NAMED_DEPTH.fullmatch(key.lower()) is not None


def sampled_rows(count: int) -> list[int]:
    """Numbers of the pictures by which depth is described: the first, the middle one and the last."""
    return sorted({0, count // 2, count - 1})


def as_depth_picture(row: Any) -> NDArray[Any]:
    """(H, W) of a row of an array of depth."""
    import numpy as np

    picture: NDArray[Any] = np.asarray(row)
    return picture.reshape(_picture_sides(picture.shape))


def decode_depth(data: bytes) -> NDArray[Any]:
    """(H, W) of a PNG or TIFF as stored. Raises SourceError."""
    return decode_deep_image(data, "depth")


def describe_depth(
    pictures: Iterable[NDArray[Any]], location: Mapping[str, Json], *, frames: int
) -> dict[str, Json]:
    """The description of the depth of a camera.

    Args:
        pictures: Some pictures of the episode, as stored.
        location: Where all of them are.
        frames: How many they are.
    """
    import numpy as np

    sampled = list(pictures)
    known = [picture[np.isfinite(picture) & (picture > 0)] for picture in sampled]
    values = np.concatenate(known) if known else np.empty(0)
    # Metres as floats and millimetres as whole numbers (REP 118); eight bits are no unit of length.
    unit = _UNITS.get(sampled[0].dtype.kind + str(sampled[0].dtype.itemsize), "") if sampled else ""
    # A simulator's depth buffer lies between its near and its far plane, 0 and 1: so may metres, or not.
    unit = "" if unit == "m" and values.size and values.max() <= 1 else unit
    return {
        **location,
        "frames": frames,
        "height": int(sampled[0].shape[0]) if sampled else None,
        "width": int(sampled[0].shape[1]) if sampled else None,
        "dtype": str(sampled[0].dtype) if sampled else "",
        "depth_unit": unit,
        "depth_unit_source": "the type of the pixels" if unit else "",
        "depth_min": float(values.min()) if values.size else None,
        "depth_max": float(values.max()) if values.size else None,
        "sampled_frames": len(sampled),
    }


def find_depth_of_files(
    name: str, folder: Path, prefix: str, names: Sequence[str], warnings: dict[str, None]
) -> dict[str, Json] | None:
    """The description of the depth in numbered images; None for colours, empty for what is neither or undecodable.

    Args:
        name: Name of the camera.
        folder: Their folder.
        prefix: Text before their numbers.
        names: Their names, in order.
        warnings: Receives why they are no camera.

    Raises:
        SourceError: The first of them cannot be read.
    """
    first = read_input(str(folder / names[0]), _LARGEST_BYTES)
    is_tiff = names[0].lower().endswith(DEPTH_SUFFIXES)
    try:
        if not ("depth" in name.lower() or is_deep_image(first)):
            if is_tiff:
                warnings[NotRead(f"camera {name} is left out: TIFF of 8 bits is not read")] = None
            return {} if is_tiff else None
        pictures = [
            decode_depth(read_input(str(folder / names[n]), _LARGEST_BYTES)) for n in sampled_rows(len(names))
        ]
    except SourceError as error:
        warnings[NotRead(f"camera {name} left out: {error.reason}")] = None
        return {}
    warnings[f"camera {name} left out: {HOLDS_DEPTH}"] = None
    return describe_depth(pictures, {"path": f"{folder}/", "key": prefix}, frames=len(names))


def decode_depth_message(message: Any) -> NDArray[Any]:
    """(H, W) of the depth of an image message, raw or compressed. Raises SourceError."""
    import numpy as np

    data = bytes(message.data)
    if hasattr(message, "format"):
        start = data.find(b"\x89PNG", 0, 2 * _COMPRESSED_HEADER)
        return decode_depth(data[max(start, 0) :])
    kind = _RAW_TYPES.get(message.encoding.lower())
    order = ">" if getattr(message, "is_bigendian", 0) else "<"
    if kind is None or len(data) < message.step * message.height or message.step % int(kind[1]):
        raise SourceError("depth cannot be decoded", f"{message.encoding}, {len(data)} bytes")
    rows: NDArray[np.generic] = np.frombuffer(
        data, f"{order}{kind}", message.step * message.height // int(kind[1])
    )
    return rows.reshape(message.height, -1)[:, : message.width].astype(kind)


def add_depth(metadata: Mapping[str, Json], depth: Mapping[str, Json]) -> dict[str, Json]:
    """The metadata of an episode with the depth of its cameras; those without a description are left out."""
    described = {name: facts for name, facts in depth.items() if facts}
    return {**metadata, **({DEPTH_CAMERAS: described} if described else {})}
