"""Containers of video, opened for reading by PyAV, from a path or a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares import files

if TYPE_CHECKING:
    from av.container import InputContainer


def open_container(path: str) -> InputContainer:
    """A video file or URL, open for reading; of a URL only what is asked for is fetched.

    Raises what PyAV raises, and OSError.
    """
    import av

    # FFmpeg's own clients of object stores know nothing of credentials.
    return av.open(files.opened(path), "r") if files.is_url(path) else av.open(path, "r")
