"""A vision-language model behind an OpenAI-compatible server, and which software serves it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ares.annotation import Cost, short_hash
from ares.episode import Json
from ares.errors import ModelError
from ares.io import read_server_address
from ares_annotators.base import Budget, make_budget_spent_error
from ares_annotators.models.base import IMAGE_SETTINGS, VlmFailure, VlmReply, VlmRequest, price_usd
from ares_annotators.models.model_families import find_family
from ares_annotators.models.paid_calls import ModelSpending, ReadableImages
from ares_annotators.models.reply_cache import ReplyCache, hash_model_request
from ares_annotators.models.server.chat_reply import CompletionReply, read_completion
from ares_annotators.models.server.chat_request import (
    ImageEncoder,
    list_server_capabilities,
    make_request_body,
)
from ares_annotators.models.server.concurrency import MOST_CALLS
from ares_annotators.models.server.connection import ServerAnswer, ServerConnection

if TYPE_CHECKING:
    from ares.settings import Price
    from ares.store import Stores


_COLLECTION = "served_models"
_TIMEOUT_SECONDS = 5.0
# What servers say of themselves in `owned_by`, and the name of the dialect.
_SOFTWARE = {"vllm": "vllm", "sglang": "sglang"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model as its server describes it.

    Attributes:
        software: "vllm", "sglang", or another name, such as that of a provider; "" when it does not say.
        root: Folder or hub id that the server loaded it from, or "".
    """

    software: str = ""
    root: str = ""

    def to_settings(self) -> dict[str, Json]:
        """What the producer of annotations says of the server."""
        known: dict[str, Json] = {"server": self.software, "served_from": self.root}
        return {name: value for name, value in known.items() if value}


class _RefusingRedirects(HTTPRedirectHandler):
    """Leaves a redirect unanswered, which `urlopen` then raises as an HTTPError."""

    def redirect_request(self, *_: object) -> None:
        """None: no other address gets the headers of the request."""


def get_json(url: str, headers: dict[str, str]) -> Any:
    """The JSON document at an address.

    Args:
        url: The address.
        headers: Sent with the request. With any, no redirect is followed: they may hold a key.

    Raises:
        HTTPError: The server refuses, or redirects a request with headers.
        OSError: It cannot be reached, or does not answer as HTTP.
        ValueError: The address cannot be read, or the answer is no JSON or nested too deeply.
    """
    read_server_address(url)
    opener = build_opener(_RefusingRedirects) if headers else build_opener()
    try:
        with opener.open(Request(url, headers=headers), timeout=_TIMEOUT_SECONDS) as response:
            return json.loads(response.read(2**20))
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None
    except HTTPException as error:
        raise OSError(f"no answer of HTTP: {error}") from None


