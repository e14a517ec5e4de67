"""Bounds on the connections of the server: what sends no request, or stops in the middle of one, is closed."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

# A connection has so long to send the head of a request, and between two parts of its body.
_HEAD_SECONDS, _BODY_SECONDS = 10.0, 30.0
# Connections without a request, of which the oldest are closed.
_MOST_WAITING = 256


class ConnectionBounds:
    """The connections of one server: those that send no request, or stop in the middle of one, are closed.

    Connections are protocols of uvicorn, with their event loop, transport and current cycle of request and response.
    """

    def __init__(self) -> None:
        # Without a request, the oldest first.
        self._waiting: OrderedDict[Any, None] = OrderedDict()
        self._timers: dict[Any, asyncio.TimerHandle] = {}

    def watch(self, connection: Any) -> None:
        """Set the time until which more must come, for what is missing of a request."""
        cycle = connection.cycle
        if connection not in connection.connections:  # it is closed, or a websocket now
            self.forget(connection)
        elif cycle is None or cycle.response_complete:
            self.add_waiting(connection)
            if connection not in self._timers:  # not again with each byte, as a head may come byte by byte
                close = connection.transport.close
                self._timers[connection] = connection.loop.call_later(_HEAD_SECONDS, close)
        else:
            self.forget(connection)
            if cycle.more_body:
                timer = connection.loop.call_later(_BODY_SECONDS, self._end_body, connection)
                self._timers[connection] = timer

    def add_waiting(self, connection: Any) -> None:
        """Count a connection that has no request now; the oldest of too many is closed."""
        self._waiting.setdefault(connection)
        if len(self._waiting) > _MOST_WAITING:
            oldest, _ = self._waiting.popitem(last=False)
            oldest.transport.close()

    def forget(self, connection: Any) -> None:
        """Let a connection take its time: it is closed, or its request is answered."""
        self._waiting.pop(connection, None)
        if (timer := self._timers.pop(connection, None)) is not None:
            timer.cancel()

    def _end_body(self, connection: Any) -> None:
        del self._timers[connection]
        if connection.flow.read_paused:  # this server has not read yet what came
            self.watch(connection)
        elif connection.cycle.more_body and not connection.cycle.response_complete:
            connection.transport.close()


def make_bounded_protocol() -> type[asyncio.Protocol]:
    """The HTTP protocol of one server, with `ConnectionBounds`."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    bounds = ConnectionBounds()
    base: Any = AutoHTTPProtocol  # its attributes are not part of its type

    class BoundedProtocol(base):  # type: ignore[misc]
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            bounds.watch(self)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            bounds.watch(self)

        def on_response_complete(self) -> None:
            super().on_response_complete()  # which gives it some seconds for the next request
            if self in self.connections and self.cycle.response_complete:
                bounds.add_waiting(self)

        def connection_lost(self, exc: Exception | None) -> None:
            bounds.forget(self)
            super().connection_lost(exc)

    protocol: type[asyncio.Protocol] = BoundedProtocol
    return protocol
