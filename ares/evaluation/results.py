"""Results of rollouts that people bring in tables: each is an action of the log, so `ares undo` takes it back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ares.console import visible
from ares.curation import Sets
from ares.errors import AresError, RequestError, SourceError, first_fault, shorten
from ares.input import STRICT_JSON, TableColumns, read_table
from ares.io import expanded_path
from ares.settings import user_name
from ares.store import (
    new_members_key,
    read_action_members,
    read_history,
    record_action,
    write_action_members,
)

if TYPE_CHECKING:
    from ares.store import AnnotationStore


_COLUMNS = TableColumns(needed=("policy", "task"), either=(("success",), ("score",)))
_Text = Annotated[str, Field(max_length=200)]
_Name = Annotated[str, Field(min_length=1, max_length=200)]


class Trial(NamedTuple):
    """One rollout of a policy.

    Attributes:
        policy: Name of the policy.
        task: The task.
        start: What says that another trial began alike: a start, a seed or both; "" where nothing does.
        score: 1 for a success, 0 for a failure, or what lies between.
        set: Name and version of the set that the policy was trained on, or "".
        ids_hash: Hash of the members of the set, or "".
    """

    policy: str
    task: str
    start: str
    score: float
    set: str = ""
    ids_hash: str = ""


class AddedResults(NamedTuple):
    """What became of the rows of a table of results.

    Attributes:
        added: Number of trials that are new.
        known: Number of trials that were added before.
        action: Number of the action, which `ares undo` takes back; 0 where nothing is new.
        bad: Line and reason of each row that could not be used.
    """

    added: int
    known: int
    action: int
    bad: tuple[str, ...]


class _ResultRow(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    policy: _Name
    task: _Name
    set: _Text = ""
    start: _Text = ""
    seed: _Text = ""
    success: bool | None = None
    score: Annotated[float, Field(ge=0, le=1)] | None = None


def add_results(log: AnnotationStore, path: str | Path, person: str = "") -> AddedResults:
    """Add the trials of a file, but those that it had when it was added before; a bad row is named and left out.

    Args:
        log: The annotation log.
        path: A CSV, JSONL or Parquet file: policy, task, success or score, and perhaps set, start and seed.
        person: Who adds them; the user by default.

    Raises:
        RequestError: It cannot be read, is no table or lacks a column.
        StoreError: The log cannot be written.
    """
    file = str(Path(expanded_path(str(path))).resolve())
    find_set = cache(partial(_find_set, Sets(log)))  # a card may hold a million ids
    trials, bad = list[Trial](), list[str]()
    try:
        for number, cells in read_table(file, _COLUMNS):
            try:
                trials.append(_read_row(cells, find_set))
            except AresError as error:
                bad.append(visible(shorten(f"line {number}: {error}")))
    except SourceError as error:
        raise RequestError(error.reason, error.detail) from None
    known = Counter(trial for name, table in _read_files(log) if name == file for trial in table)
    new = list[Trial]()
    for trial in trials:
        if known[trial]:
            known[trial] -= 1
        else:
            new.append(trial)
    action_number = 0
    if new:
        with log.atomic():
            key, who = new_members_key(), person.strip() or user_name()
            count = write_action_members(log, key, (list[Any](trial) for trial in new))
            action = record_action(log, "evaluate", who, count=count, members=key, details={"file": file})
            action_number = action.number
    return AddedResults(len(new), len(trials) - len(new), action_number, tuple(bad))


def read_trials(log: AnnotationStore) -> dict[str, list[Trial]]:
    """The trials of each policy, by name, in the order in which they were added. Raises StoreError."""
    trials = sorted((trial for _, table in _read_files(log) for trial in table), key=itemgetter(0))
    return {policy: list(same) for policy, same in groupby(trials, itemgetter(0))}


def _read_files(log: AnnotationStore) -> Iterator[tuple[str, list[Trial]]]:
    """The path and the new trials of each file that was added."""
    for action in read_history(log).effective(("evaluate",)):
        blocks = read_action_members(log, action)
        yield str(action.details["file"]), [Trial(*row) for block in blocks for row in block]


def _read_row(cells: Mapping[str, Any] | SourceError, find_set: Callable[[str], tuple[str, str]]) -> Trial:
    """The trial of a row. Raises AresError where it is wrong."""
    if isinstance(cells, SourceError):
        raise cells
    try:
        row = _ResultRow.model_validate({name: cell for name, cell in cells.items() if cell != ""})
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        raise RequestError(first_fault(error), f"got {cells.get(name, '')!r}") from None
    score = row.score if row.success is None else row.success
    if score is None:
        raise RequestError("the trial has no result", "give success (true or false) or score (0 to 1)")
    start = "/".join(filter(None, (row.start, row.seed)))
    return Trial(row.policy, row.task, start, float(score), *find_set(row.set))


def _find_set(sets: Sets, text: str) -> tuple[str, str]:
    """Label and hash of the set of a name, or of a manifest, card or lock at a path. Raises RequestError."""
    if not text.endswith(".json"):
        return (sets[text].label, sets[text].ids_hash) if text else ("", "")
    try:
        document = json.loads(Path(expanded_path(text)).read_bytes(), **STRICT_JSON)
        header = document.get("set", document)
        return f"{header['name']}@{int(header['version'])}", str(header["ids_hash"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        detail = "give NAME@VERSION, or the path of a manifest, card or lock"
        raise RequestError(f"{text} states no set", detail) from None
