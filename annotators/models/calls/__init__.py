"""What every call of a model passes: replies that are kept, and the money of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.models.calls.cached import CachedVlm
    from annotators.models.calls.reply_cache import ReplyCache, request_key
    from annotators.models.calls.spending import Spending

__all__ = ["CachedVlm", "ReplyCache", "Spending", "request_key"]

__getattr__ = lazy_exports(__name__)
