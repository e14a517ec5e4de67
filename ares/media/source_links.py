"""Links on the way to source files, looked at again when frames are decoded: one may have been replaced since."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ares.errors import SourceError
from ares.input import check_links
from ares.io import is_url


def leads_out(path: str) -> bool:
    """Whether links lead a local file further away than the folder two above its own: out of its dataset, for sure.

    The folder of the dataset itself is not stored with an episode.
    """
    if is_url(path):
        return False
    try:
        check_links(path, neighbourhood(path))
    except SourceError:
        return True
    return False


def follows_links(stamp: str, paths: Iterable[str]) -> bool:
    """Whether links out of the dataset of a camera were allowed when it was ingested.

    They were where one of the files that have just been compared with its stamp lies behind such a link.
    """
    return bool(stamp) and any(map(leads_out, paths))


def neighbourhood(path: str) -> str:
    """The folder two above the one that holds a file, or above a folder ("/" at the end); "" for a URL."""
    if is_url(path):
        return ""
    folder = path.rstrip("/") if path.endswith("/") else os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120
    above = os.path.dirname(os.path.dirname(folder))  # noqa: PTH120
    return folder if above == os.sep else above
