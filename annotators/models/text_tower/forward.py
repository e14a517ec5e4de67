"""Forward pass of a text tower in NumPy: a pre-norm transformer as in CLIP and SigLIP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Pooling = Literal["argmax", "eos", "first", "last"]
Activation = Literal["gelu", "gelu_tanh", "quick_gelu"]

_BLOCK = "transformer.resblocks.{}."
_BLOCK_WEIGHTS = (
    "ln_1.weight",
    "ln_1.bias",
    "attn.in_proj_weight",
    "attn.in_proj_bias",
    "attn.out_proj.weight",
    "attn.out_proj.bias",
    "ln_2.weight",
    "ln_2.bias",
    "mlp.c_fc.weight",
    "mlp.c_fc.bias",
    "mlp.c_proj.weight",
    "mlp.c_proj.bias",
)
_LAYER_SCALES = ("ls_1.gamma", "ls_2.gamma")
_TOWER_WEIGHTS = ("token_embedding.weight", "positional_embedding", "ln_final.weight", "ln_final.bias")
_PROJECTIONS = ("text_projection", "text_projection.weight", "text_projection.bias")


@dataclass(frozen=True, slots=True, kw_only=True)
class TowerConfig:
    """What the weights of a text tower do not say.

    Attributes:
        layers: Number of blocks.
        heads: Attention heads of each block.
        causal: Whether a token attends only to itself and those before it.
        pooling: Which token's output is the vector of the text.
        eos_id: Id of the token at the end of a text, for the pooling "eos".
        activation: Activation of the feed-forward layers.
        epsilon: Added to the variance in layer normalisation.
    """

    layers: int
    heads: int
    causal: bool
    pooling: Pooling
    eos_id: int
    activation: Activation
    epsilon: float


class Weights(Protocol):
    """The tensors of a tower by name, float32."""

    def names(self) -> Sequence[str]:
        """Names of all tensors."""

    def get(self, name: str) -> NDArray[np.float32]:
        """A whole tensor."""

    def rows(self, name: str, indices: Sequence[int]) -> NDArray[np.float32]:
        """Some rows of a matrix, in the order of the indices."""


def unknown_weights(names: Sequence[str], layers: int) -> set[str]:
    """Names that the forward pass does not use, or lacks: a tower with any is of another architecture."""
    blocks = [_BLOCK.format(layer) for layer in range(layers)]
    required = {*_TOWER_WEIGHTS, *(block + name for block in blocks for name in _BLOCK_WEIGHTS)}
    optional = {*_PROJECTIONS, *(block + name for block in blocks for name in _LAYER_SCALES)}
    return required.symmetric_difference(set(names) - optional)


class TextTower:
    """A text tower: token ids to a unit vector.

    Args:
        config: Its architecture.
        weights: Its tensors, under the names of open_clip.
    """

    def __init__(self, config: TowerConfig, weights: Weights) -> None:
        self._config, self._weights = config, weights
        self._names = frozenset(weights.names())

    def encode(self, token_ids: Sequence[int]) -> NDArray[np.float32]:
        """Unit vector (D,) of one text.

        Args:
            token_ids: (L,) ids, padded to the context length.
        """
        import numpy as np

        position = self._pooled_position(token_ids)
        # A later token has no influence on an earlier one, and most texts are much shorter than the context.
        used = token_ids[: position + 1] if self._config.causal else token_ids
        state = self._weights.rows("token_embedding.weight", used)
        state = state + self._weights.get("positional_embedding")[: len(used)]
        for layer in range(self._config.layers):
            state = self._block(state, _BLOCK.format(layer))
        pooled = self._project(self._normalise(state[position], "ln_final"))
        unit: NDArray[np.float32] = pooled / max(float(np.linalg.norm(pooled)), 1e-12)
        return unit

    def _pooled_position(self, token_ids: Sequence[int]) -> int:
        match self._config.pooling:
            case "first":
                return 0
            case "last":
                return len(token_ids) - 1
            case "argmax":
                return max(range(len(token_ids)), key=lambda position: (token_ids[position], -position))
            case "eos":
                return next((at for at, token in enumerate(token_ids) if token == self._config.eos_id), 0)

    def _block(self, state: NDArray[np.float32], block: str) -> NDArray[np.float32]:
        attended = self._attention(self._normalise(state, f"{block}ln_1"), f"{block}attn.")
        state = state + self._scaled(attended, f"{block}ls_1.gamma")
        hidden = self._linear(self._normalise(state, f"{block}ln_2"), f"{block}mlp.c_fc")
        fed_forward = self._linear(_ACTIVATIONS[self._config.activation](hidden), f"{block}mlp.c_proj")
        return state + self._scaled(fed_forward, f"{block}ls_2.gamma")

    def _attention(self, state: NDArray[np.float32], prefix: str) -> NDArray[np.float32]:
        """Multi-head self-attention: (L, C) to (L, C)."""
        import numpy as np

        length, width = state.shape
        projected = state @ self._weights.get(f"{prefix}in_proj_weight").T
        projected += self._weights.get(f"{prefix}in_proj_bias")
        # (3, heads, L, C / heads)
        heads = projected.reshape(length, 3, self._config.heads, -1).transpose(1, 2, 0, 3)
        query, key, value = heads
        scores = (query @ key.transpose(0, 2, 1)) * np.float32((width / self._config.heads) ** -0.5)
        if self._config.causal:
            scores += np.triu(np.full((length, length), -np.inf, np.float32), 1)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (scores / scores.sum(axis=-1, keepdims=True)) @ value
        return self._linear(mixed.transpose(1, 0, 2).reshape(length, width), f"{prefix}out_proj")

    def _linear(self, state: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        product: NDArray[np.float32] = state @ self._weights.get(f"{name}.weight").T
        product += self._weights.get(f"{name}.bias")
        return product

    def _scaled(self, state: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        return state * self._weights.get(name) if name in self._names else state

    def _normalise(self, state: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        import numpy as np

        centred = state - state.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt(variance + np.float32(self._config.epsilon))
        normalised: NDArray[np.float32] = scaled * self._weights.get(f"{name}.weight")
        normalised += self._weights.get(f"{name}.bias")
        return normalised

    def _project(self, pooled: NDArray[np.float32]) -> NDArray[np.float32]:
        if "text_projection" in self._names:
            product: NDArray[np.float32] = pooled @ self._weights.get("text_projection")
            return product
        if "text_projection.weight" not in self._names:
            return pooled
        product = self._weights.get("text_projection.weight") @ pooled
        return product + self._weights.get("text_projection.bias") if self._has_projection_bias else product

    @property
    def _has_projection_bias(self) -> bool:
        return "text_projection.bias" in self._names


def _erf(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The error function to 1.5e-7, by formula 7.1.26 of Abramowitz and Stegun; NumPy has none."""
    import numpy as np

    size = np.abs(values)
    step = 1 / (1 + np.float32(0.3275911) * size)
    series = np.float32(1.061405429) * step - np.float32(1.453152027)
    for coefficient in (1.421413741, -0.284496736, 0.254829592):
        series = series * step + np.float32(coefficient)
    result: NDArray[np.float32] = np.copysign(1 - series * step * np.exp(-size * size), values)
    return result


def _gelu(values: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    result: NDArray[np.float32] = np.float32(0.5) * values * (1 + _erf(values * np.float32(0.5**0.5)))
    return result


def _gelu_tanh(values: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    inner = np.float32((2 / np.pi) ** 0.5) * (values + np.float32(0.044715) * values**3)
    result: NDArray[np.float32] = np.float32(0.5) * values * (1 + np.tanh(inner))
    return result


def _quick_gelu(values: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    # The logistic function by tanh, which cannot overflow.
    gate = np.float32(0.5) * (1 + np.tanh(np.float32(0.851) * values))
    result: NDArray[np.float32] = values * gate
    return result


_ACTIVATIONS = {"gelu": _gelu, "gelu_tanh": _gelu_tanh, "quick_gelu": _quick_gelu}
