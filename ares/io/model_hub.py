"""Where the hub of models is, and whether it answers."""

from __future__ import annotations

import threading
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ares.errors import RequestError

_HUB = "https://huggingface.co"


def hub_url() -> str:
    """Address of the hub, as its client has it. Raises as `hub_constants`."""
    constants = hub_constants()
    return str(constants.ENDPOINT) if constants else _HUB


def hub_constants() -> Any | None:
    """What the hub's client reads from the environment; None where the client is not installed.

    Raises RequestError for an address that the client cannot read.
    """
    try:
        from huggingface_hub import constants
    except ImportError:
        return None
    except ValueError as error:
        raise RequestError("HF_ENDPOINT cannot be read", str(error)) from None
    return constants


def ask_hub(seconds: float) -> None:
    """Wait so many seconds for an answer of the hub, the look-up of its name included; an error is an answer, too.

    Args:
        seconds: The longest that is waited.

    Raises:
        ConnectionError: It does not answer; the message says why.
        RequestError: As `hub_constants`.
    """
    request = Request(hub_url(), method="HEAD")
    reasons: list[str] = []

    def ask() -> None:
        try:
            urlopen(request, timeout=seconds).close()
            reasons.append("")
        except HTTPError:
            reasons.append("")
        except (OSError, ValueError, HTTPException) as error:
            reasons.append(str(getattr(error, "reason", error)))

    # A name server that does not answer is not bounded by the timeout of the connection.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    if reasons != [""]:
        raise ConnectionError(reasons[0] if reasons else f"no answer within {seconds:g} s")
