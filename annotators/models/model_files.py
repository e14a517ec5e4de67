"""The files of a model, in a folder or in the cache of the hub."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ares.io import hub_constants

_SAFETENSORS, _PICKLES = "*.safetensors", ("*.bin", "*.pt", "*.pth")

_MAX_HEADER_BYTES = 100_000_000


class ModelFiles(NamedTuple):
    """The files of one model.

    Attributes:
        folder: Their folder.
        weight_files: Those that hold weights.
    """

    folder: Path
    weight_files: tuple[Path, ...]

    @property
    def nbytes(self) -> int:
        """Size of the weights on disk."""
        return sum(path.stat().st_size for path in self.weight_files)

    @property
    def stamp(self) -> str:
        """Text that changes when the weights or their configuration change: names, sizes and times of the files."""
        configs = sorted(self.folder.glob("*.json"))
        states = [(path.name, path.stat()) for path in (*self.weight_files, *configs)]
        return json.dumps([[name, state.st_size, state.st_mtime_ns] for name, state in states])

    def count_parameters(self) -> int | None:
        """Number of weights by the headers of the safetensors files; None for other files."""
        if not self.weight_files or any(path.suffix != ".safetensors" for path in self.weight_files):
            return None
        try:
            return sum(math.prod(shape) for path in self.weight_files for shape in _tensor_shapes(path))
        except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError, struct.error):
            return None


def find_model_in_folder(folder: Path) -> ModelFiles | None:
    """The model in a folder, or None when there are no weights."""
    weights = sorted(folder.glob(_SAFETENSORS))
    weights = weights or sorted(path for pattern in _PICKLES for path in folder.glob(pattern))
    return ModelFiles(folder, tuple(weights)) if weights else None


def find_model_in_hub_cache(hub_id: str) -> ModelFiles | None:
    """The model of a hub id in the cache of the hub's client, or None when it is not there as a whole."""
    repository = find_hub_cache_folder() / f"models--{hub_id.replace('/', '--')}"
    try:
        commit = (repository / "refs" / "main").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    files = find_model_in_folder(repository / "snapshots" / commit)
    return files if files and _has_every_shard(files) else None


def find_hub_cache_folder() -> Path:
    """Folder where the hub's client keeps what it has fetched."""
    constants = hub_constants()
    return Path(constants.HF_HUB_CACHE) if constants else Path("~/.cache/huggingface/hub").expanduser()


def _has_every_shard(files: ModelFiles) -> bool:
    """Whether the weights that the index lists are all there."""
    for index in files.folder.glob("*.index.json"):
        try:
            names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
            return False
        if not all((files.folder / name).exists() for name in names):
            return False
    return True


def _tensor_shapes(path: Path) -> Iterator[list[int]]:
    """Shapes of the tensors of a safetensors file: a header of JSON after its length, 8 bytes little endian."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > _MAX_HEADER_BYTES:
            raise ValueError(f"header of {length} bytes")
        header = json.loads(file.read(length))
    yield from (tensor["shape"] for name, tensor in header.items() if name != "__metadata__")
