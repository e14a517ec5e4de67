"""How a caption stands to what was observed: entailed, contradicted or neither, by a model of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.grade.entailment.base import Entailment, EntailmentModel, PairEntailment
    from annotators.grade.entailment.load import load_entailment
    from annotators.grade.entailment.reference import ReferenceEntailment, load_reference, read_reference
    from annotators.grade.entailment.text_mode import TextModeEntailment
    from annotators.grade.entailment.words import PieceSplitter, split_words

__all__ = [
    "Entailment",
    "EntailmentModel",
    "PairEntailment",
    "PieceSplitter",
    "ReferenceEntailment",
    "TextModeEntailment",
    "load_entailment",
    "load_reference",
    "read_reference",
    "split_words",
]

__getattr__ = lazy_exports(__name__)
