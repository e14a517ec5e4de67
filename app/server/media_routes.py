"""Videos, posters and small frames of episodes, by HTTP."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ares.errors import AresError, RequestError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from ares.episode import Camera, Episode
    from ares.store import Stores
from ares_app.server.routes import BASE_SCRIPT, Endpoint, answer_base_script

_EPISODE_ID = re.compile(r"[0-9a-f]{16}")

# The URL (`ares_app.dashboard.cards`) has the content's hash, so what a browser caches never goes stale.
_CACHE_HEADERS = {"Cache-Control": "private, max-age=86400"}

# Why there is no picture, quoted as in a URL.
_REASON = "X-Reason"

_MIN_WIDTH, _MAX_WIDTH = (64, 1280)

# A transcode occupies a thread for seconds; more at once would delay the posters.
_MAX_THREADS = 4


def build_media_routes(stores: Stores) -> list[BaseRoute]:
    """Return the routes of a workspace, all under /api/ (Streamlit reserves the other prefixes)."""
    from anyio import CapacityLimiter
    from starlette.routing import Route

    limiter = CapacityLimiter(_MAX_THREADS)
    video = _file_endpoint(partial(_make_video, stores), "video/mp4", limiter)
    poster = _file_endpoint(partial(_make_poster, stores), "image/jpeg", limiter)
    return [
        Route("/api/health", _health_endpoint(stores)),
        Route(BASE_SCRIPT, answer_base_script),
        Route("/api/media/{episode}/{camera:path}.mp4", video),
        Route("/api/thumb/{episode}/{camera:path}.jpg", poster),
    ]


def _health_endpoint(stores: Stores) -> Endpoint:
    async def health(request: Request) -> Response:
        from starlette.responses import JSONResponse

        return JSONResponse({"status": "ok", "workspace": stores.workspace_id})

    return health


def _file_endpoint(make_file: Callable[[Request], Path], media_type: str, limiter: object) -> Endpoint:
    async def answer(request: Request) -> Response:
        from anyio import to_thread
        from starlette.responses import FileResponse, PlainTextResponse, Response

        try:
            path = await to_thread.run_sync(make_file, request, limiter=limiter)  # type: ignore[arg-type]
        except RequestError as error:
            return PlainTextResponse(f"{error}\n", status_code=404)
        except AresError as error:
            # An empty answer: a page says the reason itself, and a browser logs an error for no other one.
            return Response(status_code=204, headers={_REASON: quote(str(error))})
        return FileResponse(path, media_type=media_type, headers=_CACHE_HEADERS)

    return answer


def _make_video(stores: Stores, request: Request) -> Path:
    from ares.media import browser_video

    _, camera = _find_camera(stores, request)
    return browser_video(camera.media, "h264", stores.media_cache)


def _make_poster(stores: Stores, request: Request) -> Path:
    from ares.clock import camera_seconds
    from ares.media import thumbnail

    episode, camera = _find_camera(stores, request)
    second = _number_parameter(request, "t", episode.duration_seconds / 2)
    second = min(max(second, 0.0), episode.duration_seconds)
    width = int(min(max(_number_parameter(request, "width", 384), _MIN_WIDTH), _MAX_WIDTH))
    trajectories = stores.tables.trajectories
    (shown,) = camera_seconds(
        episode, camera, [second], lambda: trajectories.get(episode.episode_id).timestamps
    )
    return thumbnail(camera.media, shown, width, stores.media_cache)


def _find_camera(stores: Stores, request: Request) -> tuple[Episode, Camera]:
    episode_id = request.path_params["episode"]
    if not _EPISODE_ID.fullmatch(episode_id):
        raise RequestError("not an episode id", "an id is 16 hex digits")
    episode = stores.tables.episodes.get_episode(episode_id)
    return episode, episode.camera(request.path_params["camera"])


def _number_parameter(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise RequestError(f"{name} is not a number", f"{text!r}")
    return value
