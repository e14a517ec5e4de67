"""Routes beside the pages: videos with byte ranges, posters of any second, and a sign of life."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from ares.errors import AresError, RequestError
from ares.workspace import Workspace

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from ares.episode import Camera, Episode

Endpoint = Callable[["Request"], Awaitable["Response"]]

_EPISODE_ID = re.compile(r"[0-9a-f]{16}")
# The address carries the content's hash, so what a browser keeps never goes stale.
_KEEP = {"Cache-Control": "private, max-age=86400"}
_WIDTHS = (64, 1280)
# A transcode holds a thread for seconds; more at once would starve the posters.
_MAKERS = 4


def video_url(episode: Episode, camera: str) -> str:
    """Address of the playable video of one camera."""
    return f"/api/media/{episode.episode_id}/{quote(camera, safe='')}.mp4?v={episode.content_hash[:8]}"


def poster_url(episode: Episode, camera: str, second: float | None = None, width: int = 384) -> str:
    """Address of a still at a second of the episode; its middle when no second is given."""
    at = episode.duration_seconds / 2 if second is None else second
    query = urlencode({"t": f"{at:.3f}", "width": width, "v": episode.content_hash[:8]})
    return f"/api/thumb/{episode.episode_id}/{quote(camera, safe='')}.jpg?{query}"


def routes(ws: Workspace) -> list[BaseRoute]:
    """The routes of a workspace, all under /api/ (Streamlit reserves the other prefixes)."""
    from anyio import CapacityLimiter
    from starlette.routing import Route

    makers = CapacityLimiter(_MAKERS)
    return [
        Route("/api/health", _health(ws)),
        Route("/api/media/{episode}/{camera:path}.mp4", _file(partial(_video, ws), "video/mp4", makers)),
        Route("/api/thumb/{episode}/{camera:path}.jpg", _file(partial(_poster, ws), "image/jpeg", makers)),
    ]


def _health(ws: Workspace) -> Endpoint:
    async def health(request: Request) -> Response:
        from starlette.responses import JSONResponse

        return JSONResponse({"status": "ok", "workspace": ws.workspace_id})

    return health


def _file(make: Callable[[Request], Path], media_type: str, limiter: object) -> Endpoint:
    async def answer(request: Request) -> Response:
        from anyio import to_thread
        from starlette.responses import FileResponse, PlainTextResponse

        try:
            path = await to_thread.run_sync(make, request, limiter=limiter)  # type: ignore[arg-type]
        except RequestError as error:
            return PlainTextResponse(f"{error}\n", status_code=404)
        except AresError as error:
            return PlainTextResponse(f"{error}\n", status_code=422)
        return FileResponse(path, media_type=media_type, headers=_KEEP)

    return answer


def _video(ws: Workspace, request: Request) -> Path:
    from ares.media.playable import playable

    _, camera = _asked(ws, request)
    return playable(camera.media, "h264", ws.cache)


def _poster(ws: Workspace, request: Request) -> Path:
    from ares.media.playable import thumbnail

    episode, camera = _asked(ws, request)
    second = _number(request, "t", episode.duration_seconds / 2)
    width = int(min(max(_number(request, "width", 384), _WIDTHS[0]), _WIDTHS[1]))
    return thumbnail(camera.media, min(max(second, 0.0), episode.duration_seconds), width, ws.cache)


def _asked(ws: Workspace, request: Request) -> tuple[Episode, Camera]:
    wanted = request.path_params["episode"]
    if not _EPISODE_ID.fullmatch(wanted):
        raise RequestError("that is no episode id", "an id is 16 hex digits")
    episode = ws.episode(wanted)
    return episode, episode.camera(request.path_params["camera"])


def _number(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise RequestError(f"{name} is no number", f"{text!r}")
    return value
