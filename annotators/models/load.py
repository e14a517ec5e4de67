"""Loads the model that a spec names, and asks it once whether its replies can be used."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from annotators.base import Preflight
from annotators.models.base import ServedVlm, Vlm, VlmFailure, VlmReply, VlmRequest
from annotators.models.reply_cache import CachedVlm, ReplyCache
from ares.console import announce_if_slow
from ares.errors import ModelError, RequestError, ServerError
from ares.registry import encoders
from ares.search import Encoder, load_encoder_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from annotators.base import Options
    from annotators.models.huggingface.vlm import LocalModelOptions
    from annotators.models.server.vlm import ServedModel
    from ares.store import Stores


_CONNECT_TIMEOUT_SECONDS = 5.0
_DEFAULT_ENCODER = "clip"
# Encoders whose names are known when their files have been read.
_MODEL_ENCODERS = ("clip", "hf")


class NamedEncoder(Encoder, Protocol):
    """An encoder that names the embedding space of its vectors.

    Attributes:
        name: Portable name with a fingerprint of the weights: letters, digits, "_" and "-".
    """

    name: str


def load_vlm(spec: str, options: Options, max_new_tokens: int, stores: Stores | None = None) -> Vlm:
    """Load the vision-language model of a spec; for an estimate, a stand-in for it.

    Args:
        spec: "hf:FOLDER_OR_HUB_ID", "openai:MODEL@URL", or "stub:TEXT" for a double that replies TEXT.
        options: Device, key and price.
        max_new_tokens: Length limit of one reply.
        stores: Where the name of the model is remembered, so that an estimate knows it; None for nowhere.

    Raises:
        RequestError: The spec names no back end.
        ModelError: The model cannot be loaded, or its server cannot be reached.
    """
    kind, _, rest = spec.partition(":")
    if kind == "hf" and rest:
        return _load_huggingface(spec, options, max_new_tokens, stores)
    model, separator, url = rest.rpartition("@")
    if kind == "openai" and model and separator and re.match(r"https?://", url):
        return _load_served(spec, options, max_new_tokens, stores)
    if kind == "stub" and rest:
        from annotators.models.doubles import RepeatingVlm

        return RepeatingVlm(rest)
    raise RequestError(
        "model spec cannot be read",
        f"{spec!r}; give hf:FOLDER, hf:ORG/NAME or openai:MODEL@http://HOST:PORT/v1",
    )


def _load_served(spec: str, options: Options, max_new_tokens: int, stores: Stores | None) -> Vlm:
    from annotators.models.server.connection import ServerConnection
    from annotators.models.server.vlm import OpenAiVlm

    model, _, url = spec.partition(":")[2].rpartition("@")
    cache = ReplyCache(stores.annotations, model) if stores and options.load_models else None
    served = _served_model(spec, model, url, options, stores)
    connection, price = ServerConnection(url, options.settings.openai_api_key), options.settings.price
    return OpenAiVlm(
        model, connection, max_new_tokens, price, served=served, budget=options.budget, cache=cache
    )


def _served_model(
    spec: str, model: str, url: str, options: Options, stores: Stores | None
) -> ServedModel | None:
    """What the server says of a model; for an estimate, what it said when it was asked last."""
    from annotators.models.server.vlm import describe_served_model, recall_served_model, remember_served_model

    if not options.load_models:
        return recall_served_model(stores, spec) if stores else None
    check_reachable(url)
    served = describe_served_model(url, model, options.settings.openai_api_key)
    if stores:
        remember_served_model(stores, spec, served)
    return served


def _load_huggingface(spec: str, options: Options, max_new_tokens: int, stores: Stores | None) -> Vlm:
    from annotators.models.model_info import make_unloaded_vlm, store_model_description

    local_options = _local_options(options)
    # In another number format it has another name.
    known_to = stores if local_options.dtype == "auto" else None
    if not options.load_models:
        return make_unloaded_vlm(spec, known_to)
    from annotators.models.huggingface.vlm import load_huggingface

    with announce_if_slow(f"loading the model {spec}"):
        vlm: Vlm = load_huggingface(spec.removeprefix("hf:"), options.device, max_new_tokens, local_options)
    if stores is None:
        return vlm
    if known_to:
        store_model_description(stores, spec, vlm.name, vlm.family, vlm.capabilities)
    return CachedVlm(vlm, ReplyCache(stores.annotations, vlm.name), max_new_tokens)


def _local_options(options: Options) -> LocalModelOptions:
    from annotators.models.huggingface.vlm import LocalModelOptions

    fields = {
        field: options.values[field] for field in LocalModelOptions.model_fields if field in options.values
    }
    return LocalModelOptions.model_validate(fields)


def load_encoder_for(spec: str, options: Options, stores: Stores) -> NamedEncoder:
    """Load the encoder of a spec; for an estimate, a stand-in for it.

    Args:
        spec: As for `load_named_encoder`.
        options: Device, and whether models are loaded.
        stores: Where the name of the model is remembered, so that an estimate knows it.

    Raises:
        ModelError: It cannot be loaded.
    """
    from annotators.models.model_info import make_unloaded_encoder, store_model_description

    is_model = find_encoder_name(spec) in _MODEL_ENCODERS
    if is_model and not options.load_models:
        return make_unloaded_encoder(spec, stores)
    encoder = load_named_encoder(spec, options.device)
    if is_model:
        store_model_description(stores, spec, encoder.name)
    return encoder


def find_encoder_name(spec: str) -> str:
    """Registry name of the encoder that loads a spec: its prefix ("hash:64") where it is one, else "clip"."""
    prefix, separator, _ = spec.partition(":")
    return prefix if separator and prefix in encoders.names() else _DEFAULT_ENCODER


def load_named_encoder(spec: str, device: str) -> NamedEncoder:
    """Load the encoder of a spec. Raises ModelError when it cannot be loaded."""
    encoder: NamedEncoder = load_encoder_model(find_encoder_name(spec), spec, device)  # type: ignore[assignment]
    return encoder


def check_reachable(url: str) -> None:
    """Raises ServerError when nothing listens at the address: better before a run than for each of its episodes."""
    import socket
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=_CONNECT_TIMEOUT_SECONDS).close()
    except OSError as error:
        raise ServerError("model server cannot be reached", f"{url}: {error}") from None


_SIDE, _GREY = 256, 128
# Calls that are prepared or read while others are in flight.
_SPARE_SHARE, _SPARE_CALLS = 1.125, 2


def grey_frames(count: int) -> NDArray[np.uint8]:
    """(count, 256, 256, 3) uint8 frames without content, for a test call."""
    import numpy as np

    return np.full((count, _SIDE, _SIDE, 3), _GREY, np.uint8)


def make_test_call(
    vlm: Vlm, request: VlmRequest, problem: Callable[[VlmReply], str] | None = None
) -> Preflight:
    """Ask a model behind a server once; a model on this machine has been loaded and costs nothing.

    Frames without content may confuse a good model: a reply that is cut or refused is a warning.

    Args:
        vlm: The model.
        request: What it is asked.
        problem: What is wrong with the form of a reply, or "".

    Raises:
        ModelError: The server does not answer, or its reply has another form.
    """
    if not isinstance(vlm, ServedVlm):
        return Preflight()
    reply = vlm.measure_first_call(request)
    if isinstance(reply, VlmFailure):
        if not reply.is_unusable_reply:
            raise type(reply.error)(f"the test call failed: {reply.error.reason}", reply.error.detail)
        return Preflight(cost=reply.cost, warnings=[f"the test call failed: {reply.error}"])
    wrong = problem(reply) if problem else ""
    if wrong:
        raise ModelError(
            "the test call cannot be used", f"{vlm.name}: {wrong}; it replied {reply.text[:200]!r}"
        )
    return Preflight(cost=reply.paid, warnings=_price_warnings(vlm, reply))


def _price_warnings(vlm: Vlm, reply: VlmReply) -> list[str]:
    if reply.was_kept or reply.cost.usd is not None or reply.cost.unknown_calls:
        return []
    return [
        f"the price of {vlm.name} is not known, so usd is not either: set ARES_PRICE=IN,OUT, which is 0,0 for a "
        "server of your own"
    ]


def call_limit(vlm: Vlm, calls_per_work: float = 1.0) -> Callable[[], int] | None:
    """How many works are to be in hand now so that a server gets as many calls as it takes; None for other models."""
    if not isinstance(vlm, ServedVlm):
        return None
    return lambda: math.ceil(vlm.call_limit() * _SPARE_SHARE / calls_per_work) + _SPARE_CALLS
