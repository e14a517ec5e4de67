"""What is known of a model without loading it: whether it can be had, its size and its licence."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module, resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from pydantic import BaseModel, ConfigDict

from annotators.models.base import IMAGE_SETTINGS, Capability
from annotators.models.model_families import find_family
from ares.annotation import short_hash
from ares.console import print_message
from ares.episode import Json
from ares.errors import ModelError
from ares.imports import needs_extra
from ares.io import ask_hub, hub_constants

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from annotators.models.base import VlmFailure, VlmReply, VlmRequest
    from ares.store import Stores


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

    def language_model(self) -> str:
        """Type of the language model by config.json ("qwen2"), or ""."""
        config = self._config()
        text = config.get("text_config")
        model_type = text.get("model_type") if isinstance(text, dict) else config.get("model_type")
        return str(model_type or "")

    def licence(self) -> str:
        """Licence by the head of README.md, or ""."""
        try:
            text = (self.folder / "README.md").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        match = re.match(r"---\n(?:.*\n)*?license: *[\"']?([\w.-]+)", text)
        return match[1] if match else ""

    def _config(self) -> dict[str, Any]:
        try:
            config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return config if isinstance(config, dict) else {}


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


_PROBE_SECONDS = 3.0
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
# Activations and the cache of attention need about this much more memory than the weights, of 16 bits each.
MEMORY_FACTOR = 1.2
_BYTES_PER_WEIGHT = 2


def memory_bytes(parameters: float) -> int:
    """Memory that a model of so many 16-bit weights needs."""
    return round(parameters * _BYTES_PER_WEIGHT * MEMORY_FACTOR)


def _is_installed(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except (ImportError, ValueError):  # one that something keeps from being imported
        return False


def prepare_hub(spec: str, hub_id: str) -> None:
    """Print that a model comes from the hub now, or have its client use what is on this machine.

    Without a network the client would retry for half a minute for every single file of a model.

    Args:
        spec: The spec that names the model.
        hub_id: Its id on the hub, or "" where it is not known.

    Raises:
        ModelError: The model is not on this machine, and the hub does not answer.
        RequestError: The extra `models` is not installed, or the address of the hub cannot be read.
    """
    with needs_extra("models"):
        # Without them no network would help; those that are there take seconds to import.
        for library in (
            "torch",
            "transformers" if spec.startswith("hf:") else "open_clip",
            "huggingface_hub",
        ):
            if not _is_installed(library):
                import_module(library)
    constants: Any = hub_constants()
    if not constants.HF_HUB_OFFLINE:
        try:
            ask_hub(_PROBE_SECONDS)
        except ConnectionError:
            _silent_hubs.add(constants.ENDPOINT)
            constants.HF_HUB_OFFLINE = True
    if not _HUB_ID.fullmatch(hub_id) or find_model_in_hub_cache(hub_id) is not None:
        return
    if not constants.HF_HUB_OFFLINE:
        print_message(f"downloading the model {hub_id} from the hub")
    elif constants.ENDPOINT in _silent_hubs:
        raise ModelError(
            "the model is not on this machine, and the hub does not answer",
            f"{hub_id} ({_size_text(hub_id)}); connect to the network, or give {_other_models(spec)}",
        )


# Those that did not answer: they are not asked for every model of a run.
_silent_hubs: set[str] = set()


def _size_text(hub_id: str) -> str:
    known = find_known_model(hub_id)
    if known is None:
        return "its size is not known here"
    return f"{known.disk_gb:g} GB of files, {memory_bytes(known.parameters) / 1e9:.1f} GB of memory"


def _other_models(spec: str) -> str:
    """What can be given in place of a model of the hub, in words."""
    if spec.startswith("hf:"):
        return "a copy by --model hf:FOLDER, or a server by --model openai:NAME@URL"
    return "a copy by --model local-dir:FOLDER"


class KnownHubModel(BaseModel):
    """A model of the hub, with rounded sizes.

    Attributes:
        id: Its hub id.
        parameters: Number of weights.
        disk_gb: Size of its files, in gigabytes.
        licence: Licence of the weights.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    parameters: float
    disk_gb: float
    licence: str


