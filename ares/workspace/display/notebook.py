"""HTML of episodes for notebooks: tables with posters, which are pictures inside the page."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import AresError

if TYPE_CHECKING:
    from ares.episode import Camera, Episode
    from ares.store import Stores

_POSTER_PIXELS = 160


def poster_html(stores: Stores, episode: Episode, camera: Camera) -> str:
    """A picture from the middle of an episode; a short text where it cannot be read."""
    from ares.clock import camera_seconds
    from ares.media import thumbnail

    try:
        (second,) = camera_seconds(
            episode,
            camera,
            [episode.duration_seconds / 2],
            lambda: stores.tables.trajectories.get(episode.episode_id).timestamps,
        )
        path = thumbnail(camera.media, second, _POSTER_PIXELS, stores.media_cache)
        data = base64.b64encode(Path(path).read_bytes()).decode()
    except (AresError, OSError) as error:
        return f'<small title="{escape(str(error))}">no picture</small>'
    return f'<img width="{_POSTER_PIXELS}" alt="{escape(camera.name)}" src="data:image/jpeg;base64,{data}">'


def best_poster_html(stores: Stores, episode: Episode) -> str:
    """The poster of the best camera; "" without cameras."""
    cameras = episode.good_cameras
    return poster_html(stores, episode, cameras[0]) if cameras else ""


def rows_html(headline: str, rows: Sequence[Mapping[str, object]], pictures: Sequence[str]) -> str:
    """A headline and a table whose rows begin with a picture.

    Args:
        headline: Text above the table.
        rows: Values by column; the same columns in every row.
        pictures: HTML of the first cell of each row.
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in (rows[0] if rows else ()))
    body = "".join(
        f"<tr><td>{picture}</td>{''.join(_cell(value) for value in row.values())}</tr>"
        for picture, row in zip(pictures, rows, strict=True)
    )
    table = f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    return f"<div><p><b>{escape(headline)}</b></p>{table}</div>"


def _cell(value: object) -> str:
    return f"<td>{escape('' if value is None else str(value))}</td>"
