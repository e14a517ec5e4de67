"""The order of a page's messages: each waits until the script before it has run.

A browser's messages reach Streamlit one at a time: each when the reactions to the one before have run. For every
message Streamlit ends the script of the one before, also before or within its reactions: the click that it brought
would be lost, and the address that it has written could be undone by the end of the older script.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


# Header of a websocket that says which one it is; a script reads it, a browser cannot set it.
CONNECTION_HEADER = "x-ares-connection"

# A click in a part of the page that has gone meanwhile is followed by no script. The next message waits this long.
_MOST_WAIT_SECONDS = 10.0

_numbers = count(1)

# By connection: what lets its next message pass.
_releases: dict[str, Callable[[], None]] = {}


def release_next_message(connection: str) -> None:
    """Let the next message of a connection pass, from any thread: the reactions to the last one have run.

    Args:
        connection: The header of its websocket; unknown for one that is closed.
    """
    if release := _releases.get(connection):
        release()


class MessageOrderMiddleware:
    """Holds back the messages of each websocket until the application has run the reactions to the one before.

    Args:
        app: Application that calls `release_next_message` when it has.
        most_wait_seconds: A message waits no longer.
    """

    def __init__(self, app: ASGIApp, most_wait_seconds: float = _MOST_WAIT_SECONDS) -> None:
        self._app, self._most_wait_seconds = app, most_wait_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        loop, is_free, connection = asyncio.get_running_loop(), asyncio.Event(), str(next(_numbers))
        is_free.set()

        async def receive_next() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive":
                with suppress(TimeoutError):
                    await asyncio.wait_for(is_free.wait(), self._most_wait_seconds)
                if _is_followed_by_script(message.get("bytes") or b""):
                    is_free.clear()
            return message

        _releases[connection] = lambda: _set_from_thread(loop, is_free)
        try:
            await self._app(_named_scope(scope, connection), receive_next, send)
        finally:
            del _releases[connection]


def _set_from_thread(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the server has ended, and its loop with it
        loop.call_soon_threadsafe(event.set)


def _named_scope(scope: Scope, connection: str) -> Scope:
    """The scope with the number of the connection, and with no header of a browser that looks like it."""
    name = CONNECTION_HEADER.encode()
    others = [(key, value) for key, value in scope["headers"] if key.lower() != name]
    return {**scope, "headers": [*others, (name, connection.encode())]}


def _is_followed_by_script(data: bytes) -> bool:
    """Whether a message is a click or a new address; what a part of the page sends by itself every second is none."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from streamlit.proto.BackMsg_pb2 import BackMsg

    try:
        message = BackMsg.FromString(data)
    except DecodeError:  # no message of Streamlit, which says so
        return False
    return message.HasField("rerun_script") and not message.rerun_script.is_auto_rerun
