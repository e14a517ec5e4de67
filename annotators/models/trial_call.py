"""Asks a model once, before a run, to see whether its replies can be used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ares.errors import ModelError
from ares_annotators.base import Preflight
from ares_annotators.models.base import ServedVlm, Vlm, VlmFailure, VlmReply, VlmRequest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_SIDE, _GREY = 256, 128


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
