"""Replies of models that are stored in a workspace, so that the same question is paid once."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ares.annotation import Cost
from ares.store import MODEL_REPLIES, new_spending_key, spending_document
from ares_annotators.models.base import MAX_IMAGE_SIDE, Capability, Vlm, VlmFailure, VlmReply, VlmRequest

if TYPE_CHECKING:
    from ares.store import AnnotationStore


# Raised when the images or texts that a back end makes of a request change.
_VERSION = 1


def hash_model_request(model: str, request: VlmRequest, max_tokens: int) -> str:
    """Hash of all that a reply depends on, 32 hex digits.

    Args:
        model: Portable name of the model.
        request: The request, its pixels included.
        max_tokens: Length limit where the request has none.
    """
    digest = hashlib.blake2b(digest_size=16)
    text = {
        "version": _VERSION,
        "model": model,
        "system": request.system,
        "prompt": request.prompt,
        "schema": request.schema,
        "choices": list(request.choices),
        "probabilities": request.probabilities,
        "samples": request.samples,
        "temperature": request.temperature,
        "seed": request.seed,
        "max_tokens": request.max_tokens or max_tokens,
        "clip": request.clip,
        "max_image_side": MAX_IMAGE_SIDE,
        "shapes": [list(image.shape) for image in request.images],
    }
    digest.update(json.dumps(text, sort_keys=True).encode())
    for image in request.images:
        digest.update(image.tobytes())
    return digest.hexdigest()


class ReplyCache:
    """Replies in the documents of a workspace, and what they have cost; safe to use from threads and processes.

    Failures are not kept: a failed question may be asked again. Their cost is booked.

    Args:
        log: Where they are kept.
        model: Name of the model, under which its costs are booked.
    """

    def __init__(self, log: AnnotationStore, model: str) -> None:
        self._log = log
        self._writer = _GroupedWrites(log, new_spending_key(model))
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> VlmReply | None:
        """The reply of a request, with nothing paid for it, or None."""
        document = self._log.get_document(MODEL_REPLIES, key)
        return _from_document(document) if isinstance(document, dict) else None

    def seconds(self, key: str) -> float | None:
        """How long the server took for a reply that is kept, or None where that was not measured."""
        document = self._log.get_document(MODEL_REPLIES, key)
        seconds = document.get("seconds") if isinstance(document, dict) else None
        return None if seconds is None else float(seconds)

    def add_seconds(self, key: str, seconds: float) -> None:
        """Note with a reply that is kept how long the server took for it."""
        document = self._log.get_document(MODEL_REPLIES, key)
        if isinstance(document, dict):
            self._log.put_documents(MODEL_REPLIES, {key: {**document, "seconds": seconds}})

    def put(self, replies: Mapping[str, VlmReply]) -> None:
        """Keep new replies by key, and book their cost; they are stored when this returns."""
        documents = {key: _to_document(reply) for key, reply in replies.items()}
        self._writer.write(documents, sum((reply.cost for reply in replies.values()), Cost()))

    def book(self, failure: VlmFailure) -> None:
        """Book the cost of a question that failed."""
        if failure.cost.calls:
            self._writer.write({}, failure.cost)

    def get_or_ask(self, key: str, ask: Callable[[], VlmReply | VlmFailure]) -> VlmReply | VlmFailure:
        """The reply that is kept, or that of `ask`, which is kept; of equal requests at a time one is asked."""
        known = self.get(key)
        if known:
            return known
        with self._exclusive(key):
            known = self.get(key)
            if known:
                return known
            reply = ask()
            if isinstance(reply, VlmReply):
                self.put({key: reply})
            else:
                self.book(reply)
            return reply

    @contextmanager
    def _exclusive(self, key: str) -> Iterator[None]:
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            yield
        with self._lock:
            self._locks.pop(key, None)


class _GroupedWrites:
    """Writes of several threads at a time become one transaction, with what all calls so far have cost.

    Args:
        log: Where documents are stored.
        spending_key: Key of the document of the cost.
    """

    def __init__(self, log: AnnotationStore, spending_key: str) -> None:
        self._log, self._spending_key = log, spending_key
        self._waiting: dict[str, Any] = {}
        self._cost = Cost()
        self._writing = threading.Lock()
        self._lock = threading.Lock()

    def write(self, documents: Mapping[str, Any], cost: Cost) -> None:
        """Store documents and add their cost; whoever comes first stores those of all that wait."""
        with self._lock:
            self._cost = self._cost + cost
            self._waiting |= documents
            self._waiting[self._spending_key] = spending_document(self._cost)
        with self._writing:
            with self._lock:
                waiting, self._waiting = self._waiting, {}
            if waiting:
                self._log.put_documents(MODEL_REPLIES, waiting)


def _to_document(reply: VlmReply) -> dict[str, Any]:
    return {
        "text": reply.text,
        "samples": list(reply.samples),
        "probabilities": dict(reply.probabilities),
        "cost": asdict(reply.cost),
    }


def _from_document(document: Mapping[str, Any]) -> VlmReply:
    return VlmReply(
        text=document["text"],
        samples=tuple(document["samples"]),
        probabilities=document["probabilities"],
        cost=Cost(**document["cost"]),
        was_kept=True,
    )


class CachedVlm:
    """Fills the protocol `ares_annotators.models.base.Vlm` by another model and a cache of its replies.

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
        keys = [hash_model_request(self.name, request, self._max_new_tokens) for request in requests]
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
