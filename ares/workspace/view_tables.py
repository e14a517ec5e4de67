"""Tables and plots of a view: SQL over its rows, counts, summaries of numbers, and charts for notebooks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ares.errors import RequestError
from ares.imports import import_optional
from ares.registry import suggest_column
from ares.store import column_membership, replace_membership

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from ares.episode import Episode, Trajectory

# A chart has no more points than a notebook draws at once.
_MOST_POINTS, _BINS = 5_000, 40
_INSTALL = "pip install 'ares-curation[notebook]', or use to_pandas()"


def run_sql(
    query: str,
    table: Callable[[Sequence[str]], pa.Table],
    columns: Sequence[str],
    find_set: Callable[[str], tuple[str, Iterator[str]]],
) -> pd.DataFrame:
    """The result of a query over the table `episodes`; only the columns that it names are read.

    Args:
        query: A SELECT of DuckDB; `in_set`, `tagged` and `reviewed` stand in it as in a filter.
        table: Reads columns of the rows.
        columns: Names of all columns; metadata, JSON text, is no part of `*`.
        find_set: Finds the members of a set.

    Raises:
        RequestError: The query cannot be read, or is no SELECT.
    """
    import duckdb
    import pyarrow as pa

    if not re.match(r"\s*(select|with|from)\b", query, re.IGNORECASE):
        raise RequestError("a query is a SELECT over the table episodes", f"got {query[:100]!r}")
    members: dict[str, pa.Table] = {}

    def expand(name: str, argument: str) -> str | None:
        if name != "in_set":
            return column_membership(name, argument, columns)
        ids = pa.array(find_set(argument)[1], pa.string())
        members[f"members_of_set_{len(members)}"] = pa.table({"id": ids})
        return f"(episode_id IN (SELECT id FROM members_of_set_{len(members) - 1}))"

    query = replace_membership(query, expand)
    named = set(re.findall(r"\w+", query))
    is_all = re.search(r"\*(?!\s*\))|\bfrom\s+episodes\s*$|^\s*from\b", query, re.IGNORECASE)
    read_columns = [name for name in columns if name in named or (is_all and name != "metadata")]
    with duckdb.connect(config={"enable_external_access": "false"}) as connection:
        for name, rows in {"episodes": table(read_columns or ["episode_id"]), **members}.items():
            connection.register(name, rows)
        try:
            result: pd.DataFrame = connection.sql(query).to_arrow_table().to_pandas()
        except duckdb.Error as error:
            line = str(error).strip().splitlines()[0]
            unknown = re.search(r'column "(.+?)" not found', line)
            hint = f"{suggest_column(unknown[1], columns)}columns: {', '.join(columns)}; " if unknown else ""
            raise RequestError("the query cannot be run", f"{line}; {hint}the table is episodes") from None
    return result


def plot_column(frame: pd.DataFrame, column: str, color: str) -> Any:
    """A chart of one column: a histogram of numbers, bars of anything else."""
    altair = import_optional("altair", instead=_INSTALL)
    is_number = frame[column].dtype.kind in "iuf"
    x = altair.X(column, bin=altair.Bin(maxbins=_BINS) if is_number else altair.Undefined)
    sample = frame if len(frame) <= _MOST_POINTS else frame.sample(_MOST_POINTS, random_state=0)
    chart = altair.Chart(sample).mark_bar().encode(x=x, y="count()")
    return chart.encode(color=color) if color else chart


def plot_signals(episode: Episode, trajectory: Trajectory) -> Any:
    """A chart of state and action over the seconds, a line for each dimension."""
    altair = import_optional("altair", instead=_INSTALL)
    pandas = import_optional("pandas", instead="read episode.trajectory")
    frames = []
    for name, signal in (("state", trajectory.state), ("action", trajectory.action)):
        if signal is None:
            continue
        step = max(1, len(trajectory.timestamps) * len(signal.names) // _MOST_POINTS)
        frame = pandas.DataFrame(signal.values[::step], columns=list(signal.names))
        frame = frame.assign(second=trajectory.timestamps[::step])
        frames.append(frame.melt("second", var_name="dimension").assign(signal=name))
    if not frames:
        raise RequestError("the episode has no state and no action", episode.episode_id)
    data = pandas.concat(frames)
    chart = altair.Chart(data).mark_line().encode(x="second:Q", y="value:Q", color="dimension:N")
    return chart.properties(width=600, height=160).facet(row="signal:N").resolve_scale(y="independent")
