"""Files of options that a person edits: `--write-options` writes one, and `--options` reads it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ares.errors import RequestError, SourceError
from ares.input.documents import parse_yaml, read_yaml
from ares.io import describe_os_error
from ares.registry import did_you_mean

if TYPE_CHECKING:
    from pydantic import BaseModel

ParsedModel = TypeVar("ParsedModel", bound="BaseModel")


def read_options_document(path: str, names: Iterable[str]) -> dict[str, Any]:
    """The mapping in an options file, or in a text that is one: a text that starts with "{".

    Args:
        path: The file, or the text.
        names: The keys that it may have.

    Raises:
        RequestError: The file cannot be read, is no mapping, or has an unknown key.
    """
    try:
        document = parse_yaml(path, "--options") if path.startswith("{") else read_yaml(path)
    except (OSError, SourceError) as error:
        raise RequestError("the options file cannot be read", f"{path}: {error}") from None
    return check_option_keys(document, names, path)


def check_option_keys(values: object, names: Iterable[str], where: str) -> dict[str, Any]:
    """The values as a mapping; none where there is nothing but comments.

    Raises:
        RequestError: They are no mapping, or have an unknown key.
    """
    known = list(names)
    if not isinstance(values, dict | None):
        raise RequestError(
            "the options file has a wrong form", f"{where}: {values!r} is no mapping of {', '.join(known)}"
        )
    for key in values or {}:
        if key not in known:
            hint = f"{did_you_mean(str(key), known)}there are: {', '.join(known) or 'none'}"
            raise RequestError(f"the options file has an unknown key {key!r}", f"{where}: {hint}")
    return values or {}


def parse_option_values(model: type[ParsedModel], values: object, where: str) -> ParsedModel:
    """The options in a mapping of an options file.

    Raises:
        RequestError: It is no mapping, has an unknown key, or a value of a wrong type.
    """
    from pydantic import ValidationError

    known = check_option_keys(values, model.model_fields, where)
    try:
        return model.model_validate(known)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise RequestError(
            f"the options file has a wrong {key}", f"{where}: {first['msg']}: {first['input']!r}"
        ) from None


def format_options(model: type[BaseModel]) -> str:
    """The options of a model as YAML to edit: what each is for, and behind "#" its default."""
    parts = []
    for name, field in model.model_fields.items():
        default = json.dumps(field.get_default(call_default_factory=True), ensure_ascii=False)
        comment = textwrap.indent(textwrap.fill(field.description or name, 96), "# ")
        parts.append(f"{comment}\n#{name}: {default}\n")
    return "".join(parts)


def format_option_groups(key: str, models: Mapping[str, type[BaseModel]]) -> str:
    """The options of several models as YAML to edit, by name below a key."""
    groups = (f"{name}:\n{textwrap.indent(format_options(model), '  ')}" for name, model in models.items())
    return f"{key}:\n{textwrap.indent(''.join(groups), '  ')}"


def write_options_text(path: str, text: str) -> None:
    """Write an options file. Raises RequestError where it exists already, or cannot be written."""
    try:
        with Path(path).expanduser().open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise RequestError("the options file exists already", f"{path}: choose another name") from None
    except OSError as error:
        raise RequestError(
            "the options file cannot be written", f"{path}: {describe_os_error(error)}"
        ) from None
