"""Counts episodes by task, robot, operator, day or any column: hours, successes, accepted captions, reviewed ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ares.curation.composition import DAY_CHARACTERS, GROUP_SOURCES, find_group_column
from ares.deadline import interruptible
from ares.errors import RequestError
from ares.registry import suggest_column
from ares.statistics import wilson_interval
from ares.store import REVIEWED, lance_errors, quote_literal

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.episode import Json
    from ares.store import EpisodeSnapshot

# Groups that are listed; the rest is counted together.
MOST_GROUPS = 1_000
_ACCEPTABLE = "acceptable"
_MEASURES = ("duration_seconds", "success", "outcome")
# Episodes that are neither a success nor a failure, and whose outcome is known.
OTHER_OUTCOME = "success IS NULL AND outcome IN ('partial', 'aborted')"
_TEXTS = ("string", "bool", "int64")
_KEYS_READ = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """What is counted of the episodes of one group.

    Attributes:
        value: The value that they share; None for those without one.
        where: SQL filter that selects them among all episodes.
        episodes: Number of episodes.
        hours: Their duration.
        longest_seconds: Duration of the longest.
        successes: Episodes that succeeded, as people say, else as the source says.
        failures: Episodes that failed.
        others: Episodes that ended otherwise, partial or aborted; of the rest it is not known.
        acceptable: Episodes whose caption is acceptable.
        graded: Episodes whose caption is acceptable or not.
        reviewed: Episodes that a person has ruled on.
    """

    value: str | None
    where: str
    episodes: int
    hours: float
    longest_seconds: float
    successes: int
    failures: int
    others: int
    acceptable: int
    graded: int
    reviewed: int

    @property
    def known(self) -> int:
        """Number of episodes whose outcome is known."""
        return self.successes + self.failures + self.others

    @property
    def success_share(self) -> float | None:
        """Share of successes among the episodes whose outcome is known; None where none is."""
        return self.successes / self.known if self.known else None

    @property
    def success_interval(self) -> tuple[float, float]:
        """The 95 % interval of the success rate after Wilson; (0, 1) where no outcome is known."""
        return wilson_interval(self.successes, self.known)

    def describe_success(self) -> str:
        """The success rate with its interval, such as "50% (25%-75%)"; "unknown" where no outcome is known."""
        low, high = self.success_interval
        share = self.success_share
        return "unknown" if share is None else f"{share:.0%} ({low:.0%}-{high:.0%})"

    def to_json(self) -> dict[str, Json]:
        """The fields with share and interval."""
        low, high = self.success_interval
        return {**asdict(self), "success_share": self.success_share, "success_low": low, "success_high": high}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatistics:
    """The groups of a selection by one name.

    Attributes:
        by: "task", "robot", a column, or a key of the metadata.
        groups: At most `MOST_GROUPS`, those with the most episodes first.
        total: All episodes of the selection together.
        num_groups: Number of groups, those that are not listed included.
    """

    by: str
    groups: tuple[GroupCounts, ...]
    total: GroupCounts
    num_groups: int

    def to_json(self) -> dict[str, Json]:
        """The groups as JSON."""
        groups: list[Json] = [group.to_json() for group in self.groups]
        return {
            "by": self.by,
            "num_groups": self.num_groups,
            "groups": groups,
            "total": self.total.to_json(),
        }


def count_groups(
    snapshot: EpisodeSnapshot,
    by: str,
    read: Callable[[Sequence[str]], pa.RecordBatchReader],
    types: Mapping[str, str],
) -> GroupStatistics:
    """Count episodes by the values of a name, in one pass over a few columns.

    Args:
        snapshot: The version of the table.
        by: "task" (the instruction), a column of texts, flags or whole numbers, or a key of the metadata, with or
            without "metadata." before it. "scene", "operator" and "day" also stand under common other keys.
        read: Streams columns of the episodes to count.
        types: Type of each column of the table.

    Raises:
        RequestError: No episode has this name, or it is a column of another type.
    """
    import duckdb

    by = by.removeprefix("metadata.")
    column = _check_column(by, types)
    measures = [name for name in (*_MEASURES, _ACCEPTABLE, REVIEWED) if name in types]
    names = list(dict.fromkeys([column or "metadata", *measures]))
    with duckdb.connect() as connection, lance_errors("episodes"):
        connection.register("episodes", read(names))
        with interruptible(connection.interrupt, duckdb.Error):
            rows = connection.sql(_counting_query(by, column, measures)).to_arrow_table()
    _check_values(rows, by, column, snapshot)
    return _list_groups(rows, by, column, types)


def _check_column(by: str, columns: Mapping[str, str]) -> str:
    """The column of a name, "" for a key of the metadata. Raises RequestError for a column of another type."""
    column = find_group_column(by, columns)
    if column and columns[column] not in _TEXTS and by not in GROUP_SOURCES:
        raise RequestError(
            f"{by!r} is no column of groups", f"it is {columns[column]}; use a text, a flag or a count"
        )
    return column


def _counting_query(by: str, column: str, measures: Collection[str]) -> str:
    """SQL that counts each group, the largest first, and with GROUPING SETS all of them together."""

    def counted(condition: str, needs: str) -> str:
        return f"coalesce(count_if({condition}), 0)::BIGINT" if needs in measures else "0::BIGINT"

    return f"""
        SELECT {_value_expression(by, column)} AS value, grouping(value) AS is_total, count(*) AS episodes,
            coalesce(sum(duration_seconds), 0)::DOUBLE / 3600 AS hours,
            coalesce(max(duration_seconds), 0)::DOUBLE AS longest_seconds,
            {counted("success", "success")} AS successes, {counted("NOT success", "success")} AS failures,
            {counted(OTHER_OUTCOME, "outcome")} AS others,
            {counted(_ACCEPTABLE, _ACCEPTABLE)} AS acceptable,
            {counted(f"{_ACCEPTABLE} IS NOT NULL", _ACCEPTABLE)} AS graded,
            {counted(REVIEWED, REVIEWED)} AS reviewed
        FROM episodes GROUP BY GROUPING SETS ((value), ()) ORDER BY is_total DESC, episodes DESC, value
    """


def _value_expression(by: str, column: str) -> str:
    """SQL for the value of an episode as text; NULL where it has none."""
    if column:
        text = f'"{column}"::VARCHAR'
    else:
        keys = GROUP_SOURCES.get(by, (by,))
        texts = ", ".join(f"json_extract_string(metadata, {quote_literal(_json_path(key))})" for key in keys)
        text = f"coalesce({texts})"
    return f"nullif({text}[1:{DAY_CHARACTERS}], '')" if by == "day" else f"nullif({text}, '')"


def _json_path(key: str) -> str:
    return '$."' + key.replace('"', '\\"') + '"'


def _check_values(rows: pa.Table, by: str, column: str, snapshot: EpisodeSnapshot) -> None:
    """Raise RequestError for a key of the metadata that no selected episode has."""
    if column or rows.num_rows <= 1 or any(value is not None for value in rows["value"].to_pylist()):
        return
    documents = snapshot.reader(["metadata"]).read_next_batch()["metadata"].slice(0, _KEYS_READ).to_pylist()
    keys = {key for text in documents for key in json.loads(text)}
    known = [*GROUP_SOURCES, *snapshot.arrow_schema.names, *keys]
    raise RequestError(
        f"no episode has a {by!r}",
        f"{suggest_column(by, known)}a name is task, a column or a key of the metadata",
    )


def _list_groups(rows: pa.Table, by: str, column: str, types: Mapping[str, str]) -> GroupStatistics:
    """The listed groups: the first row counts all together."""
    counts = list[GroupCounts]()
    for row in rows.slice(0, MOST_GROUPS + 1).to_pylist():
        is_total, value = row.pop("is_total"), row["value"]
        if is_total:
            where = ""
        elif column:
            where = _column_filter(column, types[column], value, by == "day")
        else:
            where = _metadata_filter(GROUP_SOURCES.get(by, (by,)), value, by == "day")
        counts.append(GroupCounts(**row, where=where))
    return GroupStatistics(
        by=by, total=counts[0], groups=tuple(counts[1:]),
        num_groups=rows.num_rows - 1,
    )  # fmt: skip


def _column_filter(column: str, type_name: str, value: str | None, is_day: bool) -> str:
    if value is None:
        return f"({column} IS NULL OR {column} = '')" if type_name == "string" else f"{column} IS NULL"
    if is_day:
        return f"starts_with({column}, {quote_literal(value)})"
    if type_name == "bool":
        return f"{column} IS {value.upper()}"
    return f"{column} = {quote_literal(value) if type_name == 'string' else value}"


def _metadata_filter(keys: Sequence[str], value: str | None, is_day: bool) -> str:
    """SQL filter that finds a value by the JSON that ARES writes for it, such as `"operator": "Ada"`.

    A key of the same name deeper in the metadata is met, too.
    """
    if value is None:
        empty = (_contains_any([f"{json.dumps(key)}: null", f'{json.dumps(key)}: ""']) for key in keys)
        absent = (f"NOT {_contains_any([f'{json.dumps(key)}: '])}" for key in keys)
        return " AND ".join(f"({pair[0]} OR {pair[1]})" for pair in zip(absent, empty, strict=True))
    texts = [json.dumps(value)]
    with suppress(ValueError):
        texts.append(json.dumps(json.loads(value)))
    if is_day:
        return _contains_any([f"{json.dumps(key)}: {texts[0][:-1]}" for key in keys])
    return _contains_any(
        [f"{json.dumps(key)}: {text}{end}" for key in keys for text in texts for end in ",}"]
    )


def _contains_any(texts: Iterable[str]) -> str:
    return f"({' OR '.join(f'contains(metadata, {quote_literal(text)})' for text in texts)})"
