"""Images that users upload to search by, kept in the cache of the workspace under a random id."""

from __future__ import annotations

import re
import secrets
import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import RequestError

if TYPE_CHECKING:
    from PIL.Image import Image

    from ares.store import Stores

IMAGE_TYPES = ("png", "jpg", "jpeg", "webp")
_UPLOAD = re.compile(r"upload:([0-9a-f]{32})")
_FRAME = re.compile(r"[0-9a-f]{16}/[^\x00-\x1f\x7f]{1,200}@[0-9]{1,9}(?:\.[0-9]{1,9})?")
_FORMATS = ("PNG", "JPEG", "WEBP")
# Models see a few hundred pixels.
_MAX_PIXELS, _STORED_SIZE = 50_000_000, (768, 768)


def store_upload(stores: Stores, data: bytes) -> str:
    """Store an uploaded image, reduced to 768 pixels; old ones are evicted with the media cache.

    Args:
        stores: Stores of the workspace.
        data: The file: PNG, JPEG or WebP of at most 50 million pixels.

    Returns:
        "upload:ID" with 32 random hexadecimal digits, as a view names the image.

    Raises:
        RequestError: It is no such image, or the cache cannot be written.
    """
    image = _decode(data)
    image_id = secrets.token_hex(16)
    try:
        stores.media_cache.path(f"{image_id}.png", lambda path: image.save(path, format="PNG"))
    except OSError as error:
        raise RequestError("the image cannot be stored", error.strerror or "the cache is read-only") from None
    return f"upload:{image_id}"


def search_image(stores: Stores, image: str) -> str:
    """Return the image of a view as a search takes it: a frame of the workspace, or the path of an uploaded image.

    Every image that a page searches by passes here, because a search also takes paths.

    Args:
        stores: Stores of the workspace.
        image: "EPISODE_ID/CAMERA@SECONDS", "upload:ID" or "".

    Raises:
        RequestError: It is anything else, or an uploaded image that is no longer kept.
    """
    if not image or _FRAME.fullmatch(image):
        return image
    upload = _UPLOAD.fullmatch(image)
    if upload is None:
        rule = "use EPISODE_ID/CAMERA@SECONDS, or upload the image in Browse"
        raise RequestError("no image of this workspace has this name", f"{image[:100]!r}; {rule}")
    path = _cached_path(stores, upload[1])
    if not path.is_file():
        raise RequestError("the uploaded image is no longer kept", "upload it again in Browse")
    return str(path)


def _cached_path(stores: Stores, image_id: str) -> Path:
    return stores.folder / "cache" / image_id[:2] / f"{image_id}.png"


def _decode(data: bytes) -> Image:
    """The image in RGB, reduced; its size is read from the header, before pixels are decoded."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(BytesIO(data), formats=_FORMATS) as image:
                if image.width * image.height > _MAX_PIXELS:
                    size = f"{image.width} x {image.height}; at most {_MAX_PIXELS:,} pixels"
                    raise RequestError("the image is too large", size)
                image.thumbnail(_STORED_SIZE)
                return image.convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        raise RequestError("the image cannot be read", f"{error}; use PNG, JPEG or WebP"[:200]) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise RequestError("the image is too large", f"at most {_MAX_PIXELS:,} pixels") from None
