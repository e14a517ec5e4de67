"""Sizes and licences of the models that ARES names in its manual, read from known_models.yaml."""

from __future__ import annotations

from functools import cache
from importlib import resources

from pydantic import BaseModel, ConfigDict


class KnownModel(BaseModel):
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

    models: tuple[KnownModel, ...]
    open_clip: dict[str, str]


def known_model(hub_id: str) -> KnownModel | None:
    """The table's entry of a hub id, or None."""
    return next((model for model in _read().models if model.id.lower() == hub_id.lower()), None)


def open_clip_hub_id(spec: str) -> str:
    """Hub id of open_clip's "ARCHITECTURE/TAG", or "" when the table does not have it."""
    return _read().open_clip.get(spec, "")


@cache
def _read() -> _KnownModels:
    import yaml

    text = resources.files("annotators.models").joinpath("known_models.yaml").read_text(encoding="utf-8")
    return _KnownModels.model_validate(yaml.safe_load(text))