def list_served_models(document: Any) -> list[dict[str, Any]]:
    entries = document.get("data") if isinstance(document, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def describe_served_model(url: str, model: str, key: str) -> ServedModel:
    """Ask a server for its models; a server without such a list is described by nothing."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        document = get_json(f"{url.rstrip('/')}/models", headers)
    except (HTTPError, OSError, ValueError):
        return ServedModel()
    entry = next((entry for entry in list_served_models(document) if entry.get("id") == model), {})
    owner, root = str(entry.get("owned_by") or ""), str(entry.get("root") or "")
    return ServedModel(software=_SOFTWARE.get(owner.lower(), owner), root="" if root == model else root)


def remember_served_model(stores: Stores, spec: str, served: ServedModel) -> None:
    """Store what a server says of a model; estimates, which ask no server, read it."""
    if recall_served_model(stores, spec) != served:
        stores.annotations.put_documents(_COLLECTION, {short_hash(spec): asdict(served)})


def recall_served_model(stores: Stores, spec: str) -> ServedModel:
    """What a server said of a model when it was asked last; nothing where it never was."""
    document = stores.annotations.get_document(_COLLECTION, short_hash(spec))
    return ServedModel(**document) if isinstance(document, dict) else ServedModel()


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreparedCall:
    """A request as it is sent.

    Attributes:
        request: The request; the pixels of its images may have been released.
        key: Key of its reply in the cache, or "" without a cache.
        body: What is sent.
    """

    request: VlmRequest
    key: str
    body: bytes


class OpenAiVlm:
    """A model behind a server; fills the protocol `ares_annotators.models.base.Vlm`.

    Args:
        model: The server's name of the model.
        connection: To the server; it holds the key.
        max_new_tokens: Length limit of one reply.
        price: What its tokens cost, or None where that is not known.
        served: What the server says of itself.
        budget: Pays for its calls; None for no limit.
        cache: Keeps its replies, or None.
    """

    batch_size = 1
    # Some calls are prepared or read while others are in flight.
    workers = 2 * MOST_CALLS

    def __init__(
        self,
        model: str,
        connection: ServerConnection,
        max_new_tokens: int,
        price: Price | None = None,
        served: ServedModel | None = None,
        budget: Budget | None = None,
        cache: ReplyCache | None = None,
    ) -> None:
        self.served = served or ServedModel()
        self.name, self.family = model, find_family(model).name
        self.capabilities = list_server_capabilities(self.served.software)
        self.settings = {**IMAGE_SETTINGS, **self.served.to_settings()}
        self.max_new_tokens = max_new_tokens
        self._model, self._price, self._connection = model, price, connection
        self._spending = ModelSpending(budget or Budget(None), price)
        self._cache = cache
        self._threads = ThreadPoolExecutor(MOST_CALLS, thread_name_prefix="model-call")
        # The first name that the server gives the model: another one later is another model.
        self._replied_model = ""
        self._lock = threading.Lock()

    def call_limit(self) -> int:
        """Calls that the server is given at the same time now."""
        return self._connection.concurrency.limit

    def ask(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | VlmFailure]:
        """One reply or failure per request; all are sent at once, as far as the server takes them."""
        calls = self._prepare_all(requests)
        if len(calls) == 1:
            return [self._ask(calls[0])]
        return list(self._threads.map(self._ask, calls))

    def measure_first_call(self, request: VlmRequest) -> VlmReply | VlmFailure:
        """Ask once, alone, and choose from its duration how many calls the server gets at first."""
        key, started_at = self._key(request), time.monotonic()
        (reply,) = self.ask([request])
        if isinstance(reply, VlmReply):
            seconds = self._call_seconds(key, time.monotonic() - started_at, reply.was_kept)
            self._connection.concurrency.set_first_limit(seconds, self._connection.timeout_seconds)
        return reply

    def _call_seconds(self, key: str, seconds: float, was_kept: bool) -> float:
        """Duration of a call; for a reply that an earlier run kept, what that run measured."""
        if self._cache is None:
            return seconds
        if not was_kept:
            self._cache.add_seconds(key, seconds)
            return seconds
        kept = self._cache.seconds(key)
        return self._connection.timeout_seconds if kept is None else kept

    def _key(self, request: VlmRequest) -> str:
        """Key of the reply in the cache, or "" without a cache."""
        if self._cache is None:
            return ""
        return hash_model_request(f"{self.name} {self.served.root}".strip(), request, self.max_new_tokens)

    def _prepare_all(self, requests: Sequence[VlmRequest]) -> list[_PreparedCall | VlmReply]:
        """Encode requests and release their pixels: calls that wait or are in flight hold bytes alone."""
        encoder = ImageEncoder()
        calls = [self._prepare(request, encoder) for request in requests]
        for request in requests:
            if isinstance(request.images, ReadableImages):
                request.images.release()
        return calls

    def _prepare(self, request: VlmRequest, encoder: ImageEncoder) -> _PreparedCall | VlmReply:
        """What is sent, or the reply that is kept."""
        key = self._key(request)
        known = self._cache.get(key) if self._cache else None
        if known is not None:
            return known
        body = make_request_body(request, self._model, self.served.software, self.max_new_tokens, encoder)
        return _PreparedCall(request=request, key=key, body=body)

    def _ask(self, call: _PreparedCall | VlmReply) -> VlmReply | VlmFailure:
        """The reply that is kept, or a new one that the budget pays for."""
        if isinstance(call, VlmReply):
            return call
        if self._cache is None:
            return self._pay(call)
        return self._cache.get_or_ask(call.key, lambda: self._pay(call))

    def _pay(self, prepared: _PreparedCall) -> VlmReply | VlmFailure:
        max_tokens = prepared.request.max_tokens or self.max_new_tokens
        with self._spending.call(prepared.request, max_tokens) as call:
            if not call.is_paid:
                return VlmFailure(make_budget_spent_error())
            reply = self._call(prepared.request, prepared.body)
            call.cost = reply.cost
            return reply

    def _call(self, request: VlmRequest, body: bytes) -> VlmReply | VlmFailure:
        """A server that ignores the number of samples is asked again for the rest."""
        texts: list[str] = []
        cost, reply = Cost(), CompletionReply(probabilities={})
        while len(texts) < request.samples:
            answer = self._connection.post("/chat/completions", body, self._spending.is_stopped)
            reply = self._read(answer, request)
            cost = cost + self._cost(answer, reply)
            error = self._error(answer, reply)
            if error:
                return VlmFailure(
                    error,
                    cost,
                    is_unusable_reply=reply.is_unusable,
                    has_no_probabilities=reply.has_no_probabilities
                    or (request.probabilities and answer.is_bad_request),
                    text=reply.unusable_text,
                )
            texts += reply.texts
        return VlmReply(
            text=texts[0],
            cost=cost,
            samples=tuple(texts[: request.samples]),
            probabilities=reply.probabilities,
        )

    def _read(self, answer: ServerAnswer, request: VlmRequest) -> CompletionReply:
        if answer.error:
            return CompletionReply(tokens=(0, 0), probabilities={})
        return read_completion(answer.body, request, request.max_tokens or self.max_new_tokens)

    def _error(self, answer: ServerAnswer, reply: CompletionReply) -> ModelError | None:
        if answer.error:
            return answer.error
        if reply.problem:
            return self._connection.error(reply.problem, f"{self._model}: {reply.detail}")
        with self._lock:
            self._replied_model = self._replied_model or reply.model
        if reply.model not in ("", self._model, self._replied_model):
            return self._connection.error(
                "model server answered with another model",
                f"{reply.model!r} in place of {self._replied_model!r} at {self._connection.url}",
            )
        return None

    def _cost(self, answer: ServerAnswer, reply: CompletionReply) -> Cost:
        if answer.error:
            return Cost(calls=answer.calls, unknown_calls=answer.unknown_calls)
        if reply.tokens is None:
            return Cost(calls=answer.calls, usd=None, unknown_calls=answer.unknown_calls + 1)
        return Cost(
            calls=answer.calls,
            tokens_in=reply.tokens[0],
            tokens_out=reply.tokens[1],
            usd=price_usd(self._price, *reply.tokens),
            unknown_calls=answer.unknown_calls,
        )
