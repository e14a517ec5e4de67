"""What is kept of depth: where it is, its size, its range and its unit; it is no camera of colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import DEPTH_CAMERAS, Json
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
_RAW_TYPES = {"16uc1": "u2", "mono16": "u2", "32fc1": "f4"}


def is_deep_image(data: bytes) -> bool:
    """Whether an image has 16 bits in each pixel's channel: a PNG by its header, a TIFF by its first picture."""
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return data[_PNG_BITS] == b"\x10"
    return data[:4] in (b"II*\0", b"MM\0*") and decode_depth(data).dtype.itemsize > 1


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
    unit = {"float32": "m", "float64": "m", "uint16": "mm"}.get(str(sampled[0].dtype), "") if sampled else ""
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
                warnings[f"camera {name} is left out: TIFF of 8 bits is not read"] = None
            return {} if is_tiff else None
        numbers = sorted({0, len(names) // 2, len(names) - 1})
        pictures = [decode_depth(read_input(str(folder / names[n]), _LARGEST_BYTES)) for n in numbers]
    except SourceError as error:
        warnings[f"camera {name} left out: {error.reason}"] = None
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
