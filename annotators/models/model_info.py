"""What is known of a model without loading it: whether it can be had, its size and its licence."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module, resources
from importlib.util import find_spec
from typing import Any

from pydantic import BaseModel, ConfigDict

from ares.console import print_message
from ares.errors import ModelError
from ares.imports import needs_extra
from ares.io import ask_hub, hub_constants
from ares_annotators.models.model_files import find_model_in_hub_cache

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

    text = resources.files("ares_annotators.models").joinpath("known_models.yaml").read_text(encoding="utf-8")
    return _KnownModels.model_validate(yaml.safe_load(text))
