"""What is known of models by their names alone: families, language models, sizes; read from known_models.yaml."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from annotators.models.base import model_family


class ModelFamily(NamedTuple):
    """A family of vision-language models.

    Attributes:
        name: Its name ("internvl").
        language_model: The family of its language model ("qwen"), or "" when it is not known.
    """

    name: str
    language_model: str


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


class _FamilyPattern(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    pattern: str
    family: str
    language_model: str


class _KnownModels(BaseModel):
    """The file known_models.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    families: tuple[_FamilyPattern, ...]
    models: tuple[KnownModel, ...]
    open_clip: dict[str, str]


def find_family(name: str) -> ModelFamily:
    """The family of a model, by its name.

    Args:
        name: Hub id, folder or name with a fingerprint ("OpenGVLab/InternVL3-8B-hf@0f1e2d3c").
    """
    base_name = name.partition("@")[0].rstrip("/").rpartition("/")[2].lower()
    for entry in _read().families:
        if re.match(entry.pattern, base_name):
            return ModelFamily(entry.family, entry.language_model)
    return ModelFamily(model_family(base_name), "")


def share_language_model(first: str, second: str) -> str:
    """The family of language models that two models have in common, by their names; "" for none or unknown."""
    language_models = {find_family(name).language_model for name in (first, second)}
    return language_models.pop() if len(language_models) == 1 else ""


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
