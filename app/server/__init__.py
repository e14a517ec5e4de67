"""The server process: pages, media and access control."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from app.server.asgi import (
        ServedPages as ServedPages,
        serve as serve,
        start_background_dashboard as start_background_dashboard,
        start_module_process as start_module_process,
    )
    from app.server.command_searches import ask_dashboard_to_search as ask_dashboard_to_search
    from app.server.routes import (
        CONNECTION_HEADER as CONNECTION_HEADER,
        UNKNOWN_PAGE as UNKNOWN_PAGE,
        release_next_message as release_next_message,
    )

__getattr__ = lazy_exports(__name__)
