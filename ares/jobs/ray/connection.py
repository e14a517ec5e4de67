"""The connection to a ray cluster: checked before ray is asked, which would try for minutes and name no reason."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from ares.errors import RequestError
from ares.extras import needs_extra

_CONNECT_TIMEOUT_SECONDS = 5.0


def load_ray() -> Any:
    """The module. Raises RequestError where it is not installed."""
    with needs_extra("ray"):
        import ray
    return ray


def first_line(error: BaseException) -> str:
    """The first line of the text of an error, or its name."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def check_reachable(address: str) -> None:
    """Raises RequestError when nothing listens at the address; ray itself would retry for a quarter of an hour."""
    parts = urlsplit(f"//{address.rpartition('://')[2]}")
    try:
        host, port = parts.hostname, parts.port
        if host and port:
            socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise unreachable_error(address, error) from None
    if host and port and "://" not in address:
        _check_token(address)


def _check_token(address: str) -> None:
    """Raises RequestError when the cluster refuses the token; ray itself would try for 20 s and name no reason."""
    from ray import _raylet, exceptions

    client: Any = _raylet  # compiled, without types
    refused = getattr(exceptions, "AuthenticationError", None)  # older versions have no tokens
    if refused is None:
        return
    try:
        with _muted_stderr():
            client.GcsClient(address=address)
    except refused:
        raise RequestError(
            "the ray cluster wants a token, which is missing or another one",
            f"RAY_ADDRESS {address!r}; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH as there",
        ) from None
    except exceptions.RayError as error:
        raise unreachable_error(address, error) from None


@contextmanager
def _muted_stderr() -> Iterator[None]:
    """Drop what C++ writes on standard error: ray repeats the error there in words of its own."""
    sys.stderr.flush()
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


def unreachable_error(address: str, error: Exception) -> RequestError:
    return RequestError("ray cannot be started or reached", f"RAY_ADDRESS {address!r}: {first_line(error)}")
