"""Vlm: what a vision-language model is asked and replies, and which back end a spec names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ares.annotation import Cost
from ares.errors import AresError, ModelError, RequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from annotators.base import Options
    from ares.settings import Price

_KNOCK_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ask:
    """One question to a model.

    Attributes:
        images: RGB images, each (H, W, 3) uint8, in order.
        prompt: Text after the images.
        system: What role the model has, or "".
    """

    images: Sequence[NDArray[np.uint8]]
    prompt: str
    system: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model said, and what it took."""

    text: str
    cost: Cost


class Model(Protocol):
    """What is known of a model before it is asked."""

    @property
    def name(self) -> str:
        """Portable name with a fingerprint of the weights, where they can be seen."""

    @property
    def family(self) -> str:
        """Name of its kin ("qwen"): kin share errors, so one does not judge the other."""

    @property
    def batch(self) -> int:
        """Most questions, or cases, that one call should hold."""

    @property
    def workers(self) -> int:
        """Calls that may run at the same time."""


class Vlm(Model, Protocol):
    """A vision-language model; the same questions get the same replies as far as the back end can promise it."""

    def ask(self, asks: Sequence[Ask]) -> Sequence[Reply | AresError]:
        """One reply, or the reason why there is none, per question and in order."""


def load_vlm(spec: str, options: Options, max_new_tokens: int) -> Vlm:
    """Load the model of a spec.

    Args:
        spec: "hf:FOLDER_OR_HUB_ID" or "openai:MODEL@URL".
        options: Device, key and price.
        max_new_tokens: Bound of one reply.

    Raises:
        RequestError: The spec names no back end.
        ModelError: The model cannot be loaded, or its server does not listen.
    """
    kind, _, rest = spec.partition(":")
    if kind == "hf" and rest:
        from annotators.backends.hf import load_hf

        return load_hf(rest, options.device, max_new_tokens)
    model, at, url = rest.rpartition("@")
    if kind == "openai" and model and at and re.match(r"https?://", url):
        from annotators.backends.openai import OpenAiVlm

        knock(url)
        return OpenAiVlm(model, url, options.settings, max_new_tokens)
    raise RequestError(
        "model spec cannot be read",
        f"{spec!r}; give hf:FOLDER, hf:ORG/NAME or openai:MODEL@http://HOST:PORT/v1",
    )


def knock(url: str) -> None:
    """Raises ModelError when nothing listens at the address: better before a run than for every episode of it."""
    import socket
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=_KNOCK_SECONDS).close()
    except OSError as error:
        raise ModelError("model server cannot be reached", f"{url}: {error}") from None


def usd(price: Price | None, tokens_in: int, tokens_out: int) -> float | None:
    """US dollars for so many tokens, None where the price is not known."""
    if price is None:
        return None
    return (tokens_in * price.usd_per_mtok_in + tokens_out * price.usd_per_mtok_out) / 1e6


def family(name: str) -> str:
    """The leading letters of a model's own name: "Qwen/Qwen3-VL-4B" and "qwen3_vl" are both "qwen"."""
    own = name.rstrip("/").rpartition("/")[2].lower()
    letters = re.match(r"[a-z]+", own)
    return letters.group(0) if letters else own
