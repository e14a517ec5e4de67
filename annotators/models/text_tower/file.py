"""The file of a stored text encoder: weights, architecture and tokenizer as one safetensors file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotators.models.text_tower.forward import TowerConfig
from annotators.models.text_tower.tokenizer import TokenizerConfig
from ares.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Raised when the same file would give other vectors, or when older files cannot be read.
_FORMAT = 1
_METADATA, _TOKENIZER = "ares", "tokenizer"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredTower:
    """What a text encoder is made of.

    Attributes:
        model: Portable name of the model with the fingerprint of its weights.
        tower: Architecture.
        tokenizer: What surrounds the subword model.
        tokenizer_document: The subword model, as the JSON of the `tokenizers` library.
        weights: Tensors by the names of open_clip, float32.
    """

    model: str
    tower: TowerConfig
    tokenizer: TokenizerConfig
    tokenizer_document: str
    weights: Mapping[str, NDArray[np.float32]]


class LoadedWeights:
    """The tensors of a loaded model.

    Args:
        tensors: Tensors by name, float32.
    """

    def __init__(self, tensors: Mapping[str, NDArray[np.float32]]) -> None:
        self._tensors = tensors

    def names(self) -> list[str]:
        """Names of all tensors of the tower."""
        return list(self._tensors)

    def get(self, name: str) -> NDArray[np.float32]:
        """A tensor, float32."""
        return self._tensors[name]

    def rows(self, name: str, indices: Sequence[int]) -> NDArray[np.float32]:
        """Some rows of a matrix, in the order of the indices."""
        return self._tensors[name][list(indices)]


class MappedWeights:
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
        except (OSError, ValueError, SafetensorError) as error:
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


def write_tower(path: Path, stored: StoredTower) -> None:
    """Write a text encoder; a file with this path is complete. Raises OSError when it cannot be written."""
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    document = {
        "format": _FORMAT,
        "model": stored.model,
        "tower": asdict(stored.tower),
        "tokenizer": asdict(stored.tokenizer),
    }
    tensors = {name: _smallest(tensor) for name, tensor in stored.weights.items()}
    tensors[_TOKENIZER] = np.frombuffer(stored.tokenizer_document.encode(), np.uint8)
    partial = path.with_name(f"{path.stem}.{os.getpid()}.tmp")
    try:
        partial.touch()
        mode = partial.stat().st_mode
        save_file(tensors, partial, metadata={_METADATA: json.dumps(document)})
        partial.chmod(mode)  # safetensors lets only the owner read it
        partial.replace(path)
    except SafetensorError as error:
        raise OSError(str(error)) from None
    finally:
        partial.unlink(missing_ok=True)


def read_configs(weights: MappedWeights) -> tuple[TowerConfig, TokenizerConfig]:
    """Architecture and tokenizer of a file. Raises ModelError for a file of another version."""
    document = json.loads(weights.metadata.get(_METADATA, "{}"))
    if document.get("format") != _FORMAT:
        raise ModelError("stored text encoder is of another version", f"{document.get('format')!r}")
    return TowerConfig(**document["tower"]), TokenizerConfig(**document["tokenizer"])


def _smallest(tensor: NDArray[np.float32]) -> NDArray[Any]:
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
