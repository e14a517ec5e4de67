"""The arithmetic of the reference entailment model in numpy: transformer layers, alignment and pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# How much more the most similar word of the other text counts than the others.
SHARPNESS = 10.0
ENCODER_HEADS, HEADS = 12, 6
_HIDDEN = -1e9


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Texts of any length: vectors (N, T, D), which of them are there (N, T), whose words the other text has (N, T)."""

    vectors: NDArray[np.float32]
    present: NDArray[np.bool_]
    matches: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[NDArray[np.float32]], matches: Sequence[Sequence[int]]) -> Rows:
        """Rows (T, D) padded to the longest; T is at least 1."""
        import numpy as np

        width = max((len(row) for row in rows), default=0) or 1
        size = rows[0].shape[1] if rows else 0
        vectors: NDArray[Any] = np.zeros((len(rows), width, size), dtype=np.float32)
        present, same = (
            np.zeros((len(rows), width), dtype=np.bool_),
            np.zeros((len(rows), width), dtype=np.int64),
        )
        for index, (row, own) in enumerate(zip(rows, matches, strict=True)):
            vectors[index, : len(row)], present[index, : len(row)], same[index, : len(own)] = row, True, own
        return cls(vectors, present, same)


class Arithmetic:
    """Computes with the weights of a model.

    Args:
        weights: By name, float32.
    """

    def __init__(self, weights: Mapping[str, NDArray[np.float32]]) -> None:
        self._weights = weights
        names = {tuple(name.split(".")[:3]) for name in weights}
        self._encoder_layers = len({name[2] for name in names if name[:2] == ("encoder", "layers")})
        self._layers = len({name[1] for name in names if name[0] == "layers"})

    def encode(self, pieces: NDArray[np.int64], present: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Vectors (N, T, D) of pieces (N, T), by layers that are normalised after each part."""
        positions = self._weights["encoder.position.weight"][: pieces.shape[1]]
        x = self._norm("encoder.norm", self._weights["encoder.word.weight"][pieces] + positions, 1e-12)
        bias = _bias(present)
        for layer in range(self._encoder_layers):
            name = f"encoder.layers.{layer}"
            x = self._norm(f"{name}.norm_a", x + self._mix(name, x, bias, ENCODER_HEADS), 1e-12)
            x = self._norm(f"{name}.norm_b", x + self._widen(name, x), 1e-12)
        return x

    def aligned(self, own: Rows, other: Rows, side: int) -> Rows:
        """The words of one text, each with the most similar words of the other."""
        weights = self._weights
        x = own.vectors + weights["side.weight"][side] + weights["match.weight"][own.matches]
        x = x + self.linear("aligned", _align(own.vectors, other.vectors, other.present))
        return Rows(x, own.present, own.matches)

    def pooled(self, rows: Rows) -> NDArray[np.float32]:
        """(N, heads, D) of the words of both texts, by layers that are normalised before each part."""
        x, bias = rows.vectors, _bias(rows.present)
        for layer in range(self._layers):
            name = f"layers.{layer}"
            x = x + self._mix(name, self._norm(f"{name}.norm_a", x, 1e-5), bias, HEADS)
            x = x + self._widen(name, self._norm(f"{name}.norm_b", x, 1e-5))
        x = self._norm("norm", x, 1e-5)
        scores = self._weights["queries"] @ x.swapaxes(1, 2)
        pooled: NDArray[np.float32] = normal_softmax(scores + bias[:, None]) @ x
        return pooled

    def linear(self, name: str, x: NDArray[Any]) -> NDArray[Any]:
        """A layer of the weights "NAME.weight" and "NAME.bias"."""
        result: NDArray[Any] = x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return result

    def _mix(self, name: str, x: NDArray[Any], bias: NDArray[np.float32], heads: int) -> NDArray[Any]:
        import numpy as np

        count, length, width = x.shape
        parts = self.linear(f"{name}.qkv", x).reshape(count, length, 3, heads, width // heads)
        query, key, value = parts.transpose(2, 0, 3, 1, 4)
        scores = query @ key.swapaxes(-1, -2) / np.float32(np.sqrt(width // heads)) + bias[:, None, None]
        mixed = (normal_softmax(scores) @ value).swapaxes(1, 2).reshape(count, length, width)
        return self.linear(f"{name}.out", mixed)

    def _widen(self, name: str, x: NDArray[Any]) -> NDArray[Any]:
        return self.linear(f"{name}.down", _gelu(self.linear(f"{name}.up", x)))

    def _norm(self, name: str, x: NDArray[Any], epsilon: float) -> NDArray[Any]:
        import numpy as np

        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(epsilon))
        result: NDArray[Any] = scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return result


def join_rows(sides: Sequence[Rows]) -> Rows:
    """The words of both texts one after the other."""
    import numpy as np

    return Rows(
        np.concatenate([side.vectors for side in sides], axis=1),
        np.concatenate([side.present for side in sides], axis=1),
        np.concatenate([side.matches for side in sides], axis=1),
    )


def normal_softmax(x: NDArray[Any]) -> NDArray[Any]:
    """Numbers that add up to 1 in the last axis."""
    import numpy as np

    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    result: NDArray[Any] = weights / weights.sum(axis=-1, keepdims=True)
    return result


def _align(vectors: NDArray[Any], other: NDArray[Any], present: NDArray[np.bool_]) -> NDArray[Any]:
    """For each word the most similar of the other text, what differs, and the greatest cosine: (N, T, 2 D + 1)."""
    import numpy as np

    cosines = _unit(vectors) @ _unit(other).swapaxes(-1, -2)
    cosines = np.where(present[:, None], cosines, np.float32(-1.0))
    nearest = normal_softmax(np.float32(SHARPNESS) * cosines) @ other
    return np.concatenate([nearest, vectors - nearest, cosines.max(axis=-1, keepdims=True)], axis=-1)


def _unit(vectors: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    result: NDArray[Any] = vectors / np.maximum(
        np.linalg.norm(vectors, axis=-1, keepdims=True), np.float32(1e-4)
    )
    return result


def _bias(present: NDArray[np.bool_]) -> NDArray[np.float32]:
    import numpy as np

    return np.where(present, np.float32(0.0), np.float32(_HIDDEN))


def _gelu(x: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    inner = np.float32(np.sqrt(2.0 / np.pi)) * (x + np.float32(0.044715) * x * x * x)
    result: NDArray[Any] = np.float32(0.5) * x * (np.float32(1.0) + np.tanh(inner))
    return result
