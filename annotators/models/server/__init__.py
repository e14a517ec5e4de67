"""Vision-language models behind an OpenAI-compatible server: requests, retries, concurrency and replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.models.server.concurrency import ServerConcurrency
    from annotators.models.server.software import (
        ServedModel,
        describe_served_model,
        recall_served_model,
        remember_served_model,
    )
    from annotators.models.server.vlm import OpenAiVlm

__all__ = [
    "OpenAiVlm",
    "ServedModel",
    "ServerConcurrency",
    "describe_served_model",
    "recall_served_model",
    "remember_served_model",
]

__getattr__ = lazy_exports(__name__)
