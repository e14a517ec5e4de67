"""Loads the vision-language model that a spec names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ares.console import announce_if_slow
from ares.errors import RequestError, ServerError
from ares.io import ServerAddress, read_server_address
from ares_annotators.models.reply_cache import CachedVlm, ReplyCache

if TYPE_CHECKING:
    from ares.store import Stores
    from ares_annotators.base import Options
    from ares_annotators.models.base import Vlm
    from ares_annotators.models.huggingface.vlm import LocalModelOptions
    from ares_annotators.models.server.vlm import ServedModel


_CONNECT_TIMEOUT_SECONDS = 5.0


def load_vlm(spec: str, options: Options, max_new_tokens: int, stores: Stores | None = None) -> Vlm:
    """Load the vision-language model of a spec; for an estimate, a stand-in for it.

    Args:
        spec: "hf:FOLDER_OR_HUB_ID", "openai:MODEL@URL", or "stub:TEXT" for a double that replies TEXT.
        options: Device, key and price.
        max_new_tokens: Length limit of one reply.
        stores: Where the name of the model is remembered, so that an estimate knows it; None for nowhere.

    Raises:
        RequestError: The spec names no back end, or an address that cannot be read.
        ModelError: The model cannot be loaded, or its server cannot be reached.
    """
    kind, _, rest = spec.partition(":")
    if kind == "hf" and rest:
        return _load_huggingface(spec, options, max_new_tokens, stores)
    model, _, url = rest.rpartition("@")
    if kind == "openai" and model and re.match(r"https?://", url):
        return _load_served(_ServedSpec(spec, model, url), options, max_new_tokens, stores)
    if kind == "stub" and rest:
        from ares_annotators.models.doubles import RepeatingVlm

        return RepeatingVlm(rest)
    raise RequestError(
        "model spec cannot be read",
        f"{spec!r}; give hf:FOLDER, hf:ORG/NAME or openai:MODEL@http://HOST:PORT/v1",
    )


class _ServedSpec(NamedTuple):
    """A spec "openai:MODEL@URL", and its parts."""

    text: str
    model: str
    url: str


def _load_served(spec: _ServedSpec, options: Options, max_new_tokens: int, stores: Stores | None) -> Vlm:
    from ares_annotators.models.server.connection import ServerConnection
    from ares_annotators.models.server.vlm import OpenAiVlm

    address = _read_address(spec.url)
    if options.load_models:
        _check_reachable(spec.url, address)
    cache = ReplyCache(stores.annotations, spec.model) if stores and options.load_models else None
    served = _served_model(spec, options, stores)
    connection, price = ServerConnection(spec.url, options.settings.openai_api_key), options.settings.price
    return OpenAiVlm(
        spec.model, connection, max_new_tokens, price, served=served, budget=options.budget, cache=cache
    )


def _read_address(url: str) -> ServerAddress:
    try:
        address = read_server_address(url)
    except ValueError as error:
        raise RequestError("the address of the model server cannot be read", f"{url!r}: {error}") from None
    if not address.host:
        raise RequestError("the address of the model server names no host", repr(url))
    return address


def _check_reachable(url: str, address: ServerAddress) -> None:
    """Raises ServerError when nothing listens at the address: better before a run than for each of its episodes."""
    import socket

    port = address.port or (443 if address.scheme == "https" else 80)
    try:
        socket.create_connection((address.host, port), timeout=_CONNECT_TIMEOUT_SECONDS).close()
    except OSError as error:
        raise ServerError("model server cannot be reached", f"{url}: {error}") from None


def _served_model(spec: _ServedSpec, options: Options, stores: Stores | None) -> ServedModel | None:
    """What the server says of a model; for an estimate, what it said when it was asked last."""
    from ares_annotators.models.server.vlm import (
        describe_served_model,
        recall_served_model,
        remember_served_model,
    )

    if not options.load_models:
        return recall_served_model(stores, spec.text) if stores else None
    served = describe_served_model(spec.url, spec.model, options.settings.openai_api_key)
    if stores:
        remember_served_model(stores, spec.text, served)
    return served


def _load_huggingface(spec: str, options: Options, max_new_tokens: int, stores: Stores | None) -> Vlm:
    from ares_annotators.models.unloaded_models import make_unloaded_vlm, store_model_description

    local_options = _local_options(options)
    # In another number format it has another name.
    known_to = stores if local_options.dtype == "auto" else None
    if not options.load_models:
        return make_unloaded_vlm(spec, known_to)
    from ares_annotators.models.huggingface.vlm import load_huggingface

    with announce_if_slow(f"loading the model {spec}"):
        vlm: Vlm = load_huggingface(spec.removeprefix("hf:"), options.device, max_new_tokens, local_options)
    if stores is None:
        return vlm
    if known_to:
        store_model_description(stores, spec, vlm.name, vlm.family, vlm.capabilities)
    return CachedVlm(vlm, ReplyCache(stores.annotations, vlm.name), max_new_tokens)


def _local_options(options: Options) -> LocalModelOptions:
    from ares_annotators.models.huggingface.vlm import LocalModelOptions

    fields = {
        field: options.values[field] for field in LocalModelOptions.model_fields if field in options.values
    }
    return LocalModelOptions.model_validate(fields)
