"""Loads the model of texts that compares captions with what was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annotators.grade.entailment.base import EntailmentModel
from ares.errors import RequestError

if TYPE_CHECKING:
    from annotators.base import Options
    from ares.store import Stores


def load_entailment(spec: str, options: Options, stores: Stores) -> EntailmentModel | None:
    """The model of a spec; None for "tables", which needs none.

    Args:
        spec: "tables", "hf:FOLDER_OR_HUB_ID" or "openai:MODEL@URL".
        options: Device, key and price.
        stores: Where its replies are kept.

    Raises:
        RequestError: The spec names no model, or one that gives no probabilities.
        ModelError: The model cannot be loaded, or its server cannot be reached.
    """
    if spec == "tables":
        return None
    if not spec.startswith(("hf:", "openai:", "stub:")):
        raise RequestError(
            "no such entailment model",
            f"{spec!r}; give judge, tables, hf:FOLDER or openai:MODEL@http://HOST:PORT/v1",
        )
    from annotators.grade.entailment.text_mode import MAX_NEW_TOKENS, TextModeEntailment
    from annotators.models import load_vlm

    vlm = load_vlm(spec, options, MAX_NEW_TOKENS, stores)
    return TextModeEntailment(vlm, options.settings.price, spec.startswith("openai:"))
