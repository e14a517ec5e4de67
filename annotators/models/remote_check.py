"""Asks the server or the hub of a model whether it has the model; every request ends after some seconds."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

_TIMEOUT_SECONDS = 5.0
_HUB = "https://huggingface.co"


def check_server(name: str, url: str, key: str) -> str:
    """Whether an OpenAI-compatible server has a model, in a few words.

    Args:
        name: The server's name of the model.
        url: Base URL of the server.
        key: Key for it, or "".
    """
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        document = get_json(f"{url.rstrip('/')}/models", headers)
    except HTTPError as error:
        return f"the server answers {error.code}"
    except (OSError, ValueError) as error:
        return f"the server cannot be reached: {_reason(error)}"
    served = [str(entry.get("id")) for entry in model_entries(document)]
    if name in served:
        return "the server has it"
    return f"the server has {', '.join(served[:3]) or 'no model'}" + (" and more" if len(served) > 3 else "")


def check_hub(hub_id: str) -> str:
    """Whether the hub has a model, in a few words."""
    try:
        document = get_json(f"{_endpoint()}/api/models/{quote(hub_id)}", {})
    except HTTPError as error:
        return "the hub does not have it" if error.code in (401, 404) else f"the hub answers {error.code}"
    except (OSError, ValueError) as error:
        return f"the hub cannot be reached: {_reason(error)}"
    return (
        "the hub has it, on request"
        if isinstance(document, dict) and document.get("gated")
        else "the hub has it"
    )


def _endpoint() -> str:
    try:
        from huggingface_hub import constants
    except ImportError:
        return _HUB
    return str(constants.ENDPOINT)


def get_json(url: str, headers: dict[str, str]) -> Any:
    with urlopen(Request(url, headers=headers), timeout=_TIMEOUT_SECONDS) as response:
        return json.loads(response.read(2**20))


def model_entries(document: Any) -> list[dict[str, Any]]:
    entries = document.get("data") if isinstance(document, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", error))[:200]
