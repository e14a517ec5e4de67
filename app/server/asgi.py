"""The server process: pages, media routes, log-in, bounds on connections; here, or as a child that a program ends."""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ares.console import escape_logs, print_message, showing_progress
from ares.errors import AresError, RequestError
from ares.imports import needs_extra
from ares.settings import Settings
from ares.store import workspace_exists
from ares.workspace import Dashboard, Workspace, open_workspace
from ares_app.server.identity_login import IdentityProvider
from ares_app.server.jobs import clean_jobs, start_module_process

if TYPE_CHECKING:
    import streamlit as st
    import uvicorn
    from starlette.middleware import Middleware
    from starlette.types import ASGIApp

    from ares.episode import Json


# A websocket message carries what a user typed or selected.
_MAX_MESSAGE_BYTES = 8 * 2**20
# Connections beyond which requests get 503.
_MOST_CONNECTIONS = 512
# The server answers when the browser asks.
_BROWSER_SECONDS = 0.8
_CONFIG: dict[str, Any] = {
    "browser.gatherUsageStats": False,
    # The page of the results is a default of its widget and follows the address: the terminal got a traceback of it.
    "global.disableWidgetStateDuplicationWarning": True,
    "client.allowedOrigins": [],
    # Tracebacks name paths of the server; they are in its log.
    "client.showErrorDetails": "none",
    "client.showErrorLinks": False,
    "client.toolbarMode": "minimal",
    "global.developmentMode": False,
    "runner.magicEnabled": False,
    # A full collection after every script, 0.1 s and more, would delay the page that a click opens.
    "runner.postScriptGC": False,
    "server.allowRunOnSave": False,
    "server.enableAgentApi": False,
    "server.enableCORS": True,
    "server.enableStaticServing": False,
    "server.enableXsrfProtection": True,
    "server.fileWatcherType": "none",
    "server.headless": True,
    "server.maxUploadSize": 1,
    "server.maxWidgetStateSize": 8,
    "server.scriptHealthCheckEnabled": False,
    "server.showEmailPrompt": False,
    "server.trustedUserHeaders": "{}",
    "server.xsrfCookieSameSite": "strict",
    # Without a base the browser's preference chooses between the two.
    "theme.light.primaryColor": "#2563eb",
    "theme.light.codeTextColor": "#0b1220",
    "theme.light.textColor": "#0f172a",
    "theme.light.secondaryBackgroundColor": "#f5f7fa",
    "theme.light.borderColor": "#dfe4ea",
    "theme.light.sidebar.backgroundColor": "#fafbfc",
    # White on it can be read, as axe measures it.
    "theme.dark.primaryColor": "#2563eb",
    "theme.dark.linkColor": "#60a5fa",
    "theme.dark.codeTextColor": "#a7f3d0",
    "theme.dark.textColor": "#e2e8f0",
    "theme.dark.backgroundColor": "#0f172a",
    "theme.dark.secondaryBackgroundColor": "#1e293b",
    "theme.dark.borderColor": "#334155",
    "theme.dark.sidebar.backgroundColor": "#0b1220",
    "theme.baseRadius": "0.5rem",
    "theme.baseFontSize": 15,
    "theme.headingFontSizes": ["1.6rem", "1.25rem", "1.05rem"],
    "theme.showSidebarBorder": True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPages:
    """The pages that are served; a room above makes it, and can send it to another process.

    Attributes:
        script: The script of Streamlit that draws them.
        show: Called once before the first page, with the workspace to show and whether users log in. Raises
            RequestError for a limit of the pages that cannot be used.
        preload: Loads what the first pages need; called from a thread.
        changes: Returns the version of the data and what runs, for the pages that are open.
        show_error: Draws what a page raised; returns whether nothing else is to be shown.
        addresses: What `ares_app.server.routes.PageAddressMiddleware` is made of.
    """

    script: Path
    show: Callable[[Workspace, bool], None]
    preload: Callable[[], None]
    changes: Callable[[Workspace], Mapping[str, Json]]
    show_error: Callable[[Exception], bool]
    addresses: Mapping[str, Any]


def serve(
    workspace: Workspace,
    pages: ServedPages,
    host: str = "127.0.0.1",
    port: int = 8501,
    open_browser: bool = False,
) -> None:
    """Serve a workspace until interrupted; the address is printed on standard error.

    Args:
        workspace: Workspace to show; one that does not exist is made.
        pages: The pages.
        host: Address to listen on.
        port: Port to listen on; 0 for any free one.
        open_browser: Whether to open the user's browser.

    Raises:
        RequestError: The port is in use, the host needs a log-in, an option or the log-in cannot be used, the extra
            `app` is not installed, or no workspace can be made there.
    """
    with listening(workspace, pages, host, port) as (server, listener, address):
        print_message(f"ARES dashboard: {address}  (Ctrl+C ends it)")
        if open_browser:
            threading.Timer(_BROWSER_SECONDS, webbrowser.open, [address]).start()
        with showing_progress():
            server.run(sockets=[listener])


@contextmanager
def listening(
    workspace: Workspace, pages: ServedPages, host: str, port: int
) -> Iterator[tuple[uvicorn.Server, socket.socket, str]]:
    """The server, the socket that it listens on, and its address. Raises as `serve`."""
    access = _decide_access(workspace.settings, host)
    with _open_listener(host, port) as listener:
        if not workspace_exists(workspace.path):
            workspace.stores.catch_up()  # they are made here
            print_message(f"a new workspace is made at {workspace.path}")
        server = _make_dashboard(workspace, pages, access)
        yield server, listener, _address_of(host, listener)


def _make_server(app: ASGIApp) -> uvicorn.Server:
    from ares_app.server.connection_bounds import make_bounded_protocol

    with needs_extra("app"):
        import uvicorn

    _log_to_stderr()
    config = uvicorn.Config(
        app,
        log_level="warning",
        ws="websockets-sansio",
        ws_max_size=_MAX_MESSAGE_BYTES,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=3,
        limit_concurrency=_MOST_CONNECTIONS,
        http=make_bounded_protocol(),
    )
    server = uvicorn.Server(config)
    server.capture_signals = partial(_capture_signals, server, server.capture_signals)  # type: ignore[method-assign]
    return server


@contextmanager
def _capture_signals(
    server: uvicorn.Server, capture: Callable[[], AbstractContextManager[None]]
) -> Iterator[None]:
    """Capture signals as `uvicorn` does, which sends them once more at its end: that would count as a second one."""
    with capture():
        yield
        captured = server._captured_signals.copy()
        server._captured_signals.clear()
    for number in captured[:1]:
        handler = signal.getsignal(number)
        if callable(handler):
            handler(number, None)
        else:
            signal.raise_signal(number)


def _address_of(host: str, listener: socket.socket) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


@dataclass(frozen=True, slots=True)
class _Access:
    """Who may ask the server.

    Attributes:
        host: Address that it listens on.
        password: What everybody needs to log in, or "".
        proxies: Networks of trusted proxies, which say who it is.
        provider: The identity provider that says so, or None.
    """

    host: str
    password: str
    proxies: list[str]
    provider: IdentityProvider | None


def _decide_access(settings: Settings, host: str) -> _Access:
    """Raises RequestError where nobody, or more than one thing, would say who somebody is."""
    from ares_app.server.identity_login import read_identity_provider
    from ares_app.server.protection import is_loopback

    proxies, password = _parse_proxies(settings.trusted_proxies), settings.app_password
    with needs_extra("app"):
        import_module("streamlit")
    provider = read_identity_provider()
    if provider and (proxies or password):
        other = "ARES_TRUSTED_PROXIES" if proxies else "ARES_APP_PASSWORD"
        raise RequestError(f"people log in by [auth] of {provider.source} alone", f"remove it, or {other}")
    if not is_loopback(host) and not password and not provider:
        remedy = "set ARES_APP_PASSWORD, or stay on 127.0.0.1 and use a tunnel"
        raise RequestError(f"listening on {host!r} needs a login", remedy)
    return _Access(host, password, proxies, provider)


def _make_dashboard(workspace: Workspace, pages: ServedPages, access: _Access) -> uvicorn.Server:
    with needs_extra("app"):
        import streamlit as st
        from starlette.routing import Mount
        from streamlit import config
        from streamlit.logger import get_logger

    from ares_app.server.api import API_PREFIX, make_api
    from ares_app.server.media_routes import build_media_routes
    from ares_app.server.routes import build_changes_route

    for name, value in _CONFIG.items():
        config.set_option(name, value)
    # Without this, Streamlit warns that caches created before the server starts are in memory, as all are. Setting an
    # option sets the levels of all its loggers, so this comes behind.
    get_logger("streamlit.runtime.caching.cache_data_api").setLevel("ERROR")
    has_login = access.provider is not None
    pages.show(workspace, has_login or bool(access.password))
    from starlette.middleware import Middleware

    from ares_app.server.message_order import MessageOrderMiddleware
    from ares_app.server.routes import PageAddressMiddleware

    app = st.App(
        pages.script,
        routes=[
            *build_media_routes(workspace.stores),
            build_changes_route(partial(pages.changes, workspace)),
            Mount(API_PREFIX, make_api(workspace, people_by_login=has_login or bool(access.proxies))),
        ],
        middleware=[
            *_list_access_checks(access),
            # Behind the log-in, which sends a browser back to the address that it asked for.
            Middleware(PageAddressMiddleware, **pages.addresses),
            Middleware(MessageOrderMiddleware),
        ],
        lifespan=_make_lifespan(workspace, pages.preload),
        on_script_error=pages.show_error,
    )
    return _make_server(app)


def _list_access_checks(access: _Access) -> list[Middleware]:
    """What every request passes first, from the outside in."""
    with needs_extra("app"):
        import_module("uvicorn")
    from starlette.middleware import Middleware
    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

    from ares_app.server.identity_login import IdentityLoginMiddleware
    from ares_app.server.login import LoginMiddleware
    from ares_app.server.protection import ProxyPersonMiddleware, SameOriginMiddleware, is_loopback
    from ares_app.server.security_headers import SecurityHeadersMiddleware

    proxies, password, provider = access.proxies, access.password, access.provider
    served_host = urlsplit(provider.origin).hostname if provider else "" if is_loopback(access.host) else None
    behind_https = provider is not None and provider.origin.startswith("https:")
    return [
        Middleware(ProxyPersonMiddleware, networks=proxies),
        # Behind it, since it puts the address of the browser in place of that of the proxy.
        *([Middleware(ProxyHeadersMiddleware, trusted_hosts=proxies)] if proxies else []),
        Middleware(SecurityHeadersMiddleware, behind_https=behind_https),
        Middleware(SameOriginMiddleware, served_host=served_host),
        *([Middleware(IdentityLoginMiddleware, provider=provider)] if provider else []),
        *([Middleware(LoginMiddleware, password=password)] if password else []),
    ]


def _parse_proxies(texts: Sequence[str]) -> list[str]:
    try:
        return [str(ip_network(text.strip(), strict=False)) for text in texts]
    except ValueError as error:
        remedy = "give addresses or networks such as 10.0.0.2 or 10.0.0.0/24"
        raise RequestError("a trusted proxy cannot be read", f"{error}; {remedy}") from None


def _log_to_stderr() -> None:
    """Print a line on standard error for every log-in and every failed one, with its time in UTC."""
    logger = logging.getLogger("ares.login")
    if logger.handlers:
        return
    handler = logging.StreamHandler()
    formatter = logging.Formatter("%(asctime)sZ ARES: %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def _make_lifespan(
    workspace: Workspace, preload: Callable[[], None]
) -> Callable[[st.App], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: st.App) -> AsyncIterator[None]:
        """Load what the first page needs while the browser is still connecting."""
        if workspace.stores.is_writable:
            with suppress(AresError, OSError):  # it is tried again with the next job
                clean_jobs(workspace.stores)
        threading.Thread(target=preload, name="preload", daemon=True).start()
        yield None

    return lifespan


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


# How long the server may take to end.
_CLOSE_SECONDS = 10.0


def start_background_dashboard(
    workspace: Workspace,
    pages: ServedPages,
    *,
    host: str,
    port: int,
    open_browser: bool,
) -> Dashboard:
    """Serve a workspace in the background until it is closed or the process ends. Raises as `ares_app.server.serve`."""
    options = {"host": host, "port": port}
    # The settings may hold a password: they are passed by a pipe.
    message = (workspace.location, workspace.settings, pages, options)
    process = start_module_process("ares_app.server.asgi", [], message, stdout=subprocess.PIPE)
    address = _read_address(process)
    if open_browser:
        webbrowser.open(address)
    return Dashboard(url=address, close=lambda: _end_process(process))


def _read_address(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout
    with process.stdout:
        answer = process.stdout.readline()
    if not answer:
        _end_process(process)
        raise RequestError("the dashboard did not start", "the lines on standard error say why")
    document: dict[str, str] = json.loads(answer)
    if "reason" in document:
        _end_process(process)
        raise RequestError(document["reason"], document["detail"])
    return document["address"]


def _end_process(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin
    process.stdin.close()
    try:
        process.wait(_CLOSE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> None:
    """Serve what standard input says until that is closed; a line on standard output says where, or why not."""
    escape_logs()
    location, settings, pages, options = pickle.load(sys.stdin.buffer)
    answers = os.dup(1)
    os.dup2(2, 1)  # nobody reads what is printed later
    try:
        workspace = open_workspace(location, settings, create=False)
        with listening(workspace, pages, **options) as (server, listener, address):
            _write_answer(answers, {"address": address})
            threading.Thread(target=_exit_with_parent, args=(server,), daemon=True).start()
            server.run(sockets=[listener])
    except AresError as error:
        _write_answer(answers, {"reason": error.reason, "detail": error.detail})


def _write_answer(descriptor: int, document: Mapping[str, str]) -> None:
    with os.fdopen(descriptor, "w") as answers:
        answers.write(json.dumps(document) + "\n")


def _exit_with_parent(server: uvicorn.Server) -> None:
    """End the server when the pipe is closed: by the parent, or by the system when the parent has ended."""
    while os.read(0, 1):
        pass
    server.should_exit = True


if __name__ == "__main__":
    # The pages that come through the pipe are of the imported module, and not of the main one.
    from ares_app.server import asgi

    asgi.main()
