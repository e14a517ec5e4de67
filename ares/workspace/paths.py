"""Paths as people give them in Python: texts or path objects, with "~" for their home folder."""

from __future__ import annotations

import os

from ares.errors import RequestError


def expanded_path(path: str | os.PathLike[str]) -> str:
    """The path with a leading "~" as the user's folder, as a shell expands it. Raises RequestError for bytes."""
    if isinstance(path, bytes):
        raise RequestError("a path is a str or a Path", f"got bytes {path!r}; give os.fsdecode(...)")
    return os.path.expanduser(os.fspath(path))  # noqa: PTH111  # a Path would change URLs
