"""What is known of families of models: which of them share a language model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from annotators.models.base import model_family
from ares.errors import RequestError, SourceError
from ares.input import parse_yaml

# "same": trained from one release of a language model; "lineage": from releases of one family of them.
Closeness = Literal["same", "lineage", ""]


class ModelFamily(NamedTuple):
    """A family of vision-language models.

    Attributes:
        name: Its name ("internvl").
        language_model: Release of the language model that it was trained from ("qwen2.5"), or "" when not known.
    """

    name: str
    language_model: str

    @property
    def lineage(self) -> str:
        """Family of the language model, without the release ("qwen"), or ""."""
        return model_family(self.language_model) if self.language_model else ""


@dataclass(frozen=True, slots=True)
class ModelRelation:
    """What two models have in common.

    Attributes:
        closeness: How close they are; "" for models that are not known to share anything.
        language_model: The release, or the lineage, that they share.
    """

    closeness: Closeness
    language_model: str = ""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    pattern: str
    family: str
    language_model: str
    source: str = ""

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
        return pattern


class _Table(BaseModel):
    """The file table.yaml, and that of a user."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    families: tuple[_Entry, ...]


@cache
def find_family(name: str, file: str = "") -> ModelFamily:
    """The family of a model, by its name.

    Args:
        name: Hub id, folder or name with a fingerprint ("OpenGVLab/InternVL3-8B-hf@0f1e2d3c").
        file: A file of the user, whose entries come before those of the package, or "".

    Raises:
        RequestError: The file cannot be read.
    """
    base_name = name.partition("@")[0].rstrip("/").rpartition("/")[2].lower()
    for entry in (*_read_user_table(file), *_read_table()):
        if re.match(entry.pattern, base_name):
            return ModelFamily(entry.family, entry.language_model)
    return ModelFamily(model_family(base_name), "")


def compare_models(first: Iterable[str], second: Iterable[str], file: str = "") -> ModelRelation:
    """What two models have in common, each known by one or more names; the closest counts.

    Args:
        first: Names of one model: that of its server, and the hub id behind it.
        second: Names of the other.
        file: As for `find_family`. Raises RequestError as it does.
    """
    closest = ModelRelation("")
    for name, other_name in product(first, second):
        family, other_family = find_family(name, file), find_family(other_name, file)
        if family.language_model and family.language_model == other_family.language_model:
            return ModelRelation("same", family.language_model)
        if family.lineage and family.lineage == other_family.lineage:
            closest = ModelRelation("lineage", family.lineage)
    return closest


def find_shared_lineage(families: Iterable[str]) -> str:
    """The family of language models that some language models have in common, or ""."""
    lineages = {model_family(language_model) if language_model else "" for language_model in families}
    return lineages.pop() if len(lineages) == 1 else ""


@cache
def _read_table() -> tuple[_Entry, ...]:
    import yaml

    text = resources.files("annotators.models").joinpath("families", "table.yaml").read_text(encoding="utf-8")
    return _Table.model_validate(yaml.safe_load(text)).families


@cache
def _read_user_table(file: str) -> tuple[_Entry, ...]:
    if not file:
        return ()
    try:
        return _Table.model_validate(parse_yaml(Path(file).expanduser().read_text("utf-8"), file)).families
    except OSError as error:
        raise RequestError(
            "the table of model families cannot be read", f"{file}: {error.strerror}"
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise RequestError(
            "the table of model families is wrong", f"{file}: {field or 'file'}: {first['msg']}"
        ) from None
    except (SourceError, UnicodeDecodeError) as error:
        raise RequestError("the table of model families is no YAML", f"{file}: {error}") from None
