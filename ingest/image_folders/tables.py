"""The tables of one episode: the role of each column, the table that gives the steps, the signals."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.clock import SECONDS_BY_UNIT, infer_stamp_unit
from ares.episode import ArrayUse, NotRead, Signal, SourceArray, SourceSegment, Trajectory
from ares.errors import SourceError
from ares.io import file_state
from ares.media import IMAGE_SUFFIXES, CsvTable, read_csv_table
from ares_ingest.folder_layouts import read_folder_layout
from ares_ingest.signals import MAX_SIGNAL_WIDTH, NO_TIME, SpecTimeArray, missing_time_error, rising_seconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


VIDEO_SUFFIXES = (".mp4", ".mov", ".mkv", ".webm", ".avi")
# A number, or an axis behind a separator: "task_index" is no "task_inde" along x.
_PART = re.compile(r"([._/\[ ]?\d+|[._/\[ ](q?[xyzw]|r[xyz]|roll|pitch|yaw))\]?$")


@dataclass(frozen=True, slots=True)
class TableColumnRoles:
    """Columns of a table by role, each in the order of the table.

    Attributes:
        time: Column of the seconds, or "".
        state: Columns of the state.
        action: Columns of the action.
        reward: Column of the reward, or "".
        order: Columns that only number the rows.
        extra: Other columns by the signal that they are parts of.
    """

    time: str = ""
    state: tuple[str, ...] = ()
    action: tuple[str, ...] = ()
    reward: str = ""
    order: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)


def assign_column_roles(names: Iterable[str], time: str = "") -> TableColumnRoles:
    """Give each numeric column its role.

    Args:
        names: The columns, in order.
        time: The column of the times, where a spec names it; "" to choose it by its name.
    """
    by_role: dict[str, list[str]] = {"time": [time]} if time else {}
    extra: dict[str, list[str]] = {}
    for name in names:
        if name == time:
            continue
        role = column_role(name)
        if role in ("time", "reward") and role in by_role:
            role = "extra"
        by_role.setdefault(role, []).append(name)
        if role == "extra":
            extra.setdefault(_PART.sub("", name) or name, []).append(name)
    return TableColumnRoles(
        time=next(iter(by_role.get("time", ())), ""),
        state=tuple(by_role.get("state", ())),
        action=tuple(by_role.get("action", ())),
        reward=next(iter(by_role.get("reward", ())), ""),
        order=(*by_role.get("order", ()), *by_role.get("episode", ())),
        extra={signal: tuple(columns) for signal, columns in extra.items()},
    )


def column_role(name: str) -> str:
    """What a column is by its name: a role of the layout of tables, or "extra"."""
    roles, normal = read_folder_layout("tables").columns.items(), _normalise_column_name(name)
    return next((role for role, expression in roles if re.fullmatch(expression, normal)), "extra")


def _normalise_column_name(name: str) -> str:
    return re.sub(r"[ \-()]+", "_", name.strip().lower()).strip("_")


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
    roles: TableColumnRoles
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
    paths: list[Path],
    time: SpecTimeArray = NO_TIME,
    stated_rate_hz: float | None = None,
    rows: CsvTable | None = None,
) -> EpisodeTables:
    """Parse the tables of an episode.

    The table with the times that a spec names gives the steps, else the one with state or action, else the longest.

    Args:
        paths: The tables.
        time: The column of the times by a spec.
        stated_rate_hz: Rate that the JSON file states, or None; it tells the unit of the times.
        rows: The rows of the only table that are the episode; None for all.

    Raises:
        SourceError: One cannot be parsed, none has a row and a numeric column, or none has the times of the spec.
    """
    warnings: dict[str, None] = {}
    tables = [
        _parse_table(
            path,
            prefix,
            rows or read_csv_table(str(path), file_state(str(path))),
            time,
            stated_rate_hz,
            warnings,
        )
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
    return _assign_tables(main, [table for table in tables if table is not main], warnings)


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


def _assign_tables(main: SignalTable, others: list[SignalTable], warnings: dict[str, None]) -> EpisodeTables:
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
            warnings[NotRead("a table with other rows and without stamps is not stored")] = None
    return result


def _parse_table(
    path: Path,
    prefix: str,
    table: CsvTable,
    time: SpecTimeArray,
    stated_rate_hz: float | None,
    warnings: dict[str, None],
) -> SignalTable:
    numbers = {name: values for name in table.names if (values := table.numbers(name)) is not None}
    named = next((name for name in numbers if time.key and f"{prefix}{name}" == time.key), "")
    roles = assign_column_roles(numbers, named)
    stamp_columns = time if named else NO_TIME
    seconds, start = None, 0.0
    if roles.time and table.num_rows:
        seconds, start = _stamp_seconds(
            roles.time, numbers[roles.time], stamp_columns, stated_rate_hz, warnings
        )
    if named and seconds is None:
        raise SourceError("timestamps of the spec do not rise", f"{path}: {named}")
    return SignalTable(path, table, numbers, roles, seconds, start, prefix)


def _stamp_seconds(
    name: str, values: Any, time: SpecTimeArray, stated_rate_hz: float | None, warnings: dict[str, None]
) -> tuple[NDArray[np.float64] | None, float]:
    """Seconds of a column of time from the first row, and that of the first row.

    Their unit is that of the spec, or the one that their name, the stated rate, their size or their rate tells.
    """
    import numpy as np

    finite = np.flatnonzero(np.isfinite(values))
    first = values[finite[0]] if len(finite) else 0
    guess = infer_stamp_unit(values, name, stated_rate_hz)
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
    if stamps is not None and other_stamps is not None and _times_overlap(stamps, other_stamps):
        rows = np.searchsorted(other_stamps, stamps + 1e-9, side="right") - 1
        return np.maximum(rows, 0)
    same_length = main.table.num_rows == other.table.num_rows
    return np.arange(main.table.num_rows) if same_length else None


def _times_overlap(stamps: NDArray[np.float64], others: NDArray[np.float64]) -> bool:
    return bool(others[0] <= stamps[-1] and stamps[0] <= others[-1])


def hash_table_contents(tables: EpisodeTables) -> Any:
    """Hash of the content of the tables, to be continued with the images."""
    from ares.input import input_budgets, read_input

    digest = hashlib.blake2b(digest_size=16)
    for table in (tables.main, *(other for other, _ in tables.others)):
        digest.update(read_input(str(table.path), input_budgets().array_bytes))
    return digest


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


def make_column_signals(tables: EpisodeTables) -> tuple[ColumnSignal, ...]:
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
    values = {(part.use, part.name): _signal_of_columns(part, tables.warnings) for part in signals}
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


def _signal_of_columns(part: ColumnSignal, warnings: dict[str, None]) -> Signal:
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


def find_text_segments(tables: EpisodeTables, seconds: NDArray[np.float64]) -> Iterator[SourceSegment]:
    """The texts of columns of instructions that change within the episode, as segments; (T,) seconds of the steps."""
    for name in read_folder_layout("tables").texts:
        texts = tables.main.table.texts(name)
        starts = [0, *(row for row in range(1, len(texts)) if texts[row] != texts[row - 1])]
        for row, end in zip_longest(starts, starts[1:]) if len(starts) > 1 else ():
            stop = math.inf if end is None else float(seconds[end])
            yield SourceSegment(
                style="subtask", text=texts[row], start_seconds=float(seconds[row]), stop_seconds=stop
            )


def describe_table_columns(tables: EpisodeTables, signals: tuple[ColumnSignal, ...]) -> Iterator[SourceArray]:
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
    texts = dict.fromkeys(table.table.texts(column)) if numbers is None else {}
    is_text = is_main and bool(texts)
    is_kept = is_text and (
        len(texts) == 1
        or column in read_folder_layout("tables").texts
        or any(text.lower().endswith(IMAGE_SUFFIXES) for text in texts)
    )
    use: ArrayUse = "time" if is_main and column == table.roles.time else "unused"
    if use == "unused" and (is_kept or column == table.roles.time or column in table.roles.order):
        use = "kept"
    stored = "str" if texts else str(table.table.columns[column].type).removeprefix("null")
    dtype = stored if numbers is None else str(numbers.dtype)
    return SourceArray(key=table.key(column), use=use, shape=(rows,), dtype=dtype)
