"""Families of vision-language models and the language models that they were trained from, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.models.families.image_tokens import count_image_tokens, expected_image_tokens
    from annotators.models.families.table import (
        Kinship,
        ModelFamily,
        compare_models,
        find_family,
        shared_lineage,
    )

__all__ = [
    "Kinship",
    "ModelFamily",
    "compare_models",
    "count_image_tokens",
    "expected_image_tokens",
    "find_family",
    "shared_lineage",
]

__getattr__ = lazy_exports(__name__)
