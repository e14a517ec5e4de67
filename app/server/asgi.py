"""The server process: pages, media routes and access control; beyond loopback it needs a password."""

from __future__ import annotations

import socket
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.errors import RequestError
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    import streamlit as st

_MAIN = Path(__file__).parents[1] / "dashboard" / "main.py"
_CONFIG: dict[str, Any] = {
    "browser.gatherUsageStats": False,
    "client.toolbarMode": "minimal",
    "client.showErrorLinks": False,
    "server.fileWatcherType": "none",
    "server.headless": True,
    "server.showEmailPrompt": False,
    "runner.magicEnabled": False,
    "theme.base": "light",
    "theme.primaryColor": "#2563eb",
    "theme.textColor": "#0f172a",
    "theme.secondaryBackgroundColor": "#f5f7fa",
    "theme.borderColor": "#dfe4ea",
    "theme.baseRadius": "0.5rem",
    "theme.baseFontSize": 15,
    "theme.headingFontSizes": ["1.6rem", "1.25rem", "1.05rem"],
    "theme.showSidebarBorder": True,
    "theme.sidebar.backgroundColor": "#fafbfc",
}


def build_app(workspace_path: str, settings: Settings, host: str = "127.0.0.1") -> st.App:
    """Return the ASGI application of a workspace.

    Args:
        workspace_path: Folder of the workspace; a missing one is created.
        settings: Settings from the environment.
        host: Address that it will listen on; beyond loopback every request needs a login.

    Raises:
        RequestError: The host is beyond loopback and there is no password, or the folder is not a workspace.
    """
    _require_password(host, settings)
    return _application(open_workspace(workspace_path, settings), host)


def serve(
    workspace: Workspace, host: str = "127.0.0.1", port: int = 8501, open_browser: bool = False
) -> None:
    """Serve a workspace until interrupted; the address is printed on standard error.

    Args:
        workspace: Workspace to show.
        host: Address to listen on.
        port: Port to listen on; 0 for any free one.
        open_browser: Whether to open the user's browser.

    Raises:
        RequestError: The port is in use, or the host needs a password.
    """
    import uvicorn

    app = _application(workspace, host)
    with _open_listener(host, port) as listener:
        url_host = f"[{host}]" if ":" in host else host
        address = f"http://{url_host}:{listener.getsockname()[1]}"
        print(f"ARES dashboard: {address}  (Ctrl+C ends it)", file=sys.stderr, flush=True)
        if open_browser:
            threading.Timer(0.8, webbrowser.open, [address]).start()
        config = uvicorn.Config(app, log_level="warning", ws="websockets-sansio", timeout_graceful_shutdown=3)
        uvicorn.Server(config).run(sockets=[listener])


def _application(workspace: Workspace, host: str) -> st.App:
    import streamlit as st
    from starlette.middleware import Middleware
    from streamlit import config
    from streamlit.logger import get_logger

    # Without this, Streamlit warns that caches created before the server starts are in memory, as all are.
    get_logger("streamlit.runtime.caching.cache_data_api").setLevel("ERROR")

    from app.dashboard import use_workspace
    from app.server.auth import LoginMiddleware, SameOriginMiddleware, is_loopback
    from app.server.media_routes import build_routes

    password = workspace.settings.app_password
    _require_password(host, workspace.settings)
    for name, value in _CONFIG.items():
        config.set_option(name, value)
    use_workspace(workspace)
    middleware = [Middleware(SameOriginMiddleware, loopback_only=is_loopback(host))]
    if password and not is_loopback(host):
        middleware.append(Middleware(LoginMiddleware, password=password))
    return st.App(_MAIN, routes=build_routes(workspace.stores), middleware=middleware, lifespan=_preload)


def _require_password(host: str, settings: Settings) -> None:
    from app.server.auth import is_loopback

    if not is_loopback(host) and not settings.app_password:
        remedy = "set ARES_APP_PASSWORD, or stay on 127.0.0.1 and use a tunnel"
        raise RequestError(f"listening on {host!r} needs a login", remedy)


@asynccontextmanager
async def _preload(app: st.App) -> AsyncIterator[None]:
    """Load the libraries that the first page needs while the browser is still connecting."""
    from app.dashboard import preload

    threading.Thread(target=preload, name="preload", daemon=True).start()
    yield None


def _open_listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)  # requests may arrive as soon as the address is printed
    except OSError as error:
        listener.close()
        reason = f"cannot listen on {host}:{port}"
        raise RequestError(reason, f"{error.strerror}; give another --port or --host") from None
    return listener
