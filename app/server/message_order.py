"""A browser's messages reach Streamlit one at a time: each when the reactions to the one before have run.

For every message Streamlit ends the script of the one before, also before or within its reactions: the click that it
brought would be lost, and the address that it has written could be undone by the end of the older script.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


# Header of a websocket that says which one it is; a script reads it, a browser cannot set it.
CONNECTION_HEADER = "x-ares-connection"
# A click in a part of the page that has gone meanwhile is followed by no script. The next message waits this long.
_MOST_WAIT_SECONDS = 10.0
# Numbers of fields of Streamlit's messages, and kinds of fields in the encoding of protocol buffers.
_RERUN_SCRIPT, _IS_AUTOMATIC = 11, 6
_VARINT, _BYTES, _SIZES = 0, 2, {1: 8, 5: 4}

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
    try:
        fields = [value for number, value in _read_fields(data) if number == _RERUN_SCRIPT]
        state = next((value for value in fields if isinstance(value, bytes)), b"")
        automatic = [value for number, value in _read_fields(state) if number == _IS_AUTOMATIC]
    except ValueError:  # no message of Streamlit, which says so
        return False
    return bool(state) and not any(automatic)


def _read_fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Numbers and values of the fields of a message of protocol buffers. Raises ValueError for what is none."""
    position = 0
    while position < len(data):
        key, position = _read_varint(data, position)
        kind = key & 7
        if kind == _VARINT:
            value, position = _read_varint(data, position)
            yield key >> 3, value
            continue
        size = _SIZES.get(kind, 0)
        if kind == _BYTES:
            size, position = _read_varint(data, position)
        yield key >> 3, data[position : position + size]
        position += size


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the position behind it."""
    number = 0
    for index, byte in enumerate(data[position : position + 10]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number, position + index + 1
    raise ValueError("a number has no end")
