"""The tables of one episode: one gives the steps, and the rows of the others are assigned to them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.clock import SECONDS_BY_UNIT, infer_unit
from ares.errors import SourceError
from ares.io import file_state
from ares.media.readers import CsvTable, read_csv_table
from ingest.csv_episodes.columns import ColumnRoles, column_roles
from ingest.stamps import NO_TIME, SpecTime, missing_time_error, rising_seconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class SignalTable:
    """One table, parsed.

    Attributes:
        path: The file.
        table: Its columns.
        numbers: (T,) numbers of each numeric column.
        roles: The role of each numeric column.
        seconds: (T,) seconds from the first row, strictly rising; None without stamps.
        start: Second of the first row as written.
        key_prefix: What stands before a column's name in its key: "" for the only table, else "states/" of states.csv.
    """

    path: Path
    table: CsvTable
    numbers: dict[str, Any]
    roles: ColumnRoles
    seconds: NDArray[np.float64] | None
    start: float = 0.0
    key_prefix: str = ""

    @property
    def stamps(self) -> NDArray[np.float64] | None:
        """(T,) seconds as written; None without stamps."""
        return None if self.seconds is None else self.seconds + self.start

    def key(self, column: str) -> str:
        """The key of a column in a spec."""
        return f"{self.key_prefix}{column}"


@dataclass(slots=True)
class EpisodeTables:
    """The tables of one episode, and what was read of them.

    Attributes:
        main: The table whose rows are the steps.
        others: Further tables, with the row of each at every step.
        unused: Tables that have no place among the steps.
        warnings: Reasons to warn.
    """

    main: SignalTable
    others: list[tuple[SignalTable, NDArray[np.int64]]] = field(default_factory=list)
    unused: list[SignalTable] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)

    @property
    def num_steps(self) -> int:
        """Rows of the main table."""
        return self.main.table.num_rows

    def constant_text(self, name: str) -> str:
        """The text of a column of the main table that has the same text in every row, or ""."""
        values = set(self.main.table.texts(name)) - {""}
        return values.pop() if len(values) == 1 else ""


def read_tables(
    paths: list[Path], time: SpecTime = NO_TIME, stated_rate_hz: float | None = None
) -> EpisodeTables:
    """Parse the tables of an episode.

    The table with the times that a spec names gives the steps, else the one with state or action, else the longest.

    Args:
        paths: The tables.
        time: The column of the times by a spec.
        stated_rate_hz: Rate that the JSON file states, or None; it tells the unit of the times.

    Raises:
        SourceError: One cannot be parsed, none has a row and a numeric column, or none has the times of the spec.
    """
    warnings: dict[str, None] = {}
    tables = [
        _read_table(path, prefix, time, stated_rate_hz, warnings)
        for path, prefix in zip(paths, _key_prefixes(paths), strict=True)
    ]
    usable = [table for table in tables if table.table.num_rows and table.numbers]
    where = ", ".join(str(path) for path in paths)
    if not usable:
        raise SourceError("episode has no table with rows of numbers", where)
    timed = [table for table in usable if time.key and table.key(table.roles.time) == time.key]
    if time.key and not timed:
        raise missing_time_error(time.key, _all_keys(usable), where)
    main = max(
        timed or usable,
        key=lambda table: (bool(table.roles.state or table.roles.action), table.table.num_rows),
    )
    return _assigned(main, [table for table in tables if table is not main], warnings)


def _key_prefixes(paths: list[Path]) -> list[str]:
    """What stands before the columns of each table: nothing for one table, its name for several."""
    if len(paths) == 1:
        return [""]
    stems = [path.stem for path in paths]
    return [
        f"{stem if stems.count(stem) == 1 else path.name}/" for stem, path in zip(stems, paths, strict=True)
    ]


def _all_keys(tables: list[SignalTable]) -> Iterator[str]:
    return (table.key(column) for table in tables for column in table.numbers)


def _assigned(main: SignalTable, others: list[SignalTable], warnings: dict[str, None]) -> EpisodeTables:
    """The tables, with the rows of each at the steps of the main one."""
    result = EpisodeTables(main, warnings=warnings)
    for other in others:
        has_rows = bool(other.table.num_rows and other.numbers)
        rows = _rows_at_steps(main, other) if has_rows else None
        if rows is not None:
            result.others.append((other, rows))
            continue
        result.unused.append(other)
        if has_rows:
            warnings["a table with other rows and without stamps is not stored"] = None
    return result


def _read_table(
    path: Path, prefix: str, time: SpecTime, stated_rate_hz: float | None, warnings: dict[str, None]
) -> SignalTable:
    table = read_csv_table(str(path), file_state(str(path)))
    numbers = {name: values for name in table.names if (values := table.numbers(name)) is not None}
    named = next((name for name in numbers if time.key and f"{prefix}{name}" == time.key), "")
    roles = column_roles(numbers, named)
    own_time = time if named else NO_TIME
    seconds, start = None, 0.0
    if roles.time and table.num_rows:
        seconds, start = _stamps(roles.time, numbers[roles.time], own_time, stated_rate_hz, warnings)
    if named and seconds is None:
        raise SourceError("timestamps of the spec do not rise", f"{path}: {named}")
    return SignalTable(path, table, numbers, roles, seconds, start, prefix)


def _stamps(
    name: str, values: Any, time: SpecTime, stated_rate_hz: float | None, warnings: dict[str, None]
) -> tuple[NDArray[np.float64] | None, float]:
    """Seconds of a column of time from the first row, and that of the first row.

    Their unit is that of the spec, or the one that their name, the stated rate, their size or their rate tells.
    """
    import numpy as np

    finite = np.flatnonzero(np.isfinite(values))
    first = values[finite[0]] if len(finite) else 0
    guess = infer_unit(values, name, stated_rate_hz)
    if time.unit is None and guess.evidence:
        warnings[guess.evidence] = None
    unit = SECONDS_BY_UNIT[time.unit or guess.unit]
    # Whole stamps of nanoseconds do not fit float64: their differences do.
    seconds: NDArray[np.float64] = (values - first).astype(np.float64) * unit
    if len(values) == 1 and len(finite):
        return seconds, float(first) * unit
    rising = rising_seconds(seconds, name, warnings)
    return rising, 0.0 if rising is None else float(first) * unit - rising[finite[0]]


def _rows_at_steps(main: SignalTable, other: SignalTable) -> NDArray[np.int64] | None:
    """The row of another table at each step: the last at or before its stamp, else the same row; None for neither.

    Stamps of two clocks that never meet join nothing.
    """
    import numpy as np

    stamps, other_stamps = main.stamps, other.stamps
    if stamps is not None and other_stamps is not None and _meet(stamps, other_stamps):
        rows = np.searchsorted(other_stamps, stamps + 1e-9, side="right") - 1
        return np.maximum(rows, 0)
    same_length = main.table.num_rows == other.table.num_rows
    return np.arange(main.table.num_rows) if same_length else None


def _meet(stamps: NDArray[np.float64], others: NDArray[np.float64]) -> bool:
    return bool(others[0] <= stamps[-1] and stamps[0] <= others[-1])


def hash_tables(tables: EpisodeTables) -> Any:
    """Hash of the content of the tables, to be continued with the images."""
    from ares.input import input_budgets, read_input

    digest = hashlib.blake2b(digest_size=16)
    for table in (tables.main, *(other for other, _ in tables.others)):
        digest.update(read_input(str(table.path), input_budgets().array_bytes))
    return digest
