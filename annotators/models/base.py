"""The interface of vision-language models: requests, replies, and what a model can do."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from ares.annotation import Cost
from ares.episode import Json
from ares.errors import ModelError, RequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.settings import Price
    from ares_annotators.base import CameraSeconds, Preflight, Subject


# What a back end may be able to do beyond text: JSON of a schema, one of several choices, the probability of each
# choice, several sampled replies, replies that a seed repeats, and frames as one clip instead of single images. One
# that writes "captions_only" has no place for a prompt: it was trained to write a sentence about any images.
Capability = Literal["schema", "choices", "probabilities", "samples", "seed", "clip", "captions_only"]
# Larger images are made smaller before a model gets them: 1,024 pixels show what a caption says, at a known cost.
MAX_IMAGE_SIDE = 1024
IMAGE_SETTINGS: Mapping[str, Json] = {"max_image_side": MAX_IMAGE_SIDE}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VlmRequest:
    """One request to a model.

    Attributes:
        images: RGB images, each (H, W, 3) uint8, in order.
        prompt: Text after the images.
        system: System prompt, or "".
        schema: JSON schema of the reply, or None for free text.
        choices: The reply is exactly one of these; empty for free text.
        probabilities: Return the probability of each choice.
        samples: Number of replies; more than one are sampled at `temperature`.
        temperature: 0 for the most probable reply.
        seed: Makes sampled replies repeatable, or None.
        max_tokens: Length limit of the reply, or None for that of the model.
        clip: The images are the frames of one clip, in order of time.
    """

    images: Sequence[NDArray[np.uint8]]
    prompt: str
    system: str = ""
    schema: Mapping[str, Json] | None = None
    choices: Sequence[str] = ()
    probabilities: bool = False
    samples: int = 1
    temperature: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None
    clip: bool = False

    @property
    def needs(self) -> frozenset[Capability]:
        """What a back end must be able to do to answer it."""
        needed: dict[Capability, bool] = {
            "schema": self.schema is not None,
            "choices": bool(self.choices),
            "probabilities": self.probabilities,
            "samples": self.samples > 1,
            "seed": self.seed is not None,
            "clip": self.clip,
        }
        return frozenset(name for name, is_needed in needed.items() if is_needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class VlmReply:
    """What a model replied, and its cost.

    Attributes:
        text: The reply; of several samples the first.
        cost: What it cost, whenever it was paid.
        samples: All sampled replies, the first included.
        probabilities: Probability of each choice, summing to 1; empty where they were not asked for.
        was_kept: It was stored by an earlier call: nothing is paid for it now.
    """

    text: str
    cost: Cost
    samples: Sequence[str] = ()
    probabilities: Mapping[str, float] = field(default_factory=dict)
    was_kept: bool = False

    @property
    def paid(self) -> Cost:
        """What was paid for it by the call that returned it."""
        return Cost() if self.was_kept else self.cost


@dataclass(frozen=True, slots=True)
class VlmFailure:
    """A request that failed, and what it cost all the same: a reply that cannot be used is paid like any other.

    Attributes:
        error: What was wrong.
        cost: Cost of its calls.
        is_unusable_reply: The model replied, but not in a form that can be used; otherwise there was no reply.
        has_no_probabilities: The server has no probabilities, or refuses a request for them.
        text: The reply that cannot be used, as far as there is one: it may be cut.
    """

    error: ModelError
    cost: Cost = field(default_factory=Cost)
    is_unusable_reply: bool = False
    has_no_probabilities: bool = False
    text: str = ""


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


class FrameJudge(ModelProperties, Protocol):
    """A judge of what frames show, as far as an annotator has to know it."""

    @property
    def prompt_hash(self) -> str:
        """Hash of its prompts or texts; "" where a rubric holds them all."""

    @property
    def settings(self) -> Mapping[str, Json]:
        """What makes its word what it is beside its name and prompts, for the producer."""

    @property
    def call_limit(self) -> Callable[[], int] | None:
        """Works to have in hand at the same time now, or None where that is always `workers`."""

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """Frames that it needs."""

    def preflight(self) -> Preflight:
        """Check before a run that the model answers. Raises ModelError."""


class Vlm(ModelProperties, Protocol):
    """A vision-language model; the same request gives the same reply as far as the back end can promise it.

    Made by `load_vlm`.
    """

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can do beyond text."""

    @property
    def settings(self) -> Mapping[str, Json]:
        """What makes its replies what they are beside its name, for the producer of its annotations."""

    def ask(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | VlmFailure]:
        """One reply, or the failure that replaces it, per request and in order."""


@runtime_checkable
class ServedVlm(Vlm, Protocol):
    """A model behind a server, which takes several calls at the same time."""

    def call_limit(self) -> int:
        """Calls that the server is given at the same time now."""

    def measure_first_call(self, request: VlmRequest) -> VlmReply | VlmFailure:
        """Ask once, alone, and choose from its duration how many calls the server gets at first."""


# Calls that are prepared or read while others are in flight.
_SPARE_SHARE, _SPARE_CALLS = 1.125, 2


def call_limit(vlm: Vlm, calls_per_work: float = 1.0) -> Callable[[], int] | None:
    """How many works are to be in hand now so that a server gets as many calls as it takes; None for other models."""
    if not isinstance(vlm, ServedVlm):
        return None
    return lambda: math.ceil(vlm.call_limit() * _SPARE_SHARE / calls_per_work) + _SPARE_CALLS


def require_capabilities(vlm: Vlm, needed: frozenset[Capability], purpose: str) -> None:
    """Raises RequestError where a model cannot do what a purpose needs: before anything is paid."""
    missing = sorted(needed - vlm.capabilities)
    if missing:
        able = ", ".join(sorted(vlm.capabilities)) or "text only"
        raise RequestError(
            f"the model cannot do what {purpose} needs",
            f"{vlm.name} has no {', '.join(missing)}; it has {able}",
        )


def price_usd(price: Price | None, tokens_in: int, tokens_out: int) -> float | None:
    """US dollars for so many tokens, None where the price is not known."""
    if price is None:
        return None
    return (tokens_in * price.usd_per_mtok_in + tokens_out * price.usd_per_mtok_out) / 1e6


def model_family(name: str) -> str:
    """The leading letters of a model's name: "Qwen/Qwen3-VL-4B" and "qwen3_vl" are both "qwen"."""
    base_name = name.rstrip("/").rpartition("/")[2].lower()
    letters = re.match(r"[a-z]+", base_name)
    return letters.group(0) if letters else base_name
