"""Paths as texts in metadata of a dataset: relative ones, which stay inside it, and templates of such."""

from __future__ import annotations

import re

from ares.errors import SourceError
from ares.io import is_url


def check_relative_path(path: str, where: str) -> str:
    """The path, as metadata of a dataset gives it, which must stay inside the dataset.

    Args:
        path: Relative path with "/" as separator.
        where: File that gives it, for messages.

    Raises:
        SourceError: It is empty, absolute or a URL, goes up by "..", or holds a null byte.
    """
    is_outside = path.startswith(("/", "\\", "~")) or ".." in path.replace("\\", "/").split("/")
    if not path or is_outside or is_url(path) or "\0" in path or len(path) > 4096:
        raise SourceError("path leads out of the dataset", f"{where}: {path[:200]!r}")
    return path


_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(?::(0?)([0-9]{0,2})d?)?\}")
_MAX_WIDTH = 20
_MAX_CHARACTERS = 1024


def check_path_template(text: object, where: str) -> None:
    """Check a template that metadata of a dataset gives: "data/chunk-{chunk:03d}/episode_{episode:06d}.parquet".

    Never fill one by `str.format`, whose fields reach any attribute and take any width.

    Args:
        text: The template, as metadata gives it.
        where: File that gives it, for messages.

    Raises:
        SourceError: It is no text, is too long, holds braces other than the two kinds of placeholders, or leads out
            of the dataset.
    """
    if not isinstance(text, str) or not text or len(text) > _MAX_CHARACTERS:
        raise SourceError("path template is not a short text", f"{where}: {str(text)[:100]!r}")
    rest = _PLACEHOLDER.sub("", text)
    widths = [int(match[3]) for match in _PLACEHOLDER.finditer(text) if match[3]]
    if "{" in rest or "}" in rest or any(width > _MAX_WIDTH for width in widths):
        raise SourceError(
            "path template is not understood", f"{where}: {text!r}; use {{name}} or {{name:06d}}"
        )
    check_relative_path(_PLACEHOLDER.sub("0", text), where)