class _KnownModels(BaseModel):
    """The file known_models.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: tuple[KnownHubModel, ...]
    open_clip: dict[str, str]


def find_known_model(hub_id: str) -> KnownHubModel | None:
    """The table's entry of a hub id, or None."""
    return next((model for model in _read_known_models().models if model.id.lower() == hub_id.lower()), None)


def open_clip_hub_id(spec: str) -> str:
    """Hub id of open_clip's "ARCHITECTURE/TAG", or "" when the table does not have it."""
    return _read_known_models().open_clip.get(spec, "")


@cache
def _read_known_models() -> _KnownModels:
    import yaml

    text = resources.files("annotators.models").joinpath("known_models.yaml").read_text(encoding="utf-8")
    return _KnownModels.model_validate(yaml.safe_load(text))


# Part of the name of a model whose fingerprint is not known.
UNKNOWN_UNTIL_LOADED = "unknown until loaded"
_COLLECTION = "loaded_models"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadedVlm:
    """Fills the protocol `annotators.models.base.Vlm`, but cannot answer.

    Attributes:
        name: Name of the model, with UNKNOWN_UNTIL_LOADED where its fingerprint is not known.
        family: Its family.
    """

    name: str
    family: str
    batch_size: int = 1
    workers: int = 1
    capabilities: frozenset[Capability] = frozenset()
    settings: Mapping[str, Json] = field(default_factory=lambda: IMAGE_SETTINGS)

    def ask(self, requests: Sequence[VlmRequest]) -> Sequence[VlmReply | VlmFailure]:
        """Raises RuntimeError: an estimate calls no model."""
        _raise_not_loaded(self.name)


@dataclass(slots=True, kw_only=True)
class UnloadedEncoder:
    """Fills the protocol `annotators.models.load_encoder.NamedEncoder`, but cannot encode."""

    name: str
    dim: int = 0

    def encode_images(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Raises RuntimeError."""
        _raise_not_loaded(self.name)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Raises RuntimeError."""
        _raise_not_loaded(self.name)


def store_model_description(
    stores: Stores, spec: str, name: str, family: str = "", capabilities: Iterable[str] = ()
) -> None:
    """Store what is known of a model that was loaded, with a stamp of its files; the stand-ins read it."""
    files = _files_of(spec)
    if files is None:
        return
    document: Json = {
        "spec": spec,
        "name": name,
        "family": family,
        "capabilities": [*sorted(capabilities)],
        "stamp": short_hash(files.stamp),
    }
    if stores.annotations.get_document(_COLLECTION, short_hash(spec)) != document:
        stores.annotations.put_documents(_COLLECTION, {short_hash(spec): document})


def make_unloaded_vlm(spec: str, stores: Stores | None) -> UnloadedVlm:
    """The stand-in for the vision-language model of a spec; no file of weights is read."""
    known = _remembered_facts(spec, stores)
    source = spec.partition(":")[2]
    return UnloadedVlm(
        name=known.get("name") or f"{source} ({UNKNOWN_UNTIL_LOADED})",
        family=known.get("family") or find_family(source).name,
        capabilities=frozenset(known.get("capabilities", ())),
    )


def make_unloaded_encoder(spec: str, stores: Stores) -> UnloadedEncoder:
    """The stand-in for the encoder of a spec."""
    return UnloadedEncoder(
        name=_remembered_facts(spec, stores).get("name") or f"{spec} ({UNKNOWN_UNTIL_LOADED})"
    )


def _remembered_facts(spec: str, stores: Stores | None) -> dict[str, Any]:
    """What is known of a model that was loaded from the same files; nothing for another model."""
    files = _files_of(spec)
    document = stores.annotations.get_document(_COLLECTION, short_hash(spec)) if stores and files else None
    if not files or not isinstance(document, dict) or document["stamp"] != short_hash(files.stamp):
        return {}
    return document


def _files_of(spec: str) -> ModelFiles | None:
    """The files of a model on this machine, or None when it is not here."""
    kind, _, rest = spec.partition(":")
    if kind in ("hf", "local-dir") and Path(rest).is_dir():
        return find_model_in_folder(Path(rest))
    hub_id = rest if kind in ("hf", "hf-hub") else open_clip_hub_id(spec)
    return find_model_in_hub_cache(hub_id) if hub_id else None


def _raise_not_loaded(name: str) -> NoReturn:
    raise RuntimeError(f"{name} was not loaded: this is an estimate")
