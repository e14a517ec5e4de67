"""Vision-language models through transformers on this machine: schemas, choices, samples and clips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.models.huggingface.load import load_huggingface
    from annotators.models.huggingface.options import LocalModelOptions
    from annotators.models.huggingface.vlm import HuggingfaceVlm

__all__ = ["HuggingfaceVlm", "LocalModelOptions", "load_huggingface"]

__getattr__ = lazy_exports(__name__)
