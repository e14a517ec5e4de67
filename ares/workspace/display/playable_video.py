"""A video file of one camera that a browser plays; a notebook shows it as a player."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from html import escape
from pathlib import Path

# A larger video would make the notebook slow to open: only its path is shown.
_MAX_INLINE_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayableVideo:
    """An mp4 of one camera of an episode; functions that take a path take it.

    Attributes:
        path: The file: the source itself, or one in the media cache of the workspace.
    """

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        """A player with the video inside the page, or the path of a large one."""
        if self.path.stat().st_size > _MAX_INLINE_BYTES:
            return f"<code>{escape(str(self.path))}</code>"
        data = base64.b64encode(self.path.read_bytes()).decode()
        return f'<video controls muted loop width="320" src="data:video/mp4;base64,{data}"></video>'
