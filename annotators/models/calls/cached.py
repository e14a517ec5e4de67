"""A model on this machine whose replies are kept: a batch asks it only what it was not asked before."""

from __future__ import annotations

from collections.abc import Sequence

from annotators.models.base import Capability, Vlm, VlmFailure, VlmReply, VlmRequest
from annotators.models.calls.reply_cache import ReplyCache, request_key


class CachedVlm:
    """Fills the protocol `annotators.models.base.Vlm` by another model and a cache of its replies.

    Args:
        vlm: The model.
        cache: Its replies.
        max_new_tokens: Length limit of one reply.
    """

    def __init__(self, vlm: Vlm, cache: ReplyCache, max_new_tokens: int) -> None:
        self._vlm, self._cache, self._max_new_tokens = vlm, cache, max_new_tokens
        self.name, self.family = vlm.name, vlm.family
        self.batch_size, self.workers = vlm.batch_size, vlm.workers
        self.capabilities: frozenset[Capability] = vlm.capabilities
        self.settings = vlm.settings

    def ask(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | VlmFailure]:
        """One reply or failure per request."""
        keys = [request_key(self.name, request, self._max_new_tokens) for request in requests]
        known: dict[str, VlmReply | VlmFailure] = {
            key: reply for key in keys if (reply := self._cache.get(key)) is not None
        }
        missing = {key: request for key, request in zip(keys, requests, strict=True) if key not in known}
        replies = dict(zip(missing, self._vlm.ask(list(missing.values())), strict=True)) if missing else {}
        self._cache.put({key: reply for key, reply in replies.items() if isinstance(reply, VlmReply)})
        for failure in replies.values():
            if isinstance(failure, VlmFailure):
                self._cache.book(failure)
        known |= replies
        return [known[key] for key in keys]
