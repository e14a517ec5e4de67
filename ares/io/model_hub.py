"""Where the hub of models is, and what it answers."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ares.errors import RequestError

_HUB = "https://huggingface.co"
_LARGEST_DOCUMENT = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class HubAnswer:
    """What the hub answers.

    Attributes:
        status: Status of HTTP; an error is an answer, too.
        content: The document that was asked for; b"" with an error.
    """

    status: int
    content: bytes = b""


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


def ask_hub(seconds: float, path: str = "") -> HubAnswer:
    """What the hub answers in so many seconds, the look-up of its name included.

    Args:
        seconds: The longest that is waited.
        path: Path of a document; "" to see whether it answers at all.

    Raises:
        ConnectionError: It does not answer; the message says why.
        RequestError: As `hub_constants`.
    """
    request = Request(f"{hub_url()}{path}", method="GET" if path else "HEAD")
    answers: list[HubAnswer] = []
    reasons: list[str] = []

    def ask() -> None:
        try:
            with urlopen(request, timeout=seconds) as response:
                answers.append(HubAnswer(status=response.status, content=response.read(_LARGEST_DOCUMENT)))
        except HTTPError as error:
            answers.append(HubAnswer(status=error.code))
        except (OSError, ValueError, HTTPException) as error:
            reasons.append(str(getattr(error, "reason", error)))

    # A name server that does not answer is not bounded by the timeout of the connection.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    if not answers:
        raise ConnectionError(reasons[0] if reasons else f"no answer within {seconds:g} s")
    return answers[0]
