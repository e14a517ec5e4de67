"""Whether the model hub can be reached, and through which proxy; the question ends after two seconds."""

from __future__ import annotations

import threading
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, getproxies, urlopen

_TIMEOUT_SECONDS = 2.0
_HUB = "https://huggingface.co"


def describe_network() -> str:
    """The hub, whether it answers, and the proxies of the environment without their passwords."""
    proxies = {name: _without_password(url) for name, url in getproxies().items() if name != "no"}
    listed = ", ".join(f"{name} {url}" for name, url in sorted(proxies.items()))
    return f"{_describe_hub()}; {f'proxy {listed}' if listed else 'no proxy'}"


def _describe_hub() -> str:
    url, is_offline = _hub()
    if is_offline:
        return f"{url} is switched off (HF_HUB_OFFLINE)"
    answers: list[str] = []
    # A name server that does not answer is not bounded by the timeout of the connection.
    thread = threading.Thread(target=lambda: answers.append(_ask(url)), daemon=True)
    thread.start()
    thread.join(_TIMEOUT_SECONDS)
    return f"{url} {answers[0] if answers else f'did not answer within {_TIMEOUT_SECONDS:.0f} s'}"


def _hub() -> tuple[str, bool]:
    """Address of the hub, and whether its client is switched off."""
    try:
        from huggingface_hub import constants
    except ImportError:
        return _HUB, False
    return str(constants.ENDPOINT), bool(constants.HF_HUB_OFFLINE)


def _ask(url: str) -> str:
    try:
        urlopen(Request(url, method="HEAD"), timeout=_TIMEOUT_SECONDS).close()
    except HTTPError:
        return "answers"  # even if with an error
    except (OSError, ValueError) as error:
        return f"cannot be reached ({getattr(error, 'reason', error)})"
    return "answers"


def _without_password(url: str) -> str:
    parts = urlsplit(url if "://" in url else f"//{url}")
    return f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
