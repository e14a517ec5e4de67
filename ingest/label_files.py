"""Reads files of labels beside the episodes of a dataset: which episode each row of a JSON, CSV or YAML file names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ares.episode import Json
from ares.errors import SourceError
from ares.input import EpisodeNames, read_cells, read_json, read_whole_number, read_yaml
from ingest.source_words import OUTCOME_WORDS, SPLIT_WORDS, is_column_of, normalise_name

_YAML_SUFFIXES = frozenset({".yaml", ".yml"})
_TABLE_SUFFIXES = frozenset({".csv", ".tsv", ".jsonl"})
_DEEPEST = 4
_NAMING_COLUMN = re.compile(
    r"(^|_)(episodes?|ep|demo|traj|trajectory|rollout|trial|run|name|file|filename|path|id|idx|index|number)$"
)
_KNOWN_FIELDS = ("success", "instruction", "split", "start")


@dataclass(frozen=True, slots=True)
class LabelRow:
    """What a file says of one episode.

    Attributes:
        name: What it calls the episode.
        fields: Values by the name of the field.
    """

    name: str | int
    fields: Mapping[str, Json]


def read_label_rows(path: Path, names: EpisodeNames) -> list[LabelRow]:
    """The rows of a file that name episodes; empty for a file about anything else.

    Raises SourceError for a file that cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix in _TABLE_SUFFIXES:
        cells = (row for _, row in read_cells(path))
        rows = _rows_of_list([row for row in cells if not isinstance(row, SourceError)], names)
        return _clear_rows(rows, names)
    try:
        document = read_yaml(str(path)) if suffix in _YAML_SUFFIXES else read_json(str(path))
    except (OSError, ValueError) as error:
        raise SourceError("file of labels cannot be read", f"{path}: {error}") from None
    return _clear_rows(_rows_of_document(document, names, path.stem, _DEEPEST), names)


def _clear_rows(rows: list[LabelRow], names: EpisodeNames) -> list[LabelRow]:
    """The rows; none where only numbers name episodes and no field has a known meaning, as they may count joints."""
    if any(names.find_text(row.name) for row in rows):
        return rows
    fields = {name for row in rows for name in row.fields}
    return rows if any(is_column_of(kind, name) for kind in _KNOWN_FIELDS for name in fields) else []


def _rows_of_document(document: Any, names: EpisodeNames, field: str, levels: int) -> list[LabelRow]:
    """The rows of a list of objects, of an object by episode, of lists of episodes, or of one level below.

    Args:
        document: The list or object.
        names: What episodes are called.
        field: Name of the values, where they are no objects.
        levels: How many levels are searched.
    """
    if isinstance(document, list):
        return _rows_of_list([row for row in document if isinstance(row, Mapping)], names)
    if not isinstance(document, Mapping) or not levels:
        return []
    if _name_episodes(list(document), names):
        return [LabelRow(_as_name(name), _fields_of(value, field)) for name, value in document.items()]
    if rows := _rows_of_groups(document, names, field):
        return rows
    return [
        row
        for name, value in document.items()
        for row in _rows_of_document(value, names, str(name), levels - 1)
    ]


def _fields_of(value: Any, field: str) -> dict[str, Json]:
    """The fields of an episode: those of its object, or its only value under the name of all of them."""
    if isinstance(value, Mapping):
        return {str(name): as_json(part) for name, part in value.items()}
    return {field: as_json(value)}


def _as_name(name: Any) -> str | int:
    return name if isinstance(name, int) and not isinstance(name, bool) else str(name)


def as_json(value: Any) -> Json:
    """A value without what only YAML has, such as dates."""
    if isinstance(value, Mapping):
        return {str(name): as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _name_episodes(values: Sequence[object], names: EpisodeNames) -> bool:
    """Whether values are names of episodes: half of them as texts, or as numbers those of half of the episodes."""
    named = [key for value in values if (key := names.find_text(value))]
    if named and 2 * len(named) >= len(values):
        return True
    numbers = {number for value in values if (number := read_whole_number(value)) is not None}
    is_numbered = len(numbers) == len(set(map(str, values))) > 1
    return is_numbered and 2 * len(numbers & set(names.by_number)) >= names.num_episodes


def _rows_of_groups(document: Mapping[Any, Any], names: EpisodeNames, field: str) -> list[LabelRow]:
    """The rows of lists of episodes by outcome ("success", "failure"), by split ("train"), or by another word."""
    groups = {
        str(word): values
        for word, values in document.items()
        if isinstance(values, list) and values and all(isinstance(value, str | int) for value in values)
    }
    words = {normalise_name(word) for word in groups}
    is_known = bool(words) and (words <= set(OUTCOME_WORDS) or words <= SPLIT_WORDS)
    values = [value for group in groups.values() for value in group]
    if not _name_episodes(values, names) or not (is_known or any(map(names.find_text, values))):
        return []
    if not is_known:
        groups = {word: group for word, group in groups.items() if _name_episodes(group, names)}
    name = ("success" if words <= set(OUTCOME_WORDS) else "split") if is_known else field
    return [LabelRow(value, {name: word}) for word, group in groups.items() for value in group]


def _rows_of_list(rows: Sequence[Mapping[str, Any]], names: EpisodeNames) -> list[LabelRow]:
    """Rows by the column that names most episodes; empty where none names half of the rows."""
    columns = dict.fromkeys(str(column) for row in rows for column in row)
    num_named = {column: _num_named(column, rows, names) for column in columns}
    best = max(num_named, key=lambda column: num_named[column], default="")
    if not best or not num_named[best]:
        return []
    return [
        LabelRow(_as_name(row[best]), {str(k): as_json(v) for k, v in row.items() if k != best})
        for row in rows
        if row.get(best) not in (None, "")
    ]


def _num_named(column: str, rows: Iterable[Mapping[str, Any]], names: EpisodeNames) -> int:
    """How many episodes a column names; 0 where they are fewer than half of its values."""
    values = list(dict.fromkeys(row[column] for row in rows if isinstance(row.get(column), str | int)))
    if not _name_episodes(values, names):
        return 0
    num_texts = len({key for value in values if (key := names.find_text(value))})
    if num_texts:
        return num_texts
    is_naming = is_column_of("episode", column) or _NAMING_COLUMN.search(normalise_name(column))
    return len({key for value in values if (key := names.find_number(value))}) if is_naming else 0
