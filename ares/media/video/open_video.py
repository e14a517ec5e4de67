"""PyAV containers opened for reading from a path or a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.io import is_url, open_file

if TYPE_CHECKING:
    from av.container import InputContainer


def open_container(path: str) -> InputContainer:
    """A video file or URL, open for reading; of a URL only the needed blocks are fetched.

    Raises what PyAV raises, and OSError.
    """
    import av

    # FFmpeg's own clients of object stores have no access to the credentials.
    return av.open(open_file(path), "r") if is_url(path) else av.open(path, "r")
