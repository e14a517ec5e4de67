"""Reads files of labels beside the episodes of a dataset: tables of labels or spans, and exports of labelling tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ares.console import count_of
from ares.episode import Json
from ares.errors import SourceError
from ares.input import (
    SPAN_COLUMNS,
    EpisodeNames,
    SpanFile,
    SpanTally,
    TableColumns,
    convert_export,
    is_table,
    may_name_episodes,
    read_json,
    read_span_file,
    read_table,
    read_yaml,
)

# Columns of a table of labels with a meaning; all others are kept as they are.
SUCCESS, INSTRUCTION, SPLIT = "success", "instruction", "split"
_KNOWN_FIELDS = (SUCCESS, INSTRUCTION, SPLIT)
_LABEL_COLUMNS = TableColumns(
    needed=("episode",),
    either=tuple((name,) for name in _KNOWN_FIELDS),
    renames={
        **{name: stated for name, stated in SPAN_COLUMNS.renames.items() if stated == "episode"},
        "id": "episode",
        **dict.fromkeys(("is_success", "successful", "outcome", "result", "label"), SUCCESS),
        **dict.fromkeys(("task", "prompt", "caption", "language_instruction", "description"), INSTRUCTION),
    },
)
_ANY_COLUMNS = TableColumns(needed=())
_PEEKED_ROWS, _DEEPEST = 1000, 4


@dataclass(frozen=True, slots=True)
class LabelRow:
    """What a file says of one episode: what it calls the episode, and values by the name of the field."""

    name: str | int
    fields: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFile:
    """What a file says of episodes.

    Attributes:
        spans: Its spans, for a file of spans.
        rows: Its labels, for a table of labels.
        warnings: Why it, or some of it, is not read.
    """

    spans: SpanFile | None = None
    rows: tuple[LabelRow, ...] = ()
    warnings: tuple[str, ...] = ()


def read_label_file(path: Path, names: EpisodeNames) -> LabelFile:
    """What a table or a JSON or YAML document says of episodes; nothing for a file about anything else.

    Raises SourceError for a file that cannot be read.
    """
    if is_table(path):
        return _read_table_file(path, names) if may_name_episodes(path) else LabelFile()
    try:
        document = read_json(str(path)) if path.suffix.lower() == ".json" else read_yaml(str(path))
    except (OSError, ValueError) as error:
        raise SourceError("file of labels cannot be read", f"{path}: {error}") from None
    if (spans := convert_export(document, SpanTally(name=path.name))) is not None:
        return LabelFile(spans=spans)
    if not _names_episodes(document, names, _DEEPEST):
        return LabelFile()
    columns = f"episode and {' or '.join(_KNOWN_FIELDS)}; of spans the columns are {SPAN_COLUMNS}"
    says = f"{path.name} names episodes and is not read: write a CSV, JSONL or Parquet file with the columns"
    return LabelFile(warnings=(f"{says} {columns}",))


def _read_table_file(path: Path, names: EpisodeNames) -> LabelFile:
    first = [row for _, row in islice(read_table(path, _ANY_COLUMNS), _PEEKED_ROWS) if isinstance(row, dict)]
    present = dict.fromkeys(name for row in first for name in row)
    if not SPAN_COLUMNS.fault(present):
        return LabelFile(spans=read_span_file(path))
    meant = {SPAN_COLUMNS.rename_of(name).partition(" ")[0] or name for name in present}
    is_of_spans = all(any(name.startswith(end) for name in meant) for end in ("start_", "stop_"))
    if "episode" in present and not is_of_spans:
        return _read_label_table(path, names)
    columns = SPAN_COLUMNS if is_of_spans else _LABEL_COLUMNS
    has_labels = any((_LABEL_COLUMNS.rename_of(name) or name) in _KNOWN_FIELDS for name in present)
    if (is_of_spans or has_labels) and _has_naming_column(first, names):
        return LabelFile(warnings=(f"{path.name} is not read: {columns.fault(present)}",))
    return LabelFile()


def _has_naming_column(rows: Sequence[Mapping[str, Any]], names: EpisodeNames) -> bool:
    """Whether a column that may be the episode names one of these: a number alone may be that of something else."""
    for row in rows:
        for column, value in row.items():
            if column == "episode" or _LABEL_COLUMNS.rename_of(column) == "episode":
                find = names.find_text if column in ("id", "name") else names.find
                if find(value):
                    return True
    return False


def _read_label_table(path: Path, names: EpisodeNames) -> LabelFile:
    """The rows of a table; none where numbers name episodes and no field has a known meaning: they may be joints."""
    rows, wrong, unnamed = list[LabelRow](), 0, 0
    for _, row in read_table(path, _ANY_COLUMNS):
        name = None if isinstance(row, SourceError) else row.get("episode")
        if isinstance(row, SourceError):
            wrong += 1
        elif not isinstance(name, str | int) or isinstance(name, bool) or name == "":
            unnamed += 1
        else:
            rows.append(
                LabelRow(name, {str(key): as_json(own) for key, own in row.items() if key != "episode"})
            )
    fields = {name for row in rows for name in row.fields}
    if fields.isdisjoint(_KNOWN_FIELDS) and not any(names.find_text(row.name) for row in rows):
        return LabelFile()
    faults = ((wrong, "are of a wrong form"), (unnamed, "name no episode"))
    warnings = tuple(f"{path.name}: {count_of(count, 'row')} that {why}" for count, why in faults if count)
    return LabelFile(rows=tuple(rows), warnings=warnings)


def as_json(value: Any) -> Json:
    """A value without what only YAML has, such as dates."""
    if isinstance(value, Mapping):
        return {str(name): as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _names_episodes(document: Any, names: EpisodeNames, levels: int) -> bool:
    """Whether half of the keys of an object, of the texts of a list, or of a field of its objects name episodes."""
    if isinstance(document, Mapping):
        return _are_names(list(document), names) or (
            levels > 0 and any(_names_episodes(part, names, levels - 1) for part in document.values())
        )
    if not isinstance(document, list):
        return False
    rows = [row for row in document if isinstance(row, Mapping)]
    columns = dict.fromkeys(key for row in rows for key in row)
    return _are_names(document, names) or any(
        _are_names([row.get(column) for row in rows], names) for column in columns
    )


def _are_names(values: list[Any], names: EpisodeNames) -> bool:
    count = sum(bool(names.find_text(value)) for value in values)
    return count > 0 and 2 * count >= len(values)
