"""The interface of vision-language models: requests, replies, and the tokens that an image costs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from ares.annotation import Cost
from ares.episode import Json
from ares.errors import ModelError, RequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.settings import Price


# What a back end may be able to do beyond text: JSON of a schema, one of several choices, the probability of each
# choice, several sampled replies, replies that a seed repeats, and frames as one clip instead of single images.
Capability = Literal["schema", "choices", "probabilities", "samples", "seed", "clip"]
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
    """

    error: ModelError
    cost: Cost = field(default_factory=Cost)
    is_unusable_reply: bool = False
    has_no_probabilities: bool = False


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

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can do beyond text."""

    @property
    def settings(self) -> Mapping[str, Json]:
        """What makes its replies what they are beside its name, for the maker of its annotations."""

    def ask(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | VlmFailure]:
        """One reply, or the failure that replaces it, per request and in order."""


@runtime_checkable
class ServedVlm(Vlm, Protocol):
    """A model behind a server, which takes several calls at the same time."""

    def call_limit(self) -> int:
        """Calls that the server is given at the same time now."""

    def measure_first_call(self, request: VlmRequest) -> VlmReply | VlmFailure:
        """Ask once, alone, and choose from its duration how many calls the server gets at first."""


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
    """The leading letters of a model's own name: "Qwen/Qwen3-VL-4B" and "qwen3_vl" are both "qwen"."""
    base_name = name.rstrip("/").rpartition("/")[2].lower()
    letters = re.match(r"[a-z]+", base_name)
    return letters.group(0) if letters else base_name


# Of a model that the table does not have.
UNKNOWN_IMAGE_TOKENS = 400
_ROUNDING = 1e-6
# Decimals to which transformers rounds a side in tokens.
_DIGITS = 7


class _ImageRule(BaseModel):
    """One entry of image_tokens.yaml, which says what the fields mean."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pattern: str
    kind: Literal["grid", "rows", "tiles", "enlarged", "padded", "fixed"]
    pixels: int = 1
    tokens: int = 0
    most_tiles: int = 1
    least_area: int = 0
    most_area: int = 1_000_000_000
    long_side: int = 0
    grids: tuple[tuple[int, int], ...] = ()
    extra: int = 0
    source: str

    def count(self, height: int, width: int) -> int:
        """Tokens of an image of so many pixels."""
        if self.kind == "grid":
            return self._count_grid(height, width) + self.extra
        if self.kind == "rows":
            return math.ceil(height / self.pixels) * (math.ceil(width / self.pixels) + 1) + self.extra
        if self.kind == "enlarged":
            return self._count_enlarged(height, width) + self.extra
        if self.kind == "padded":
            return self._count_padded(height, width) + self.extra
        if self.kind == "fixed":
            return self.tokens + self.extra
        tiles = _count_tiles(height, width, self.pixels, self.most_tiles)
        return self.tokens * (tiles + (tiles > 1)) + self.extra

    def _count_grid(self, height: int, width: int) -> int:
        rows, columns = max(1, round(height / self.pixels)), max(1, round(width / self.pixels))
        area = rows * columns * self.pixels**2
        if self.least_area <= area <= self.most_area:
            return rows * columns
        is_small = area < self.least_area
        scale = math.sqrt((self.least_area if is_small else self.most_area) / (height * width))
        to_integer = math.ceil if is_small else math.floor
        return to_integer(height * scale / self.pixels) * to_integer(width * scale / self.pixels)

    def _count_enlarged(self, height: int, width: int) -> int:
        scale = self.long_side / max(height, width)
        # Short sides are rounded down, then up to an even number.
        sides = [int(side * scale + _ROUNDING) for side in (height, width)]
        rows, columns = (max(1, math.ceil((side + side % 2) / self.pixels)) for side in sides)
        # Each tile has two tokens more, and each row of tiles one.
        return rows * columns * (self.tokens + 2) + rows + self.tokens

    def _count_padded(self, height: int, width: int) -> int:
        rows, columns = self._best_grid(height, width)
        tokens_per_side = math.isqrt(self.tokens)
        high, wide = rows * tokens_per_side, columns * tokens_per_side
        # What is padding has no tokens: as much on both sides, in whole tokens.
        if width / height > wide / high:
            high -= (high - int(round(height * (wide / width), _DIGITS))) // 2 * 2
        else:
            wide -= (wide - int(round(width * (high / height), _DIGITS))) // 2 * 2
        return high * (wide + 1) + self.tokens

    def _best_grid(self, height: int, width: int) -> tuple[int, int]:
        """The grid in which the image keeps most of its pixels; of equal ones, that with the least padding."""

        def used_and_wasted(grid: tuple[int, int]) -> tuple[int, int]:
            high, wide = grid[0] * self.pixels, grid[1] * self.pixels
            scale = min(wide / width, high / height)
            used = min(int(width * scale) * int(height * scale), width * height)
            return used, used - high * wide

        return max(self.grids, key=used_and_wasted)


def count_image_tokens(name: str, height: int, width: int) -> int | None:
    """Tokens of an image of so many pixels for a model, by its name; None where the table does not have its family."""
    base_name = name.partition("@")[0].rstrip("/").rpartition("/")[2].lower()
    rule = next((rule for rule in _read_rules() if re.match(rule.pattern, base_name)), None)
    return rule.count(height, width) if rule else None


def expected_image_tokens(name: str, sizes: Iterable[tuple[int, int]]) -> int:
    """Tokens of the images of one request, for an estimate.

    Args:
        name: Name of the model.
        sizes: (height, width) of each image in pixels, before it is made smaller for the model.
    """
    bounded = (_bounded_size(height, width) for height, width in sizes)
    counts = (count_image_tokens(name, height, width) for height, width in bounded)
    return sum(UNKNOWN_IMAGE_TOKENS if count is None else count for count in counts)


def _bounded_size(height: int, width: int) -> tuple[int, int]:
    scale = min(1.0, MAX_IMAGE_SIDE / max(height, width, 1))
    return max(1, round(height * scale)), max(1, round(width * scale))


def _count_tiles(height: int, width: int, pixels: int, most: int) -> int:
    """Tiles of the grid whose proportions are nearest to those of the image; of two, the larger for large images."""
    grids = [
        (columns, rows)
        for columns in range(1, most + 1)
        for rows in range(1, most + 1)
        if columns * rows <= most
    ]
    best, smallest_difference = (1, 1), math.inf
    for columns, rows in sorted(grids, key=lambda grid: grid[0] * grid[1]):
        difference = abs(width / height - columns / rows)
        is_filled = height * width > 0.5 * pixels**2 * columns * rows
        if difference < smallest_difference or (difference == smallest_difference and is_filled):
            best, smallest_difference = (columns, rows), difference
    return best[0] * best[1]


@cache
def _read_rules() -> tuple[_ImageRule, ...]:
    import yaml

    file = resources.files("annotators.models").joinpath("families", "image_tokens.yaml")
    text = file.read_text(encoding="utf-8")
    return tuple(_ImageRule.model_validate(entry) for entry in yaml.safe_load(text)["images"])
