"""The tables of one episode: one gives the steps, and the rows of the others are assigned to them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import Signal, Trajectory
from ares.errors import SourceError
from ares.io import file_state
from ares.media.readers import CsvTable, read_csv_table
from ingest.csv_episodes.columns import ColumnRoles, column_roles, time_unit
from ingest.signals import MAX_SIGNAL_WIDTH
from ingest.stamps import rising_seconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Largest plain seconds since 1970 (year 5138); larger stamps are counted in smaller units.
_UNITS_BY_SIZE = ((1e17, 1e-9, "nanoseconds"), (1e14, 1e-6, "microseconds"), (1e11, 1e-3, "milliseconds"))


@dataclass(frozen=True, slots=True)
class SignalTable:
    """One table, parsed.

    Attributes:
        path: The file.
        table: Its columns.
        numbers: (T,) numbers of each numeric column.
        roles: The role of each numeric column.
        stamps: (T,) seconds as written, strictly rising; None without them.
    """

    path: Path
    table: CsvTable
    numbers: dict[str, Any]
    roles: ColumnRoles
    stamps: NDArray[np.float64] | None


@dataclass(slots=True)
class EpisodeTables:
    """The tables of one episode, and what was read of them.

    Attributes:
        main: The table whose rows are the steps.
        others: Further tables, with the row of each at every step.
        warnings: Reasons to warn.
    """

    main: SignalTable
    others: list[tuple[SignalTable, NDArray[np.int64]]] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)

    @property
    def num_steps(self) -> int:
        """Rows of the main table."""
        return self.main.table.num_rows

    def constant_text(self, name: str) -> str:
        """The text of a column of the main table that has the same text in every row, or ""."""
        values = set(self.main.table.texts(name)) - {""}
        return values.pop() if len(values) == 1 else ""


def read_tables(paths: list[Path]) -> EpisodeTables:
    """Parse the tables of an episode; the one with state or action, else the longest, gives the steps.

    Raises SourceError when one cannot be parsed, or none has a row and a numeric column.
    """
    warnings: dict[str, None] = {}
    tables = [_read_table(path, warnings) for path in paths]
    usable = [table for table in tables if table.table.num_rows and table.numbers]
    if not usable:
        where = ", ".join(str(path) for path in paths)
        raise SourceError("episode has no table with rows of numbers", where)
    main = max(
        usable, key=lambda table: (bool(table.roles.state or table.roles.action), table.table.num_rows)
    )
    result = EpisodeTables(main, warnings=warnings)
    for other in (table for table in usable if table is not main):
        rows = _rows_at_steps(main, other)
        if rows is None:
            result.warnings["a table with other rows and without stamps is not stored"] = None
        else:
            result.others.append((other, rows))
    return result


def _read_table(path: Path, warnings: dict[str, None]) -> SignalTable:
    table = read_csv_table(str(path), file_state(str(path)))
    numbers = {name: values for name in table.names if (values := table.numbers(name)) is not None}
    roles = column_roles(numbers)
    stamps = _stamps(roles.time, numbers[roles.time], warnings) if roles.time and table.num_rows else None
    return SignalTable(path, table, numbers, roles, stamps)


def _stamps(name: str, values: Any, warnings: dict[str, None]) -> NDArray[np.float64] | None:
    """Seconds of a column of time, in the unit that its name or the size of its numbers tells."""
    import numpy as np

    finite = np.flatnonzero(np.isfinite(values))
    first = values[finite[0]] if len(finite) else 0
    unit, largest = time_unit(name), float(abs(values[finite]).max(initial=0))
    if unit is None:
        _, unit, word = next((part for part in _UNITS_BY_SIZE if largest >= part[0]), (0, 1.0, ""))
        if word:
            warnings[f"{name} is taken as {word}, by its size"] = None
    # Whole stamps of nanoseconds do not fit float64: their differences do.
    seconds: NDArray[np.float64] = (values - first).astype(np.float64) * unit
    if len(values) == 1 and len(finite):
        return seconds + float(first) * unit
    rising = rising_seconds(seconds, name, warnings)
    return None if rising is None else rising + (float(first) * unit - rising[finite[0]])


def _rows_at_steps(main: SignalTable, other: SignalTable) -> NDArray[np.int64] | None:
    """The row of another table at each step: the last at or before its stamp, else the same row; None for neither."""
    import numpy as np

    if main.stamps is not None and other.stamps is not None:
        rows = np.searchsorted(other.stamps, main.stamps + 1e-9, side="right") - 1
        return np.maximum(rows, 0)
    same_length = main.table.num_rows == other.table.num_rows
    return np.arange(main.table.num_rows) if same_length else None


def make_trajectory(tables: EpisodeTables, seconds: NDArray[np.float64]) -> Trajectory:
    """The signals of all tables; those of a table other than the main one have its name before theirs."""
    main = tables.main
    state, action = _signal(tables, main, main.roles.state), _signal(tables, main, main.roles.action)
    extra = {name: _signal(tables, main, columns) for name, columns in main.roles.extra.items()}
    for other, rows in tables.others:
        roles, label = other.roles, other.path.stem
        other_state, other_action = (
            _signal(tables, other, roles.state, rows),
            _signal(tables, other, roles.action, rows),
        )
        for name, columns in roles.extra.items():
            extra[f"{label}.{name}"] = _signal(tables, other, columns, rows)
        if state is None:
            state = other_state
        else:
            extra[f"{label}.state"] = other_state
        if action is None:
            action = other_action
        else:
            extra[f"{label}.action"] = other_action
    reward = _signal(tables, main, (main.roles.reward,) if main.roles.reward else ())
    if state is None and extra:
        tables.warnings["no column is named as state: other columns are signals of unknown meaning"] = None
    return Trajectory(
        timestamps=seconds,
        state=state,
        action=action,
        reward=reward.values[:, 0] if reward else None,
        extra={name: signal for name, signal in extra.items() if signal is not None},
    )


def _signal(
    tables: EpisodeTables, table: SignalTable, columns: tuple[str, ...], rows: NDArray[np.int64] | None = None
) -> Signal | None:
    """(T, D) float32 of some columns."""
    import numpy as np

    if not columns:
        return None
    if len(columns) > MAX_SIGNAL_WIDTH:
        tables.warnings[f"{columns[0]} and its like are not stored (too wide for a signal)"] = None
        return None
    parts = [table.numbers[column] if rows is None else table.numbers[column][rows] for column in columns]
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.stack([part.astype(np.float32) for part in parts], axis=1)
    for column, part in zip(columns, parts, strict=True):
        if part.dtype.kind == "i" and (part.astype(np.float32).astype(np.int64) != part).any():
            tables.warnings[f"{column} holds integers that float32 rounds"] = None
    if not np.isfinite(values).all():
        tables.warnings[f"{columns[0]} and its like hold empty cells, or numbers that are not finite"] = None
    return Signal(values, columns)


def hash_tables(tables: EpisodeTables) -> Any:
    """Hash of the content of the tables, to be continued with the images."""
    from ares.input import input_budgets, read_input

    digest = hashlib.blake2b(digest_size=16)
    for table in (tables.main, *(other for other, _ in tables.others)):
        digest.update(read_input(str(table.path), input_budgets().array_bytes))
    return digest
