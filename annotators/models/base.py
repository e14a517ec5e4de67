"""The interface of vision-language models: requests, replies and what a back end has to provide."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ares.annotation import Cost
from ares.errors import AresError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.settings import Price


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VlmRequest:
    """One request to a model.

    Attributes:
        images: RGB images, each (H, W, 3) uint8, in order.
        prompt: Text after the images.
        system: System prompt, or "".
    """

    images: Sequence[NDArray[np.uint8]]
    prompt: str
    system: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VlmReply:
    """The text that a model generated, and its cost."""

    text: str
    cost: Cost


class ModelProperties(Protocol):
    """Properties of a model that are known before it is called."""

    @property
    def name(self) -> str:
        """Portable name with a fingerprint of the weights, where they can be read."""

    @property
    def family(self) -> str:
        """Name of its model family ("qwen"): models of a family share errors, so one does not judge another."""

    @property
    def batch_size(self) -> int:
        """Most requests, or cases, of one call."""

    @property
    def workers(self) -> int:
        """Calls that may run at the same time."""


class Vlm(ModelProperties, Protocol):
    """A vision-language model; the same request gives the same reply as far as the back end can promise it."""

    def generate(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | AresError]:
        """One reply, or the error that replaces it, per request and in order."""


def price_usd(price: Price | None, tokens_in: int, tokens_out: int) -> float | None:
    """US dollars for so many tokens, None where the price is not known."""
    if price is None:
        return None
    return (tokens_in * price.usd_per_mtok_in + tokens_out * price.usd_per_mtok_out) / 1e6


def model_family(name: str) -> str:
    """The leading letters of a model's own name: "Qwen/Qwen3-VL-4B" and "qwen3_vl" are both "qwen"."""
    base_name = name.rstrip("/").rpartition("/")[2].lower()
    letters = re.match(r"[a-z]+", base_name)
    return letters.group(0) if letters else base_name
