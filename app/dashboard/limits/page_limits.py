"""What the pages may do: how long a query may take, and below which folders exports may be written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ares.errors import RequestError
from ares.store import Stores

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLimits:
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


def default_export_folder(stores: Stores) -> Path:
    """Return `exports` in the folder of the workspace; of a workspace on an object store, in the current folder."""
    return Path.cwd() / "ares-exports" if stores.is_remote else stores.folder / "exports"


def export_destination(folder: Path, name: str) -> Path:
    """Return the destination of an export with a name below an allowed folder, which is created.

    Args:
        folder: One of the allowed folders.
        name: Plain name typed on a page.

    Raises:
        RequestError: The name is not plain, or exists as a symbolic link; or the folder cannot be created.
    """
    if not _NAME.fullmatch(name):
        rule = "use up to 100 letters, digits, '.', '_' and '-', the first a letter or digit"
        raise RequestError("the name of an export is a plain name", f"got {name[:100]!r}; {rule}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The owner may have made the folder itself a link; what a page can name below it may not be one.
        destination = folder.resolve(strict=True) / name
    except OSError as error:
        raise RequestError("the folder of exports cannot be used", f"{folder}: {error.strerror}") from None
    if destination.is_symlink():
        raise RequestError("the destination is a symbolic link", f"{name!r}; choose another name")
    return destination
