"""Messages of a websocket: each comes when the script has run the reactions to the one before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ares_app.server.message_order import CONNECTION_HEADER, MessageOrderMiddleware, release_next_message

# Messages of Streamlit as it encodes them: a click, what a part of the page sends by itself, and a heartbeat.
_CLICK = b"\x5a\x05\x0a\x03a=%d"
_AUTOMATIC, _HEARTBEAT = b"\x5a\x05\x2a\x01f\x30\x01", b"\x8a\x01\x00"

# A number of 34 bits where Streamlit has a message: no such piece of memory is made.
_NUMBER_FOR_BYTES = b"\x58\xff\xff\xff\xff\x3f"


def _click(number: int) -> bytes:
    return _CLICK % number


class _Tab:
    """An application that notes what reaches it, behind the middleware and a browser that sends all at once."""

    def __init__(self, sent: Sequence[bytes], most_wait_seconds: float = 300.0) -> None:
        self.seen: list[bytes] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self._sent = iter(sent)
        self._middleware = MessageOrderMiddleware(self._application, most_wait_seconds)

    async def run(self, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        await self._middleware({"type": "websocket", "headers": list(headers)}, self._receive, self._send)

    @property
    def connection(self) -> str:
        return dict(self.headers)[CONNECTION_HEADER.encode()].decode()

    async def _application(self, scope: Any, receive: Any, send: Any) -> None:
        self.headers = scope["headers"]
        while (message := await receive())["type"] != "websocket.disconnect":
            self.seen.append(message["bytes"])

    async def _receive(self) -> dict[str, Any]:
        data = next(self._sent, None)
        return (
            {"type": "websocket.disconnect"} if data is None else {"type": "websocket.receive", "bytes": data}
        )

    async def _send(self, message: Any) -> None: ...


async def _settle() -> None:
    """Let all tasks go as far as they can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_click_waits_for_the_reactions_to_the_one_before() -> None:
    async def click_three_times() -> None:
        tab = _Tab([_click(1), _click(2), _click(3)])
        task = asyncio.create_task(tab.run())
        for count in (1, 2):
            await _settle()
            assert tab.seen == [_click(number + 1) for number in range(count)]
            await asyncio.to_thread(release_next_message, tab.connection)
        await task
        assert len(tab.seen) == 3
        release_next_message(tab.connection)  # of a tab that was closed

    asyncio.run(click_three_times())


@pytest.mark.parametrize("before", [_AUTOMATIC, _HEARTBEAT, b"\xff\xff", b"", _NUMBER_FOR_BYTES])
def test_no_click_waits_for_a_message_that_starts_no_reaction(before: bytes) -> None:
    async def send_both() -> None:
        tab = _Tab([before, _click(1)])
        task = asyncio.create_task(tab.run())
        await _settle()
        assert tab.seen == [before, _click(1)]
        await task

    asyncio.run(send_both())


def test_a_click_that_no_script_follows_holds_back_the_next_for_some_time_only() -> None:
    tab = _Tab([_click(1), _click(2)], most_wait_seconds=0.01)
    asyncio.run(tab.run())
    assert tab.seen == [_click(1), _click(2)]


def test_a_browser_cannot_speak_for_another_connection() -> None:
    tab = _Tab([])
    asyncio.run(tab.run([(b"X-Ares-Connection", b"1"), (b"host", b"h")]))
    assert [name for name, _ in tab.headers] == [b"host", CONNECTION_HEADER.encode()]
