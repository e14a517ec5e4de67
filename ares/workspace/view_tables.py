"""Charts of views and episodes for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ares.errors import RequestError
from ares.imports import import_optional

if TYPE_CHECKING:
    import pandas as pd

    from ares.episode import Episode, Trajectory

# A chart has no more points than a notebook draws at once.
_MOST_POINTS, _BINS = 5_000, 40


def plot_column(frame: pd.DataFrame, column: str, color: str) -> Any:
    """A chart of one column: a histogram of numbers, bars of anything else."""
    altair = import_optional("altair", instead="use to_pandas()")
    is_number = frame[column].dtype.kind in "iuf"
    x = altair.X(column, bin=altair.Bin(maxbins=_BINS) if is_number else altair.Undefined)
    sample = frame if len(frame) <= _MOST_POINTS else frame.sample(_MOST_POINTS, random_state=0)
    chart = altair.Chart(sample).mark_bar().encode(x=x, y="count()")
    return chart.encode(color=color) if color else chart


def plot_signals(episode: Episode, trajectory: Trajectory) -> Any:
    """A chart of state and action over the seconds, a line for each dimension."""
    altair = import_optional("altair", instead="use to_pandas()")
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
