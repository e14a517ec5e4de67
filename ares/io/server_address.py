"""Reads the address of a server as a person gives it."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit


class ServerAddress(NamedTuple):
    """A server of a URL.

    Attributes:
        scheme: Such as "http"; "" where the text has none.
        host: Its name or its address, or "" without one.
        port: Its port, or None where the text names none.
    """

    scheme: str
    host: str
    port: int | None


def read_server_address(text: str) -> ServerAddress:
    """The server of a URL, or of HOST:PORT alone. Raises ValueError, whose text says what is wrong with it."""
    if re.search(r"[\s\x00-\x1f\x7f]", text):
        raise ValueError("there is a space or a control character in it")
    parts = urlsplit(text if "://" in text else f"//{text}")
    host = parts.hostname or ""
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError(f"{host!r} is not the name of a host") from None
    return ServerAddress(parts.scheme, host, parts.port)
