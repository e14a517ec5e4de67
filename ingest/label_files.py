"""Reads files of labels beside the episodes of a dataset: tables of labels or spans, and exports of labelling tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ares.console import count_of
from ares.episode import Json
from ares.errors import SourceError
from ares.input import (
    NO_OBJECT,
    SPAN_COLUMNS,
    EpisodeNames,
    SpanFile,
    SpanTally,
    TableColumns,
    as_json,
    convert_export,
    is_table,
    name_words,
    parquet_columns,
    read_json,
    read_lines,
    read_span_file,
    read_table,
    read_yaml,
)
from ares_ingest.source_words import COLUMN_NAMES, OUTCOME_WORDS, parse_outcome

# Columns of a table of labels with a meaning; all others are kept as they are.
SUCCESS, INSTRUCTION, SPLIT = "success", "instruction", "split"
_KNOWN_FIELDS = (SUCCESS, INSTRUCTION, SPLIT)
_LABEL_COLUMNS = TableColumns(
    needed=("episode",),
    either=tuple((name,) for name in _KNOWN_FIELDS),
    renames={
        **{name: stated for name, stated in SPAN_COLUMNS.renames.items() if stated == "episode"},
        **dict.fromkeys((*COLUMN_NAMES["episode"], *COLUMN_NAMES["video"], "trial", "demo"), "episode"),
        **dict.fromkeys(COLUMN_NAMES["success"], SUCCESS),
        **dict.fromkeys(COLUMN_NAMES["instruction"], INSTRUCTION),
    },
)
# Columns of which a number alone may be that of something else.
_ANY_NAME = frozenset({"id", "uid", "name"})
_END_WORDS = (
    frozenset({"start", "begin", "from", "first", "onset"}),
    frozenset({"stop", "end", "to", "last", "offset"}),
)
_SPLIT_WORDS = frozenset(
    {"train", "training", "val", "valid", "validation", "test", "testing", "eval", "evaluation"}
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
        is_whole: Whether each row of it could be read.
    """

    spans: SpanFile | None = None
    rows: tuple[LabelRow, ...] = ()
    warnings: tuple[str, ...] = ()
    is_whole: bool = True


def read_label_file(path: Path, names: EpisodeNames) -> LabelFile:
    """What a table or a JSON or YAML document says of episodes; nothing for a file about anything else.

    Raises SourceError for a file that cannot be read.
    """
    if is_table(path):
        return _read_table_file(path, names) if _may_name_episodes(path) else LabelFile()
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


def read_possible_names(path: Path) -> list[str]:
    """Texts of columns of episodes in the first rows of a table, no numbers; none where it cannot be read."""
    try:
        rows = list(islice(read_table(path, _ANY_COLUMNS), _PEEKED_ROWS)) if _may_name_episodes(path) else []
    except SourceError:
        return []
    pairs = (pair for _, row in rows if isinstance(row, dict) for pair in row.items())
    cells = (cell for name, cell in pairs if _LABEL_COLUMNS.rename_of(str(name)) == "episode")
    return [cell for cell in cells if isinstance(cell, str) and not cell.isdecimal()]


def _may_name_episodes(path: Path) -> bool:
    """Whether a table may be about episodes: Parquet files, which mostly hold data, by their columns."""
    if path.suffix.lower() != ".parquet":
        return True
    present = parquet_columns(path)
    if not present:
        return True  # its reader tells why
    meant = {_LABEL_COLUMNS.rename_of(name) for name in present}
    has_known = not meant.isdisjoint(_KNOWN_FIELDS) or _are_of_spans(present)
    return "episode" in present or ("episode" in meant and has_known)


def _read_table_file(path: Path, names: EpisodeNames) -> LabelFile:
    rows = [row for _, row in islice(read_table(path, _ANY_COLUMNS), _PEEKED_ROWS)]
    first = [row for row in rows if isinstance(row, dict)]
    faults = {row.reason for row in rows if isinstance(row, SourceError)} - {NO_OBJECT}
    if faults and not first:
        raise SourceError("no row of it has the form of a table", str(path))
    present = dict.fromkeys(name for row in first for name in row)
    if not SPAN_COLUMNS.fault(present):
        return LabelFile(spans=read_span_file(path))
    meant = _columns_meant(first, names)
    renames = _known_names(first, names) if meant is not SPAN_COLUMNS else {}
    if "episode" in renames.values():
        file = _read_label_table(path, renames)
        is_known = not {*renames.values()}.isdisjoint(_KNOWN_FIELDS)
        if is_known or any(names.find_text(row.name) for row in file.rows):
            return file
    if meant is None:
        _require_text(path)
        return LabelFile()
    return LabelFile(warnings=(f"{path.name} is not read: {meant.fault(present)}",))


def _require_text(path: Path) -> None:
    """Raises SourceError for a table as text whose header is not UTF-8: what it is about cannot be told."""
    if path.suffix.lower() in (".csv", ".tsv"):
        try:
            next(read_lines(str(path)), b"").decode()
        except UnicodeDecodeError as error:
            raise SourceError("its header is not UTF-8", f"{path}: {error}") from None


def _known_names(rows: Sequence[Mapping[str, Any]], names: EpisodeNames) -> dict[str, str]:
    """The stated name of each column that has one: a column of that name, else the first with another name for it."""
    renames: dict[str, str] = {}
    for stated in ("episode", *_KNOWN_FIELDS):
        for name in dict.fromkeys(name for row in rows for name in row):
            means = _LABEL_COLUMNS.rename_of(name) == stated
            is_sure = name == stated or (
                any(names.find(row.get(name)) for row in rows)
                if stated == "episode"
                else _is_label(name, rows)
            )
            if means and is_sure and (name == stated or stated not in renames.values()):
                renames = {column: other for column, other in renames.items() if other != stated}
                renames[name] = stated
    return renames


