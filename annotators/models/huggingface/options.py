"""Options of models on this machine, which each annotator that asks a vision-language model has."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from annotators.options import AnnotatorOptions

NumberFormat = Literal["auto", "float32", "bfloat16", "float16"]
Attention = Literal["auto", "eager", "sdpa", "flash_attention_2"]


class LocalModelOptions(AnnotatorOptions):
    """How a model of transformers computes; a model behind a server takes no notice.

    The number format is part of the fingerprint of the weights, and so of the name of the model.
    """

    not_in_maker: ClassVar[frozenset[str]] = frozenset({"dtype", "attention"})

    dtype: NumberFormat = Field(
        default="auto",
        description="numbers of a local model: auto, float32, bfloat16 or float16 (auto: float32 on a CPU, else "
        "those of its files)",
    )
    attention: Attention = Field(
        default="auto",
        description="attention of a local model: auto, eager, sdpa or flash_attention_2",
    )
