"""What users of the pages may do: how long a query takes, where exports go, and image uploads."""

from __future__ import annotations

import re
import secrets
import warnings
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import RequestError, SourceError
from ares.input import check_pixels
from ares.names import check_name
from ares.store import Stores

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLimits:
    """Limits that the owner of the server sets.

    Attributes:
        query_seconds: Time limit of each query.
        export_folders: Folders below which exports may be written; the first is the default.
        needs_login: Whether users log in, and so can log out.
    """

    query_seconds: float = 10.0
    export_folders: tuple[Path, ...] = ()
    needs_login: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.query_seconds <= 86_400:
            raise RequestError(
                "--query-seconds must be above 0 and at most 86400", f"got {self.query_seconds:g}"
            )


def find_default_export_folder(stores: Stores) -> Path:
    """Return `exports` in the folder of the workspace; of a workspace on an object store, in the current folder."""
    return Path.cwd() / "ares-exports" if stores.is_remote else stores.folder / "exports"


def choose_export_destination(folder: Path, name: str) -> Path:
    """Return the destination of an export with a name below an allowed folder, which is created.

    Args:
        folder: One of the allowed folders.
        name: Name typed on a page, see `ares.names.check_name`; without "/", ":" and a backslash.

    Raises:
        RequestError: The text cannot be such a name, or exists as a symbolic link; or the folder cannot be created.
    """
    check_name("folder", name, without="/:\\")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The owner may have made the folder itself a link; what a page can name below it may not be one.
        destination = folder.resolve(strict=True) / name
    except OSError as error:
        raise RequestError("the folder of exports cannot be used", f"{folder}: {error.strerror}") from None
    if destination.is_symlink():
        raise RequestError("the destination is a symbolic link", f"{name!r}; choose another name")
    return destination


IMAGE_TYPES = ("png", "jpg", "jpeg", "webp")
_UPLOAD = re.compile(r"upload:([0-9a-f]{32})")
_FRAME = re.compile(r"[0-9a-f]{16}/[^\x00-\x1f\x7f]{1,200}@[0-9]{1,9}(?:\.[0-9]{1,9})?")
_FORMATS = ("PNG", "JPEG", "WEBP")
# Models see a few hundred pixels.
_STORED_SIZE = (768, 768)


def store_uploaded_image(stores: Stores, data: bytes) -> str:
    """Store an uploaded image, reduced to 768 pixels; old ones are evicted with the media cache.

    Args:
        stores: Stores of the workspace.
        data: The file: PNG, JPEG or WebP of at most 50 million pixels.

    Returns:
        "upload:ID" with 32 random hexadecimal digits, as a view names the image.

    Raises:
        RequestError: It is no such image, or the cache cannot be written.
    """
    image = _decode_image(data)
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


def _decode_image(data: bytes) -> Image:
    """The image in RGB, reduced; its size is read from the header, before pixels are decoded."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(BytesIO(data), formats=_FORMATS) as image:
                check_pixels(image.width, image.height, "the image")
                image.thumbnail(_STORED_SIZE)
                return image.convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        raise RequestError("the image cannot be read", f"{error}; use PNG, JPEG or WebP"[:200]) from None
    except (SourceError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise RequestError("the image is too large", str(error)) from None
