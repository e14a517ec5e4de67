"""What is known of families of models: which of them share a language model."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from ares.errors import RequestError, SourceError
from ares.input import parse_yaml
from ares_annotators.models.base import model_family


class ModelFamily(NamedTuple):
    """A family of vision-language models.

    Attributes:
        name: Its name ("internvl").
        language_model: Release of the language model that it was trained from ("qwen2.5"), or "" when not known.
    """

    name: str
    language_model: str


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


@cache
def _read_table() -> tuple[_Entry, ...]:
    import yaml

    text = (
        resources.files("ares_annotators.models")
        .joinpath("families", "table.yaml")
        .read_text(encoding="utf-8")
    )
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
