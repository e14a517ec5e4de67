"""How a caption stands to what was observed: entailed, contradicted or neither, by a model of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.grade.entailment.base import Entailment, EntailmentModel, PairEntailment
    from annotators.grade.entailment.load import load_entailment
    from annotators.grade.entailment.text_mode import TextModeEntailment

__all__ = [
    "Entailment",
    "EntailmentModel",
    "PairEntailment",
    "TextModeEntailment",
    "load_entailment",
]

__getattr__ = lazy_exports(__name__)
