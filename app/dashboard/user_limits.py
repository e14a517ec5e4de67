"""What users of the pages may do: how long a query takes, where exports go, and which images they search by."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ares.errors import RequestError
from ares.names import check_name
from ares.store import Stores


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
                "the time limit of a query must be above 0 and at most 86400 seconds",
                f"got {self.query_seconds:g}",
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


_FRAME = re.compile(r"[0-9a-f]{16}/[^\x00-\x1f\x7f]{1,200}@[0-9]{1,9}(?:\.[0-9]{1,9})?")


def search_image(image: str) -> str:
    """Return the image of a view, which is a frame of the workspace.

    Every image that a page searches by passes here, because a search also takes paths.

    Args:
        image: "EPISODE_ID/CAMERA@SECONDS" or "".

    Raises:
        RequestError: It is anything else.
    """
    if image and not _FRAME.fullmatch(image):
        reason = "no image of this workspace has this name"
        raise RequestError(reason, f"{image[:100]!r}; use EPISODE_ID/CAMERA@SECONDS")
    return image
