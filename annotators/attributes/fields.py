"""The questions of `ares annotate attributes`: a YAML list of typed fields, and the columns that they fill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from ares.annotation import ATTRIBUTE_PREFIX, Column, ColumnType, Rollup
from ares.errors import RequestError, SourceError
from ares.input import parse_yaml

UNKNOWN = "unknown"
_MOST_FIELDS = 60

FieldType = Literal["enum", "boolean", "integer", "number", "text", "texts"]
About = Literal["episode", "first_frame", "instruction", "segment"]

# The type of the column of a field, and what the values of segments make of an episode.
_COLUMN_TYPES: Mapping[FieldType, tuple[ColumnType, Rollup]] = {
    "enum": ("string", "list"),
    "boolean": ("bool", "any"),
    "integer": ("int64", "max"),
    "number": ("float64", "mean"),
    "text": ("string", "list"),
    "texts": ("list<string>", "union"),
}


def _describe_choices(value: Any) -> Any:
    """A list of choices as a mapping to what they mean."""
    return {choice: choice for choice in value} if isinstance(value, list) else value


_Choice = Annotated[str, Field(min_length=1, max_length=60)]
_Sentence = Annotated[str, Field(min_length=1, max_length=500)]


class AttributeField(BaseModel):
    """One question, and which answers it has; that a model cannot tell is always one.

    Attributes:
        name: Its name; its column is `attr_NAME`.
        question: What is asked.
        type: Type of the answer; "texts" are several short ones.
        about: What is looked at: all frames, the first of each camera, a segment, or the instruction alone.
        choices: Of an enum: the answers, and what each means.
        minimum: Least number, or None.
        maximum: Largest number, or None.
        unit: Unit of a number, or "".
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    question: _Sentence
    type: FieldType
    about: About = "episode"
    choices: Annotated[dict[_Choice, _Sentence], BeforeValidator(_describe_choices)] = {}
    minimum: float | None = None
    maximum: float | None = None
    unit: str = ""

    @model_validator(mode="after")
    def _check_choices(self) -> AttributeField:
        if (len(self.choices) > 1) != (self.type == "enum"):
            raise ValueError("an enum has two or more choices, and no other type has any")
        if UNKNOWN in self.choices:
            raise ValueError(f"{UNKNOWN!r} is always possible and no choice")
        return self

    @property
    def column(self) -> str:
        """Name of its column."""
        return f"{ATTRIBUTE_PREFIX}{self.name}"

    def describe_column(self) -> Column:
        """Its column."""
        type_name, rollup = _COLUMN_TYPES[self.type]
        return Column(
            name=self.column,
            type=type_name,
            meaning=self.question,
            unit=self.unit,
            choices=tuple(self.choices),
            rollup=rollup if self.about == "segment" else "",
        )


_FIELDS = TypeAdapter(Annotated[list[AttributeField], Field(min_length=1, max_length=_MOST_FIELDS)])


def read_fields(path: str) -> Sequence[AttributeField]:
    """The fields of a YAML file; the shipped ones for "".

    Raises:
        RequestError: The file cannot be read, is no list of fields, or names one twice.
    """
    name = path or "fields.yaml"
    source = Path(path) if path else files("ares_annotators.attributes").joinpath(name)
    try:
        fields = _FIELDS.validate_python(parse_yaml(source.read_text(encoding="utf-8"), name))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise RequestError(
            "file of fields is wrong", f"{name}: {where}: {first['msg']}, got {str(first['input'])[:80]!r}"
        ) from None
    except (OSError, UnicodeDecodeError, SourceError) as error:
        raise RequestError("file of fields cannot be read", f"{name}: {error}") from None
    names = [field.name for field in fields]
    if repeated := {field for field in names if names.count(field) > 1}:
        raise RequestError("a field is there twice", f"{name}: {min(repeated)!r}")
    return fields