def _are_of_spans(present: Iterable[str]) -> bool:
    """Whether columns have a start and a stop, and say no outcome or split of a whole episode."""
    plain = {"_".join(name_words(name)) for name in present}
    words = {word for name in plain for word in name.split("_")}
    is_of_episodes = "text" not in plain and not plain.isdisjoint({SUCCESS, SPLIT})
    return all(not words.isdisjoint(ends) for ends in _END_WORDS) and not is_of_episodes


def _have_span_ends(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether rows have numbers or times as a start and a stop: by known names, or by two names with one stem."""
    ends = tuple(set[str]() for _ in _END_WORDS)
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [str(value) for row in rows if (value := row.get(name)) not in (None, "")]
        if not values or not all(value.lstrip("-")[:1].isdecimal() for value in values):
            continue
        words, stated = name_words(name), SPAN_COLUMNS.rename_of(name)
        for known, end_words, stems in zip(("start_", "stop_"), _END_WORDS, ends, strict=True):
            rests = {
                word: "_".join(other for other in words if other != word) for word in end_words & {*words}
            }
            # "first" and "last" also count attempts.
            stems.update(rest for word, rest in rests.items() if not rest or word not in {"first", "last"})
            if stated.startswith(known):
                stems.add("a known name")
    return not ends[0].isdisjoint(ends[1])


def _is_label(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a column has a label by its name, or one that is a rename away: an outcome also by its values."""
    stated = _LABEL_COLUMNS.rename_of(name)
    return stated in _KNOWN_FIELDS and (
        stated != SUCCESS or any(parse_outcome(row.get(name)) is not None for row in rows)
    )


def _columns_meant(rows: Sequence[Mapping[str, Any]], names: EpisodeNames) -> TableColumns | None:
    """The columns that rows about these episodes should have; None for rows about anything else.

    They are about episodes where most texts of a column are names. Where they have a span or a label, one name or
    number is enough in a column whose name says that it is the episode.
    """
    present = dict.fromkeys(name for row in rows for name in row)
    is_of_spans = _are_of_spans(present) and ("episode" not in present or _have_span_ends(rows))
    has_known = is_of_spans or any(_is_label(name, rows) for name in present)
    for name in present:
        values = [row.get(name) for row in rows]
        find = names.find_text if "_".join(name_words(name)) in _ANY_NAME else names.find
        is_named = has_known and _LABEL_COLUMNS.rename_of(name) == "episode" and any(map(find, values))
        if is_named or _are_names([value for value in values if not str(value).isdecimal()], names):
            return SPAN_COLUMNS if is_of_spans else _LABEL_COLUMNS
    return None


def _read_label_table(path: Path, renames: Mapping[str, str]) -> LabelFile:
    """The rows of a table of labels, whose columns have other names."""
    rows, wrong, unnamed = list[LabelRow](), 0, 0
    for _, row in read_table(path, _ANY_COLUMNS):
        if not isinstance(row, SourceError):
            row = {renames.get(key, key): cell for key, cell in row.items()}
        name = None if isinstance(row, SourceError) else row.get("episode")
        if isinstance(row, SourceError):
            wrong += 1
        elif not isinstance(name, str | int) or isinstance(name, bool) or name == "":
            unnamed += 1
        else:
            rows.append(
                LabelRow(name, {str(key): as_json(cell) for key, cell in row.items() if key != "episode"})
            )
    faults = ((wrong, "are of a wrong form"), (unnamed, "name no episode"))
    warnings = tuple(f"{path.name}: {count_of(count, 'row')} that {why}" for count, why in faults if count)
    return LabelFile(rows=tuple(rows), warnings=warnings, is_whole=not wrong)


def _names_episodes(document: Any, names: EpisodeNames, levels: int) -> bool:
    """Whether a part of a document is about episodes: by most of its keys, or texts, or by the rows of a list."""
    if isinstance(document, Mapping):
        return (
            _are_names(list(document), names)
            or _are_labelled_numbers(document, names)
            or (levels > 0 and any(_names_episodes(part, names, levels - 1) for part in document.values()))
        )
    if not isinstance(document, list):
        return False
    rows = [{str(name): value for name, value in row.items()} for row in document if isinstance(row, Mapping)]
    return _are_names(document, names) or _columns_meant(rows, names) is not None


def _are_labelled_numbers(document: Mapping[Any, Any], names: EpisodeNames) -> bool:
    """Whether most keys are numbers of episodes with an outcome or labels, or lists by outcome or split have some."""
    words = {str(key).lower() for key in document}
    if words <= OUTCOME_WORDS.keys() or words <= _SPLIT_WORDS:
        groups = [group for group in document.values() if isinstance(group, list)]
        return any(names.find(value) for group in groups for value in group)
    labelled = [key for key, value in document.items() if names.find_number(key) and _is_labelled(value)]
    return 2 * len(labelled) >= len(document)


def _is_labelled(value: Any) -> bool:
    """Whether a value is an outcome in words, or an object with an outcome or another label."""
    if isinstance(value, Mapping):
        return any(_LABEL_COLUMNS.rename_of(str(name)) == SUCCESS or name in _KNOWN_FIELDS for name in value)
    return isinstance(value, bool | str) and parse_outcome(value) is not None


def _are_names(values: list[Any], names: EpisodeNames) -> bool:
    count = sum(bool(names.find_text(value)) for value in values)
    return count > 0 and 2 * count >= len(values)
