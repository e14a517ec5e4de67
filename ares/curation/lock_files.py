"""Reads lock files of sets, which anybody may have written: they are checked as a whole before anything is made."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ares.console import count_of, visible
from ares.curation.sets import CurationSet, hash_members, read_header
from ares.episode import Span
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


_IsoTime = Annotated[str, Field(max_length=40), AfterValidator(_check_time)]
_Count = Annotated[int, Field(ge=0, le=2**53)]
_Text = Annotated[str, Field(max_length=20_000)]


class SetLock(BaseModel):
    """The fields of a set in a lock file, with its members: ids of episodes, or lines of spans."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    name: Annotated[str, Field(max_length=200), AfterValidator(_checked_name)]
    version: Annotated[int, Field(ge=1, le=_LARGEST_VERSION)]
    created: _IsoTime
    recipe: dict[str, Any]
    episodes: _Count
    ids_hash: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    spans: _Count | None = None
    note: _Text = ""
    person: _Text = ""
    purged: _Count = 0
    ids: list[_Text]


Lock = TypeVar("Lock", bound=SetLock)


def read_lock(path: Path, form: type[Lock]) -> tuple[Lock, CurationSet]:
    """A lock file, and the set that it is of.

    Args:
        path: The file.
        form: Its fields; others are ignored.

    Raises:
        RequestError: It is no lock, or its ids were changed.
    """
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ValueError(f"larger than {_LARGEST_BYTES} bytes")
        # Python's reader refuses keys twice and levels without end.
        document = json.loads(path.read_bytes(), **STRICT_JSON)
        lock = form.model_validate(document)
        selection = read_header(lock.model_dump(include=set(SetLock.model_fields) - {"ids"}))
        if any(first >= second for first, second in pairwise(lock.ids)):
            raise ValueError("ids: they are not sorted, or one is there twice")
        for id in lock.ids if lock.spans is not None else ():
            Span.parse(id)
    except ValidationError as error:
        _refuse_lock(path, first_fault(error))
    except (OSError, ValueError, RecursionError) as error:
        _refuse_lock(path, str(error) if isinstance(error, AresError) else repr(error))
    ids_hash, episodes, count = hash_members(lock.ids)
    stated = (selection.ids_hash, selection.num_members, selection.episodes)
    if (ids_hash, count, episodes) != stated or not count:
        expected = f"{selection.num_members} with {selection.ids_hash}"
        raise RequestError(
            "the lock file was changed after it was written",
            f"{path}: {count_of(count, 'id')} with hash {ids_hash}, expected {expected}",
        )
    return lock, selection


def _refuse_lock(path: Path, text: str) -> NoReturn:
    detail = f"{path}: {shorten(visible(text))}; `ares set lock` writes one"
    raise RequestError("the lock file cannot be read", detail) from None
