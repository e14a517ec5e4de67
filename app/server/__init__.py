"""The server process: pages, media and access control."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from app.server.asgi import ServedPages as ServedPages, serve as serve
    from app.server.background import start_background as start_background, start_module as start_module
    from app.server.page_addresses import UNKNOWN_PAGE as UNKNOWN_PAGE
    from app.server.search_socket import search_by_dashboard as search_by_dashboard

__getattr__ = lazy_exports(__name__)
