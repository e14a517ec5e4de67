"""A signal that ends the server is one: a watch of the process sees no second."""

from __future__ import annotations

import os
import signal
from typing import Any

from ares_app.server.asgi import _make_server


async def _answer_nothing(scope: Any, receive: Any, send: Any) -> None:
    pass


def test_a_signal_that_ends_the_server_is_handled_once_and_sent_no_more() -> None:
    handled: list[int] = []
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    handler = signal.signal(signal.SIGTERM, lambda number, frame: handled.append(number))
    watched = signal.set_wakeup_fd(write_end)
    try:
        with _make_server(_answer_nothing).capture_signals():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.set_wakeup_fd(watched)
        signal.signal(signal.SIGTERM, handler)
        os.close(write_end)
    with os.fdopen(read_end, "rb") as received:
        assert (handled, received.read()) == ([signal.SIGTERM], bytes([signal.SIGTERM]))
