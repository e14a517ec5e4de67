"""The server process: pages, media and access control."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.server.asgi import serve
    from app.server.background import start
    from app.server.media_routes import poster_url, video_url
    from app.server.search_socket import search_by_dashboard

__all__ = ["poster_url", "search_by_dashboard", "serve", "start", "video_url"]

__getattr__ = lazy_exports(__name__)
