"""The server process: pages, media and access control."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.server.asgi import ServedPages, serve
    from app.server.background import start_background
    from app.server.search_socket import search_by_dashboard

__all__ = ["ServedPages", "search_by_dashboard", "serve", "start_background"]

__getattr__ = lazy_exports(__name__)
