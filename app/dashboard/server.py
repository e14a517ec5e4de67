"""Server: pages, media routes and guards in one process, on loopback unless told otherwise and then behind a login."""

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

_MAIN = Path(__file__).with_name("main.py")
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


def build(workspace_path: str, settings: Settings, host: str = "127.0.0.1") -> st.App:
    """The ASGI application of a workspace.

    Args:
        workspace_path: Folder of the workspace, created when it is not there.
        settings: What the environment says.
        host: Address that it will listen on; beyond loopback every request needs the login.

    Raises:
        RequestError: A host beyond loopback without a password, or a folder that is no workspace.
    """
    from app.dashboard.guard import is_loopback

    if not is_loopback(host) and not settings.app_password:
        raise RequestError(
            f"listening on {host!r} needs a login",
            "set ARES_APP_PASSWORD, or stay on 127.0.0.1 and use a tunnel",
        )
    return _application(open_workspace(workspace_path, settings), host)


def serve(
    workspace: Workspace, host: str = "127.0.0.1", port: int = 8501, open_browser: bool = False
) -> None:
    """Serve a workspace until interrupted; says its address on standard error.

    Args:
        workspace: What to show.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        open_browser: Whether to open the user's browser.

    Raises:
        RequestError: The port is taken, or the host needs a password.
    """
    import uvicorn

    app = _application(workspace, host)
    with _listen(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listener.getsockname()[1]}"
        print(f"ARES dashboard: {address}  (Ctrl+C ends it)", file=sys.stderr, flush=True)
        if open_browser:
            threading.Timer(0.8, webbrowser.open, [address]).start()
        config = uvicorn.Config(app, log_level="warning", ws="websockets-sansio", timeout_graceful_shutdown=3)
        uvicorn.Server(config).run(sockets=[listener])


def _application(ws: Workspace, host: str) -> st.App:
    import streamlit as st
    from starlette.middleware import Middleware
    from streamlit import config
    from streamlit.logger import get_logger

    # It would tell the terminal that caches made before the server starts live in memory, as they all do.
    get_logger("streamlit.runtime.caching.cache_data_api").setLevel("ERROR")

    from app.dashboard import handles
    from app.dashboard.guard import Login, SameSite, is_loopback
    from app.dashboard.routes import routes

    if not is_loopback(host) and not ws.settings.app_password:
        remedy = "set ARES_APP_PASSWORD, or stay on 127.0.0.1 and use a tunnel"
        raise RequestError(f"listening on {host!r} needs a login", remedy)
    for name, value in _CONFIG.items():
        config.set_option(name, value)
    handles.use(ws)
    middleware = [Middleware(SameSite, loopback_only=is_loopback(host))]
    if ws.settings.app_password and not is_loopback(host):
        middleware.append(Middleware(Login, password=ws.settings.app_password))
    return st.App(_MAIN, routes=routes(ws), middleware=middleware, lifespan=_warm)


@asynccontextmanager
async def _warm(app: st.App) -> AsyncIterator[None]:
    """Load the libraries that the first page needs while the browser is still connecting."""
    from app.dashboard import handles

    threading.Thread(target=handles.warm, name="warm", daemon=True).start()
    yield None


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)  # who is told the address may come at once
    except OSError as error:
        listener.close()
        reason = f"cannot listen on {host}:{port}"
        raise RequestError(reason, f"{error.strerror}; give another --port or --host") from None
    return listener
