"""Signals of an episode from the columns of its tables, and the columns as a spec addresses them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.episode import ArrayUse, Signal, SourceArray, Trajectory
from ingest.csv_episodes.tables import EpisodeTables, SignalTable
from ingest.signals import MAX_SIGNAL_WIDTH

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ColumnSignal:
    """Columns of one table that are a signal.

    Attributes:
        use: What it is used as.
        name: Name of an extra signal, or "".
        table: The table.
        columns: Its columns, in order.
        rows: (T,) row of the table at each step; None where the rows are the steps.
    """

    use: ArrayUse
    name: str
    table: SignalTable
    columns: tuple[str, ...]
    rows: NDArray[np.int64] | None = None


def column_signals(tables: EpisodeTables) -> tuple[ColumnSignal, ...]:
    """The signals of all tables; those of a table other than the main one have its name before theirs."""
    main = tables.main
    signals = [
        ColumnSignal("state", "", main, main.roles.state),
        ColumnSignal("action", "", main, main.roles.action),
        ColumnSignal("reward", "", main, (main.roles.reward,) if main.roles.reward else ()),
        *(ColumnSignal("extra", name, main, columns) for name, columns in main.roles.extra.items()),
    ]
    for other, rows in tables.others:
        signals += _other_signals(other, rows, {signal.use for signal in signals if signal.columns})
    return tuple(signal for signal in signals if 0 < len(signal.columns) <= MAX_SIGNAL_WIDTH)


def _other_signals(
    other: SignalTable, rows: NDArray[np.int64], used: set[ArrayUse]
) -> Iterator[ColumnSignal]:
    """The signals of a further table: its state and action are those of the episode where no other table has them."""
    roles, label = other.roles, other.path.stem
    for name, columns in roles.extra.items():
        yield ColumnSignal("extra", f"{label}.{name}", other, columns, rows)
    uses: tuple[tuple[ArrayUse, tuple[str, ...]], ...] = (("state", roles.state), ("action", roles.action))
    for use, columns in uses:
        is_free = use not in used
        yield ColumnSignal(
            use if is_free else "extra", "" if is_free else f"{label}.{use}", other, columns, rows
        )


def make_trajectory(
    tables: EpisodeTables, signals: tuple[ColumnSignal, ...], seconds: NDArray[np.float64]
) -> Trajectory:
    """The signals as numbers; what is lost or unknown becomes a warning."""
    values = {(part.use, part.name): _values(part, tables.warnings) for part in signals}
    for columns in _too_wide(tables):
        tables.warnings[f"{columns[0]} and its like are not stored (too wide for a signal)"] = None
    extra = {name: signal for (use, name), signal in values.items() if use == "extra"}
    state, reward = values.get(("state", "")), values.get(("reward", ""))
    if state is None and extra:
        tables.warnings["no column is named as state: other columns are signals of unknown meaning"] = None
    return Trajectory(
        timestamps=seconds,
        state=state,
        action=values.get(("action", "")),
        reward=reward.values[:, 0] if reward else None,
        extra=extra,
    )


def _too_wide(tables: EpisodeTables) -> Iterator[tuple[str, ...]]:
    for table in (tables.main, *(other for other, _ in tables.others)):
        roles = table.roles
        groups = (roles.state, roles.action, *roles.extra.values())
        yield from (columns for columns in groups if len(columns) > MAX_SIGNAL_WIDTH)


def _values(part: ColumnSignal, warnings: dict[str, None]) -> Signal:
    """(T, D) float32 of some columns."""
    import numpy as np

    numbers = [part.table.numbers[column] for column in part.columns]
    if part.rows is not None:
        numbers = [column[part.rows] for column in numbers]
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.stack([column.astype(np.float32) for column in numbers], axis=1)
    for name, column in zip(part.columns, numbers, strict=True):
        if column.dtype.kind == "i" and (column.astype(np.float32).astype(np.int64) != column).any():
            warnings[f"{name} holds integers that float32 rounds"] = None
    if not np.isfinite(values).all():
        warnings[f"{part.columns[0]} and its like hold empty cells, or numbers that are not finite"] = None
    return Signal(values, part.columns)


def list_columns(tables: EpisodeTables, signals: tuple[ColumnSignal, ...]) -> Iterator[SourceArray]:
    """Every column of every table, and what it is used as; those of the signals first, in their order."""
    steps, used = tables.num_steps, set[str]()
    for part in signals:
        for column in part.columns:
            key = part.table.key(column)
            used.add(key)
            dtype = str(part.table.numbers[column].dtype)
            yield SourceArray(key=key, use=part.use, name=part.name, shape=(steps,), dtype=dtype)
    for table in (tables.main, *(other for other, _ in tables.others), *tables.unused):
        for column in table.table.names:
            if table.key(column) not in used:
                yield _describe_column(table, column, is_main=table is tables.main)


def _describe_column(table: SignalTable, column: str, *, is_main: bool) -> SourceArray:
    """A column that is no part of a signal."""
    rows, numbers = table.table.num_rows, table.numbers.get(column)
    is_time = is_main and column == table.roles.time
    note = "texts" if numbers is None else "stamps" if column == table.roles.time else ""
    if column in table.roles.order:
        note = "numbers the rows"
    return SourceArray(
        key=table.key(column),
        use="time" if is_time else "unused",
        shape=(rows,),
        dtype="" if numbers is None else str(numbers.dtype),
        note="" if is_time else note,
    )
