"""Reads lock files of sets, which anybody may have written: they are checked as a whole before anything is made."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ares.console import count_of, visible
from ares.curation.sets import CurationSet, hash_members, read_header
from ares.episode import Json, Span
from ares.errors import AresError, RequestError, first_fault, shorten
from ares.input import STRICT_JSON
from ares.names import check_name

# A million spans with texts of a line take a fifth of it.
_LARGEST_BYTES, _LARGEST_VERSION = 2**30, 999_999


def _checked_name(name: str) -> str:
    try:
        check_name("set", name)
    except RequestError as error:
        raise ValueError(str(error)) from None
    return name


def _check_time(text: str) -> str:
    datetime.fromisoformat(text)
    return text


IsoTime = Annotated[str, Field(max_length=40), AfterValidator(_check_time)]
_Count = Annotated[int, Field(ge=0, le=2**53)]
_Text = Annotated[str, Field(max_length=20_000)]


class _Lock(BaseModel):
    """The fields of a set; those of a card beside them are checked where they are read."""

    model_config = ConfigDict(extra="ignore", strict=True)

    name: Annotated[str, Field(max_length=200), AfterValidator(_checked_name)]
    version: Annotated[int, Field(ge=1, le=_LARGEST_VERSION)]
    created: IsoTime
    recipe: dict[str, Any]
    episodes: _Count
    ids_hash: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    spans: _Count | None = None
    note: _Text = ""
    person: _Text = ""
    purged: _Count = 0
    ids: list[_Text]


# A card has more of them.
LOCK_FIELDS = frozenset(_Lock.model_fields)


def read_lock_document(path: Path) -> dict[str, Any]:
    """The JSON object of a lock file or card. Raises RequestError for any other file."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ValueError(f"larger than {_LARGEST_BYTES} bytes")
        document = json.loads(path.read_bytes(), **STRICT_JSON)
    except (OSError, ValueError, RecursionError) as error:
        refuse_lock(path, error)
    if not isinstance(document, dict):
        refuse_lock(path, ValueError("no JSON object"))
    return document


def parse_lock(document: Json, path: Path) -> tuple[CurationSet, list[str]]:
    """The set and the members of a document of `write_lock`.

    Args:
        document: The JSON of the file, or of a part of it.
        path: The file, for errors.

    Returns:
        The set, and its members: ids of episodes, or lines of spans.

    Raises:
        RequestError: It is no lock, or its ids were changed.
    """
    try:
        lock = _Lock.model_validate(document)
        selection = read_header(lock.model_dump(exclude={"ids"}))
        if any(first >= second for first, second in pairwise(lock.ids)):
            raise ValueError("ids: they are not sorted, or one is there twice")
        for id in lock.ids if lock.spans is not None else ():
            Span.parse(id)
    except ValueError as error:
        refuse_lock(path, error)
    ids_hash, episodes, count = hash_members(lock.ids)
    stated = (selection.ids_hash, selection.num_members, selection.episodes)
    if (ids_hash, count, episodes) != stated or not count:
        expected = f"{selection.num_members} with {selection.ids_hash}"
        raise RequestError(
            "the lock file was changed after it was written",
            f"{path}: {count_of(count, 'id')} with hash {ids_hash}, expected {expected}",
        )
    return selection, lock.ids


def refuse_lock(path: Path, error: Exception) -> NoReturn:
    """Raise the RequestError for a file that is no lock file, with the first thing wrong."""
    text = str(error) if isinstance(error, AresError) else repr(error)
    if isinstance(error, ValidationError):
        text = first_fault(error)
    raise RequestError("the lock file cannot be read", f"{path}: {shorten(visible(text))}") from None
