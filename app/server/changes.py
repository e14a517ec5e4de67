"""Tells open pages what others do: a socket that sends the version of the data and the jobs that run."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from ares.errors import AresError

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.websockets import WebSocket

    from ares.episode import Json

CHANGES_ADDRESS = "/api/changes"
# How often a change is looked for; all pages share one look.
_SECONDS = 1.0

State = Mapping[str, "Json"]


class _SharedState:
    """The newest state, read once for all sockets.

    Args:
        read: Reads it; raises AresError where the store does not answer, which changes nothing.
    """

    def __init__(self, read: Callable[[], State]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._state: State = {}
        self._read_at = 0.0

    def get(self) -> State:
        """The state, at most `_SECONDS` old."""
        with self._lock:
            if time.monotonic() - self._read_at >= _SECONDS:
                with suppress(AresError):
                    self._state = self._read()
                self._read_at = time.monotonic()
            return self._state


def build_changes_route(read: Callable[[], State]) -> BaseRoute:
    """The route of the socket.

    Args:
        read: Reads the state, a small JSON object.
    """
    from starlette.routing import WebSocketRoute

    shared = _SharedState(read)

    async def answer(socket: WebSocket) -> None:
        await socket.accept()
        watching = asyncio.create_task(_send_changes(socket, shared))
        try:
            while (await socket.receive())["type"] != "websocket.disconnect":
                pass  # a page says nothing here
        finally:
            watching.cancel()

    return WebSocketRoute(CHANGES_ADDRESS, answer)


async def _send_changes(socket: WebSocket, shared: _SharedState) -> None:
    from anyio import to_thread

    sent: State | None = None
    while True:
        state = await to_thread.run_sync(shared.get)
        if state != sent:
            await socket.send_json(state)
            sent = state
        await asyncio.sleep(_SECONDS)
