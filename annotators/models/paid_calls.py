"""Calls of models: the images of a request while it is in flight, and the money that is set aside for each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

from ares.annotation import Cost
from ares.settings import Price
from ares_annotators.base import Budget
from ares_annotators.models.base import VlmRequest, price_usd

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ReadableImages(Sequence["NDArray[np.uint8]"]):
    """Images that can be read again, so that a call in flight need not hold their pixels.

    Args:
        read: Returns the RGB images, each (H, W, 3) uint8; called at once, and again when released images are used.
        release: Called when the pixels are released, to release those that `read` gets them from.

    Raises:
        AresError: What `read` raised.
    """

    def __init__(
        self, read: Callable[[], Sequence[NDArray[np.uint8]]], release: Callable[[], None] | None = None
    ) -> None:
        self._read, self._release = read, release
        self._images: Sequence[NDArray[np.uint8]] | None = read()
        self.shapes = tuple(image.shape for image in self._images)

    @overload
    def __getitem__(self, index: int) -> NDArray[np.uint8]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[NDArray[np.uint8]]: ...
    def __getitem__(self, index: int | slice) -> NDArray[np.uint8] | Sequence[NDArray[np.uint8]]:
        if self._images is None:
            self._images = self._read()
        return self._images[index]

    def __len__(self) -> int:
        return len(self.shapes)

    def release(self) -> None:
        """Forget the pixels."""
        self._images = None
        if self._release:
            self._release()


def read_image_shapes(images: Sequence[NDArray[np.uint8]]) -> tuple[tuple[int, ...], ...]:
    """Shapes of images; released ones are not read for them."""
    if isinstance(images, ReadableImages):
        return images.shapes
    return tuple(image.shape for image in images)


def shrink_image(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """An RGB image (H, W, 3), made smaller with its proportions kept where a side has more than `side` pixels."""
    import cv2
    import numpy as np

    height, width = image.shape[:2]
    scale = side / max(height, width)
    if scale >= 1:
        return image
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


# The tokens of a prompt vary with its words; those of an image do not vary with its content.
_TOKENS_FACTOR, _TOKENS_MARGIN = 1.05, 64
# A prompt has at least this many characters a token.
_CHARACTERS_PER_TOKEN = 1.0

_Shapes = tuple[tuple[int, ...], ...]


@dataclass(slots=True)
class PaidModelCall:
    """A call that is being made.

    Attributes:
        is_paid: Whether the budget pays for it; otherwise it must not be made.
        cost: What it cost; set by whoever makes the call.
    """

    is_paid: bool
    cost: Cost = field(default_factory=lambda: Cost(usd=None))


class ModelSpending:
    """The calls of one model and their money; safe to use from threads.

    The first call for images of one size is made alone: what it used tells what the others can use.

    Args:
        budget: Money of the run.
        price: Price of the model, or None.
    """

    def __init__(self, budget: Budget, price: Price | None) -> None:
        self._budget, self._price = budget, price
        self._most_tokens_in: dict[_Shapes, int] = {}
        self._first_call = threading.Lock()

    def is_stopped(self) -> bool:
        """Whether the run is ending, so that no call is to be made any more."""
        return self._budget.is_stopped

    @contextmanager
    def call(self, request: VlmRequest, max_tokens: int) -> Iterator[PaidModelCall]:
        """Make one call within the budget.

        Args:
            request: The request.
            max_tokens: Most tokens of one reply.
        """
        shapes: _Shapes = read_image_shapes(request.images)
        if self._budget.is_stopped or not self._budget.is_limited:
            yield PaidModelCall(not self._budget.is_stopped)
        elif shapes in self._most_tokens_in:
            yield from self._paid_call(request, shapes, max_tokens)
        else:
            with self._first_call:
                yield from self._paid_call(request, shapes, max_tokens)

    def _paid_call(self, request: VlmRequest, shapes: _Shapes, max_tokens: int) -> Iterator[PaidModelCall]:
        reserved = self._most_usd(request, shapes, max_tokens)
        call = PaidModelCall(self._budget.reserve(reserved))
        try:
            yield call
        finally:
            if call.is_paid:
                self._budget.settle(reserved, _charged_usd(call.cost, reserved))
                if call.cost.tokens_in:
                    known = self._most_tokens_in.get(shapes, 0)
                    self._most_tokens_in[shapes] = max(known, call.cost.tokens_in)

    def _most_usd(self, request: VlmRequest, shapes: _Shapes, max_tokens: int) -> float:
        tokens_in = self._most_tokens_in.get(shapes)
        if tokens_in is None:
            tokens_in = round(len(request.prompt + request.system) / _CHARACTERS_PER_TOKEN)
        most_in = round(tokens_in * _TOKENS_FACTOR) + _TOKENS_MARGIN
        return price_usd(self._price, most_in, max_tokens * request.samples) or 0.0


def _charged_usd(cost: Cost, most_usd: float) -> float:
    """What a budget is charged: for every call whose usage is not known, the most that it can have cost."""
    if cost.usd is None:
        return most_usd * max(cost.unknown_calls, 1)
    return cost.usd + most_usd * cost.unknown_calls
