"""The reference entailment model: a small network trained on generated wordings, computed by numpy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

from annotators.grade.entailment.base import Entailment, PairEntailment
from annotators.grade.entailment.words import PADDING, SHARPNESS, UNKNOWN, WordArrays, encode_pairs
from ares.annotation import short_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json

FILE = "reference.safetensors"
_HEADS_PER_LAYER = 4
_BATCH_SIZE = 256
_SURE, _MAY_DIFFER = 0.9, 0.2
_OUTCOMES = ("success", "failure", "attempt")


class ReferenceEntailment:
    """Fills the protocol `annotators.grade.entailment.EntailmentModel` on any machine, without a further library.

    Recipe: benchmarks/entailment. A word that it was not trained with is like no other word, so what is said with it is
    neutral.

    Args:
        tensors: Weights by name, float32.
        words: The words that it knows.
        heads: Number of classes by the name of a head, in order.
        fingerprint: Hash of the file.
    """

    most_pairs = 40

    def __init__(
        self,
        tensors: Mapping[str, NDArray[np.float32]],
        words: Sequence[str],
        heads: Mapping[str, int],
        fingerprint: str,
    ) -> None:
        self._tensors, self._heads = tensors, heads
        self._vocabulary = {word: number for number, word in enumerate(words, 2)}
        self._layers = len({name.split(".")[1] for name in tensors if name.startswith("layers.")})
        self.settings: Mapping[str, Json] = {
            "entailment": f"reference:{fingerprint}",
            "entailment_bounds": [_SURE, _MAY_DIFFER],
        }
        self._known: dict[tuple[str, str], PairEntailment] = {}

    def compare(
        self, pairs: Sequence[tuple[str, str]], slots: Sequence[Sequence[str]]
    ) -> Sequence[PairEntailment]:
        """The entailment of every slot of each pair; a pair is computed once."""
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        if len(self._known) > 200_000:
            self._known.clear()
            missing = list(dict.fromkeys(pairs))
        for start in range(0, len(missing), _BATCH_SIZE):
            batch = missing[start : start + _BATCH_SIZE]
            self._known.update(zip(batch, self._entailments(batch), strict=True))
        return [self._known[pair] for pair in pairs]

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> dict[str, NDArray[np.float64]]:
        """Probabilities (N, C) of the classes of each head for N pairs."""
        logits = self._logits(encode_pairs(pairs, self._vocabulary))
        temperatures = self._tensors["temperatures"]
        return {
            name: _softmax(logits[name].astype("float64") / float(temperatures[index]))
            for index, name in enumerate(self._heads)
        }

    def _entailments(self, pairs: Sequence[tuple[str, str]]) -> list[PairEntailment]:
        heads = self.probabilities(pairs)
        outcomes = heads.pop("outcome")
        slots = {name: table for name, table in heads.items() if table.shape[1] == 4 and name != "actor"}
        return [
            PairEntailment(
                slots=_doubted({name: _entailment(table[index]) for name, table in slots.items()}),
                outcome=dict(zip(_OUTCOMES, outcomes[index].tolist(), strict=True)),
            )
            for index in range(len(pairs))
        ]

    def _logits(self, arrays: WordArrays) -> dict[str, NDArray[np.float32]]:
        import numpy as np

        weights = self._tensors
        vectors = weights["word.weight"][arrays.words]
        x = vectors + weights["side.weight"][arrays.sides] + weights["position.weight"][arrays.positions]
        x = x + weights["match.weight"][arrays.matches]
        x = x + self._linear("aligned", _align(vectors, arrays))
        bias = np.where(arrays.words == PADDING, np.float32(-1e9), np.float32(0.0))[:, None, :]
        for layer in range(self._layers):
            x = self._layer(f"layers.{layer}", x, bias)
        x = self._norm("norm", x)
        weighted = _softmax(np.einsum("hd,ntd->nht", weights["queries"], x) + bias)
        pooled = weighted @ x
        return {
            name: self._linear(f"heads.{name}", pooled[:, index]) for index, name in enumerate(self._heads)
        }

    def _layer(self, name: str, x: NDArray[Any], bias: NDArray[np.float32]) -> NDArray[Any]:
        import numpy as np

        count, length, width = x.shape
        size = width // _HEADS_PER_LAYER
        parts = self._linear(f"{name}.qkv", self._norm(f"{name}.norm_a", x))
        query, key, value = parts.reshape(count, length, 3, _HEADS_PER_LAYER, size).transpose(2, 0, 3, 1, 4)
        scores = query @ key.swapaxes(-1, -2) / np.float32(np.sqrt(size)) + bias[:, None]
        mixed = (_softmax(scores) @ value).swapaxes(1, 2).reshape(count, length, width)
        x = x + self._linear(f"{name}.out", mixed)
        hidden = np.maximum(self._linear(f"{name}.up", self._norm(f"{name}.norm_b", x)), 0.0)
        added: NDArray[Any] = self._linear(f"{name}.down", hidden)
        summed: NDArray[Any] = x + added
        return summed

    def _linear(self, name: str, x: NDArray[Any]) -> NDArray[Any]:
        result: NDArray[Any] = x @ self._tensors[f"{name}.weight"].T + self._tensors[f"{name}.bias"]
        return result

    def _norm(self, name: str, x: NDArray[Any]) -> NDArray[Any]:
        import numpy as np

        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
        result: NDArray[Any] = scaled * self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"]
        return result


def _align(vectors: NDArray[Any], arrays: WordArrays) -> NDArray[Any]:
    """For each word the most similar words of the other text: (N, T, D + 1), the last the greatest cosine."""
    import numpy as np

    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-4)
    cosines = unit @ unit.swapaxes(-1, -2)
    same_side = arrays.sides[:, :, None] == arrays.sides[:, None, :]
    cosines = np.where(same_side | (arrays.words <= UNKNOWN)[:, None, :], np.float32(-1.0), cosines)
    return np.concatenate(
        [_softmax(SHARPNESS * cosines) @ vectors, cosines.max(axis=-1, keepdims=True)], axis=-1
    )


def _softmax(x: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    result: NDArray[Any] = weights / weights.sum(axis=-1, keepdims=True)
    return result


def _entailment(row: NDArray[np.float64]) -> Entailment:
    """From the probabilities of contradicted, neutral, entailed, not stated: a slot that is not stated is neutral."""
    contradicted, neutral, entailed, not_stated = row.tolist()
    return Entailment(entailed, contradicted, neutral + not_stated)


def _doubted(slots: Mapping[str, Entailment]) -> dict[str, Entailment]:
    """What is entailed by little, and additions where any slot may be contradicted, is neutral.

    A small network is often wrong where it hesitates; the two bounds were chosen on generated pairs.
    """
    may_differ = any(slot.contradicted > _MAY_DIFFER for slot in slots.values())
    return {
        name: Entailment(0.0, slot.contradicted, slot.neutral + slot.entailed)
        if slot.entailed < _SURE or (may_differ and name == "additions")
        else slot
        for name, slot in slots.items()
    }


@lru_cache(maxsize=1)
def load_reference() -> ReferenceEntailment:
    """The model that comes with ARES."""
    with as_file(files("annotators.grade.entailment").joinpath(FILE)) as path:
        return read_reference(str(path))


def read_reference(path: str) -> ReferenceEntailment:
    """A model that `benchmarks.entailment.train` has written.

    Raises:
        OSError: The file cannot be read.
    """
    import numpy as np
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
        tensors = {name: np.asarray(file.get_tensor(name), dtype=np.float32) for name in file.keys()}  # noqa: SIM118
    # The hash of the numbers, so that a file written again is the same model.
    digest = short_hash(
        [metadata["words"], *(f"{name}:{tensors[name].tobytes().hex()[:4096]}" for name in sorted(tensors))]
    )
    return ReferenceEntailment(tensors, json.loads(metadata["words"]), json.loads(metadata["heads"]), digest)
