"""The form of an answer in a file that anybody may have written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Json, ValidationError

from ares.errors import RequestError, shorten
from ares.review import Answer, is_about_episode

_Name = Annotated[str, Field(min_length=1, max_length=200)]
_MOST_SLOTS, _MOST_ITEMS = 50, 2**31


class _AnswerRow(BaseModel):
    """The fields of an `Answer`; cells of CSV are texts."""

    model_config = ConfigDict(extra="ignore", strict=True, str_max_length=4_000)

    question: _Name
    subject_id: _Name
    subject_kind: Annotated[str, Field(pattern="^(episode|annotation)$")] | None = None
    verdict: str
    person: _Name
    reason: str = ""
    failure_kind: str = ""
    severity: str = ""
    text: str = ""
    slots: Annotated[dict[str, str] | Json[dict[str, str]], Field(max_length=_MOST_SLOTS)] = Field(
        default_factory=dict
    )
    queue: str = ""
    item: Annotated[int, Field(strict=False, ge=0, le=_MOST_ITEMS)] = 0
    shown: Annotated[bool, Field(strict=False)] = False


def answer_from_row(row: Mapping[str, Any]) -> Answer:
    """The answer of a row of a file, of which CSV has texts alone; columns that no answer has are left out.

    Raises:
        RequestError: A column is missing, or has a wrong value.
    """
    fields = _read_answer_fields(row)
    is_of_episode = is_about_episode(fields["question"])
    return Answer(**{"subject_kind": "episode" if is_of_episode else "annotation", **fields})


def _read_answer_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a row gives. Raises RequestError where one is missing, or has a wrong value."""
    fields = {name: value for name, value in row.items() if value is not None}
    fields |= {name: default for name, default in (("item", 0), ("slots", {})) if not fields.get(name, True)}
    try:
        return _AnswerRow.model_validate(fields).model_dump(exclude_unset=True)
    except ValidationError as error:
        faults = error.errors(include_url=False)
    missing = [str(fault["loc"][0]) for fault in faults if fault["type"] == "missing"]
    if missing:
        raise RequestError("an answer lacks a column", ", ".join(missing))
    field = str(faults[0]["loc"][0])
    raise RequestError(
        "an answer has a wrong value", shorten(f"{field}: {faults[0]['msg']}, got {fields[field]!r}")
    )
