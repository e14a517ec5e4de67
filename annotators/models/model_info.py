"""What is known of a model without loading it: whether it can be had, its files and its size."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module, resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ares.console import print_message
from ares.errors import ModelError
from ares.imports import needs_extra
from ares.io import ask_hub, hub_constants
from ares.jobs import WorkerNeeds
from ares_annotators.models.model_files import ModelFiles, find_model_in_folder, find_model_in_hub_cache

_PROBE_SECONDS = 3.0
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
# Activations and the cache of attention need about this much more memory than the weights, of 16 bits each.
_MEMORY_FACTOR = 1.2
_BYTES_PER_WEIGHT = 2
# A process with torch and transformers, without weights.
_PROCESS_BYTES = 700_000_000


def estimate_worker_resources(spec: str) -> WorkerNeeds:
    """What a worker with a model takes: memory for its weights with 32 bits, as a CPU has them, and a GPU."""
    if spec.partition(":")[0] in ("stub", "hash", "openai"):
        return WorkerNeeds()
    files, known = find_model_files(spec), find_known_model(_find_hub_id(spec))
    parameters = files.count_parameters() if files else known and known.parameters
    weight_bytes = 4 * parameters if parameters else files.nbytes if files else 0
    return WorkerNeeds(memory_bytes=_PROCESS_BYTES + round(weight_bytes * _MEMORY_FACTOR), gpus=1.0)


def find_model_files(spec: str) -> ModelFiles | None:
    """The files of a model on this machine, or None when it is not here."""
    kind, _, rest = spec.removeprefix("clip:").partition(":")
    if kind in ("hf", "local-dir") and Path(rest).expanduser().is_dir():
        return find_model_in_folder(Path(rest).expanduser())
    hub_id = _find_hub_id(spec)
    return find_model_in_hub_cache(hub_id) if hub_id else None


def _find_hub_id(spec: str) -> str:
    kind, _, rest = spec.removeprefix("clip:").partition(":")
    return rest if kind in ("hf", "hf-hub") else open_clip_hub_id(spec.removeprefix("clip:"))


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
    memory = known.parameters * _BYTES_PER_WEIGHT * _MEMORY_FACTOR
    return f"{known.disk_gb:g} GB of files, {memory / 1e9:.1f} GB of memory"


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
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    parameters: float
    disk_gb: float


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

    text = resources.files("ares_annotators.models").joinpath("known_models.yaml").read_text(encoding="utf-8")
    return _KnownModels.model_validate(yaml.safe_load(text))
