"""The text tower of CLIP in NumPy, so that a search need not load torch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ares.errors import ModelError
from ares_annotators.models.text_tokenizer import TextTokenizer, TokenizerConfig

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
# Raised when the same file would give other vectors, or when older files cannot be read.
_FORMAT = 1
_METADATA, _TOKENIZER = "ares", "tokenizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTowerConfig:
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


def find_unknown_weights(names: Sequence[str], layers: int) -> set[str]:
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

    def __init__(self, config: TextTowerConfig, weights: MappedTowerWeights) -> None:
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


def _error_function(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The error function to 1.5e-7, by formula 7.1.26 of Abramowitz and Stegun; NumPy has none."""
    import numpy as np

    size = np.abs(values)
    step = 1 / (1 + np.float32(0.3275911) * size)
    series = np.float32(1.061405429) * step - np.float32(1.453152027)
    for coefficient in (1.421413741, -0.284496736, 0.254829592):
        series = series * step + np.float32(coefficient)
    result: NDArray[np.float32] = np.copysign(1 - series * step * np.exp(-size * size), values)
    return result


def _gelu_activation(values: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    result: NDArray[np.float32] = (
        np.float32(0.5) * values * (1 + _error_function(values * np.float32(0.5**0.5)))
    )
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


_ACTIVATIONS = {"gelu": _gelu_activation, "gelu_tanh": _gelu_tanh, "quick_gelu": _quick_gelu}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredTextTower:
    """What a text encoder is made of.

    Attributes:
        model: Portable name of the model with the fingerprint of its weights.
        tower: Architecture.
        tokenizer: What surrounds the subword model.
        tokenizer_document: The subword model, as the JSON of the `tokenizers` library.
        weights: Tensors by the names of open_clip, float32.
    """

    model: str
    tower: TextTowerConfig
    tokenizer: TokenizerConfig
    tokenizer_document: str
    weights: Mapping[str, NDArray[np.float32]]


class MappedTowerWeights:
    """The tensors of a file, mapped into memory: what is not used is not read, and processes share the pages.

    Args:
        path: A safetensors file.

    Raises:
        ModelError: The file is damaged.
    """

    def __init__(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                self.metadata: dict[str, str] = file.metadata() or {}
                self._tensors = _map_tensors(path)
        except (OSError, ValueError, RecursionError, SafetensorError) as error:
            raise ModelError("stored text encoder cannot be read", f"{path}: {error}") from None

    def names(self) -> list[str]:
        """Names of all tensors of the tower."""
        return [name for name in self._tensors if name != _TOKENIZER]

    def get(self, name: str) -> NDArray[np.float32]:
        """A tensor, float32."""
        import numpy as np

        return self._tensors[name].astype(np.float32, copy=False)

    def rows(self, name: str, indices: Sequence[int]) -> NDArray[np.float32]:
        """Some rows of a matrix, in the order of the indices."""
        import numpy as np

        return self._tensors[name][list(indices)].astype(np.float32)

    def tokenizer_document(self) -> str:
        """The subword model, as JSON."""
        return self._tensors[_TOKENIZER].tobytes().decode()


def write_text_tower(
    path: Path, stored: StoredTextTower, is_right: Callable[[StoredTextEncoder], bool]
) -> bool:
    """Write a text encoder where what was written is right; a file with this path is complete.

    Args:
        path: The file.
        stored: The encoder.
        is_right: Whether the encoder that was written is the same.

    Raises:
        OSError: It cannot be written.
    """
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    document = {
        "format": _FORMAT,
        "model": stored.model,
        "tower": asdict(stored.tower),
        "tokenizer": asdict(stored.tokenizer),
    }
    tensors = {name: _in_smallest_precision(tensor) for name, tensor in stored.weights.items()}
    tensors[_TOKENIZER] = np.frombuffer(stored.tokenizer_document.encode(), np.uint8)
    partial = path.with_name(f"{path.stem}.{os.getpid()}.tmp")
    try:
        partial.touch()
        mode = partial.stat().st_mode
        save_file(tensors, partial, metadata={_METADATA: json.dumps(document)})
        partial.chmod(mode)  # safetensors lets only the owner read it
        if not is_right(open_text_encoder(partial)):
            return False
        partial.replace(path)
        return True
    except SafetensorError as error:
        raise OSError(str(error)) from None
    finally:
        partial.unlink(missing_ok=True)


def read_text_tower_configs(weights: MappedTowerWeights) -> tuple[TextTowerConfig, TokenizerConfig]:
    """Architecture and tokenizer of a file. Raises ModelError for a file of another version."""
    try:
        document = json.loads(weights.metadata.get(_METADATA, "{}"))
    except (ValueError, RecursionError) as error:
        raise ModelError("stored text encoder cannot be read", str(error)) from None
    if document.get("format") != _FORMAT:
        raise ModelError("stored text encoder is of another version", f"{document.get('format')!r}")
    return TextTowerConfig(**document["tower"]), TokenizerConfig(**document["tokenizer"])


def _in_smallest_precision(tensor: NDArray[np.float32]) -> NDArray[Any]:
    """A tensor in half precision where that loses nothing, as for weights that were published so."""
    import numpy as np

    with np.errstate(over="ignore"):
        half = tensor.astype(np.float16)
    return half if np.array_equal(half.astype(np.float32), tensor) else np.ascontiguousarray(tensor)


def _map_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Views into the file; its header lists type, shape and place of each tensor (the format of safetensors)."""
    import numpy as np

    data = np.memmap(path, np.uint8, mode="r")
    header_bytes = int.from_bytes(data[:8].tobytes(), "little")
    header = json.loads(data[8 : 8 + header_bytes].tobytes())
    types = {"F32": np.float32, "F16": np.float16, "U8": np.uint8}
    content = data[8 + header_bytes :]
    return {
        name: np.asarray(content[slice(*entry["data_offsets"])])
        .view(types[entry["dtype"]])
        .reshape(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__"
    }


class StoredTextEncoder:
    """Fills the protocol `ares.search.TextEncoder`.

    Args:
        tower: Text tower.
        tokenizer: Its tokenizer.
    """

    def __init__(self, tower: TextTower, tokenizer: TextTokenizer) -> None:
        self._tower, self._tokenizer = tower, tokenizer

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) unit vectors of N > 0 texts; longer texts are cut to the model's context."""
        import numpy as np
        from threadpoolctl import threadpool_limits

        # The matrices are small: on a busy machine a second thread of BLAS waits for its turn, five times as long.
        with threadpool_limits(1, "blas"):
            return np.stack([self._tower.encode(self._tokenizer.token_ids(text)) for text in texts])


def open_text_encoder(path: Path) -> StoredTextEncoder:
    """Open a file that `write_text_tower` wrote. Raises ModelError when it is damaged or of another version."""
    weights = MappedTowerWeights(path)
    tower, tokenizer = read_text_tower_configs(weights)
    return StoredTextEncoder(
        TextTower(tower, weights), TextTokenizer(tokenizer, weights.tokenizer_document())
    )
