"""Writes a trained network small: weights of eight bits, and the word pieces that captions need."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annotators.grade.entailment.words import PieceSplitter, split_words
from benchmarks.entailment.rows import HEADS

_MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
LICENSE = (
    "Apache-2.0; its encoder starts from sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0); "
    "trained on generated captions (CC0-1.0)"
)


def choose_pieces(
    pieces: Sequence[str], texts: Iterable[str], most: int, first: Sequence[str] = ()
) -> list[str]:
    """The pieces that stay: marks, letters, those of the texts, and the most frequent ones of English.

    Args:
        pieces: All pieces of the encoder, the most frequent ones first.
        texts: What has to keep its pieces.
        most: How many stay, at most, if these texts need no more.
        first: Pieces that an earlier model had; they stay.
    """
    splitter = PieceSplitter(pieces)
    words = {word for text in texts for word in split_words(text)}
    used = {pieces[number] for word in words for number in splitter.split(word).pieces}
    plain = [piece for piece in pieces if re.fullmatch(r"(##)?[a-z0-9]+|[,'-]", piece)]
    letters = [piece for piece in plain if len(piece.removeprefix("##")) == 1]
    kept = dict.fromkeys([*first, *_MARKS, *letters, *sorted(used - set(_MARKS))])
    for piece in plain:
        if len(kept) >= most:
            break
        kept.setdefault(piece)
    return list(kept)


def write_model(
    path: Path,
    state: Mapping[str, NDArray[np.float32]],
    pieces: Sequence[str],
    temperatures: Sequence[float],
    bounds: Mapping[str, float],
) -> None:
    """Write a network for `annotators.grade.entailment.read_reference`."""
    from safetensors.numpy import save_file

    tensors = packed(state)
    tensors["temperatures"] = np.array(temperatures, dtype=np.float32)
    metadata = {
        "pieces": " ".join(pieces), "heads": json.dumps(HEADS), "bounds": json.dumps(dict(bounds)),
        "license": LICENSE,
    }  # fmt: skip
    save_file(tensors, path, metadata=metadata)
    print(f"{path}: {path.stat().st_size} bytes, {sum(value.size for value in state.values())} numbers")


def packed(state: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[Any]]:
    """Matrices as int8 with a scale for each row, all else in half precision."""
    tensors: dict[str, NDArray[Any]] = {}
    for name, values in state.items():
        if values.ndim != 2 or min(values.shape) < 16:
            tensors[name] = values.astype(np.float16)
            continue
        scale = np.maximum(np.abs(values).max(axis=1) / 127.0, 1e-8).astype(np.float32)
        tensors[name] = np.rint(values / scale[:, None]).astype(np.int8)
        tensors[f"{name}.scale"] = scale
    return tensors
