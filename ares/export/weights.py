"""Weights of the steps of an export, from a column of numbers or a table; and progress for rabc: docs/weights.md."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from ares.console import count_of
from ares.episode import Episode, Json, Signal, Trajectory
from ares.errors import RequestError
from ares.export.base import PROGRESS, SAMPLE_WEIGHT
from ares.export.trim import check_span_order
from ares.input import is_table, read_valid_rows
from ares.registry import did_you_mean, suggest_column
from ares.store import batched, ids_filter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores


# The list of the weights in an export.
WEIGHTS_FILE = "weights.csv"
# Where lerobot looks for the progress of steps, see lerobot.utils.sample_weighting.
PROGRESS_FILE = "sarm_progress.parquet"
_COLUMNS = ("episode_id", "weight", "reason", "start_seconds", "stop_seconds")
_BATCH_IDS = 10_000
_NUMBER_TYPES = ("bool", "int", "float", "double")


class _WeightedSpan(NamedTuple):
    """Steps of an episode whose weight has a further factor: those in [start, stop)."""

    start_seconds: float
    stop_seconds: float
    factor: float
    reason: str


@dataclass(slots=True)
class EpisodeWeight:
    """The weight of an episode.

    Attributes:
        episode_id: The episode.
        weight: Of all its steps, 0 or more.
        reason: Where it is from.
        spans: Steps with further factors.
    """

    episode_id: str
    weight: float = 1.0
    reason: str = ""
    spans: list[_WeightedSpan] = field(default_factory=list)

    def of_steps(self, stamps: NDArray[np.float64], rate_hz: float) -> NDArray[np.float32]:
        """(T, 1) float32, the weight of each step.

        Args:
            stamps: (T,) seconds of the steps.
            rate_hz: Steps per second.
        """
        import numpy as np

        from ares.clock import time_tolerance

        weights, tolerance = np.full(len(stamps), self.weight), time_tolerance(rate_hz)
        for span in self.spans:
            inside = (stamps >= span.start_seconds - tolerance) & (stamps < span.stop_seconds - tolerance)
            weights[inside] *= span.factor
        return weights.astype(np.float32).reshape(-1, 1)

    def rows(self) -> Iterator[tuple[object, ...]]:
        """The episode and its spans as rows of a list."""
        yield (self.episode_id, self.weight, self.reason, None, None)
        for span in self.spans:
            yield (self.episode_id, span.factor, span.reason, span.start_seconds, span.stop_seconds)


@dataclass(frozen=True, slots=True)
class _WeighedSet:
    """The stores of a workspace, and the members of a set of it: ids of episodes, or lines of spans."""

    stores: Stores
    members: Callable[[], Iterator[str]]

    def ids(self) -> Iterator[str]:
        """The distinct episodes."""
        return (id for id, _ in groupby(self.members(), key=lambda member: member.partition(" ")[0]))


class _WeightRow(BaseModel):
    """A row of a table of weights; with a start and a stop it is a factor of these steps alone."""

    model_config = ConfigDict(frozen=True)

    episode_id: Annotated[str, Field(min_length=1, max_length=64)]
    weight: Annotated[FiniteFloat, Field(ge=0)]
    reason: str = ""
    start_seconds: FiniteFloat | None = None
    stop_seconds: FiniteFloat | None = None

    @model_validator(mode="after")
    def _check_span(self) -> Self:
        if (self.start_seconds is None) != (self.stop_seconds is None):
            raise ValueError("a span has start_seconds and stop_seconds")
        if self.start_seconds is not None and self.stop_seconds is not None:
            check_span_order(self.start_seconds, self.stop_seconds)
        return self


def _read_weight_table(path: str) -> dict[str, EpisodeWeight]:
    """The weights of a table by episode, 1 where it has only spans. Raises RequestError for a wrong row."""
    weights: dict[str, EpisodeWeight] = {}
    stated: set[str] = set()
    for row in read_valid_rows(path, _WeightRow):
        weight = weights.setdefault(row.episode_id, EpisodeWeight(row.episode_id))
        reason = row.reason or Path(path).name
        if row.start_seconds is not None and row.stop_seconds is not None:
            weight.spans.append(_WeightedSpan(row.start_seconds, row.stop_seconds, row.weight, reason))
            continue
        if row.episode_id in stated:
            raise RequestError("the table of weights has an episode twice", f"{path!r}: {row.episode_id}")
        stated.add(row.episode_id)
        weight.weight, weight.reason = row.weight, reason
    return weights


def _check_weighed(weighed: _WeighedSet, weights: Mapping[str, EpisodeWeight], path: str) -> Iterator[str]:
    """Refuse a table that lacks an episode; yields what is said of those that it has beyond them."""
    known = set(weighed.ids())
    if missing := sorted(known - weights.keys()):
        detail = f"{path!r} has no row of episode {missing[0]}; give every episode of the set a weight"
        raise RequestError("the table of weights lacks an episode", detail)
    if others := sorted(weights.keys() - known):
        yield f"weights of {count_of(len(others), 'episode')} outside the export, such as {others[0]}"


@dataclass(frozen=True, slots=True)
class _ColumnWeights:
    """The values of a column; an episode without one gets their mean, for it is neither better nor worse."""

    stores: Stores
    column: str
    mean: float

    def read(self, ids: Sequence[str]) -> dict[str, EpisodeWeight]:
        """The weights of episodes by id. Raises RequestError for a negative value."""
        weights = {}
        for id, value in _read_values(self.stores, self.column, ids):
            if value is None:
                weights[id] = EpisodeWeight(id, self.mean, f"no {self.column}, mean {self.mean:g}")
                continue
            if value < 0:
                detail = f"episode {id}: {self.column} is {value:g}; rescale it in a table of weights"
                raise RequestError("a weight is 0 or more", detail)
            weights[id] = EpisodeWeight(id, value, f"{self.column} {value:g}")
        return weights


def _mean_of_column(weighed: _WeighedSet, column: str) -> float:
    """Mean of the values of a column in the set. Raises RequestError for one that has no numbers."""
    columns = weighed.stores.tables.episodes.columns()
    numeric = [name for name, kind in columns.items() if any(word in kind for word in _NUMBER_TYPES)]
    if column not in numeric:
        kind = f"{column!r} is a {columns[column]}" if column in columns else f"there is no column {column!r}"
        forms = "a weight is a column of numbers, or a CSV, JSONL or Parquet file with episode_id and weight"
        raise RequestError("no such weight", f"{kind}; {suggest_column(column, numeric)}{forms}")
    total, count = 0.0, 0
    for ids in batched(weighed.ids(), _BATCH_IDS):
        values = [value for _, value in _read_values(weighed.stores, column, ids) if value is not None]
        total, count = total + math.fsum(values), count + len(values)
    if not count:
        raise RequestError(f"no episode of the set has a value of {column!r}", "annotate them first")
    return total / count


def _read_values(stores: Stores, column: str, ids: Sequence[str]) -> Iterator[tuple[str, float | None]]:
    table = stores.tables.episodes.read_columns(["episode_id", column], ids_filter(ids))
    for id, value in zip(*(table.column(name).to_pylist() for name in ("episode_id", column)), strict=True):
        yield id, None if value is None or not math.isfinite(value) else float(value)


class SampleWeights:
    """The weights of the episodes of a set, computed for some of them at a time.

    Args:
        stores: Stores of the workspace.
        members: Reads the members of the set: ids of episodes, or lines of spans.
        source: A column of numbers, or a table; "" for no weights, only progress.
        progress: Signal that is the progress of the steps, or "".

    Raises:
        RequestError: There is no such column, the table is wrong, or the signal is no progress.
    """

    def __init__(
        self, stores: Stores, members: Callable[[], Iterator[str]], source: str, progress: str = ""
    ) -> None:
        self._set, self._source, self._progress = _WeighedSet(stores, members), source.strip(), progress
        self._table = _read_weight_table(self._source) if is_table(self._source) else None
        self._column = (
            _ColumnWeights(stores, self._source, _mean_of_column(self._set, self._source))
            if self._source and self._table is None
            else None
        )
        others = _check_weighed(self._set, self._table, self._source) if self._table is not None else ()
        self._left_out = (*others, *(_check_progress(self._set, progress) if progress else ()))

    def notes(self) -> tuple[tuple[dict[str, Json], ...], tuple[str, ...], tuple[str, ...]]:
        """What is changed, left out and unknown of the episodes, as `ares.export.run.ReadingNotes`.

        Raises RequestError where every weight is 0.
        """
        import numpy as np

        if not self._source:
            return (), self._left_out, ()
        array = np.array([entry.weight for entry in self._every()])
        if not array.sum():
            raise RequestError("every weight of the set is 0", f"by {self._source}")
        spread: dict[str, Json] = {
            "reason": f"{SAMPLE_WEIGHT} was added: {self._source}",
            "episodes": len(array),
            "mean": round(float(array.mean()), 6),
            "least": round(float(array.min()), 6),
            "largest": round(float(array.max()), 6),
            "of_weight_0": int((array == 0).sum()),
            # As many episodes of equal weight have a mean as certain.
            "effective_episodes": round(float(array.sum() ** 2 / (array**2).sum()), 1),
        }
        return (spread,), self._left_out, ()

    def of_episodes(self, ids: Sequence[str]) -> dict[str, EpisodeWeight]:
        """The weights of some episodes by id, without those that are gone from the workspace."""
        if self._column is not None:
            return self._column.read(ids)
        table = self._table or {}
        stored = self._set.stores.tables.episodes.ids(ids_filter(ids)) if table else frozenset()
        return {id: table[id] for id in ids if id in stored}

    def _every(self) -> Iterator[EpisodeWeight]:
        """The weights of all episodes of the set, in its order."""
        for ids in batched(self._set.ids(), _BATCH_IDS):
            weights = self.of_episodes(ids)
            yield from (weights[id] for id in ids if id in weights)

    def add(
        self, episodes: Sequence[Episode], trajectories: Mapping[str, Trajectory]
    ) -> dict[str, Trajectory]:
        """The trajectories of episodes with the weights, and the progress, of their steps as further signals."""
        import numpy as np

        weights = self.of_episodes([episode.episode_id for episode in episodes]) if self._source else {}
        weighed = {}
        for episode in episodes:
            id, trajectory = episode.episode_id, trajectories[episode.episode_id]
            extra, stamps = dict(trajectory.extra), trajectory.timestamps
            if not np.isfinite(stamps).all() or len(stamps) != episode.num_steps:
                stamps = np.arange(episode.num_steps) / episode.rate_hz
            if id in weights:
                values = weights[id].of_steps(stamps, episode.rate_hz)
                extra[SAMPLE_WEIGHT] = Signal(values, (SAMPLE_WEIGHT,))
            if self._progress in extra:
                extra[PROGRESS] = Signal(extra[self._progress].values, (PROGRESS,))
            weighed[id] = replace(trajectory, extra=extra)
        return weighed

    def write(self, folder: Path) -> None:
        """Write the list of the weights into an export; it is a table of weights itself."""
        if self._source:
            with (folder / WEIGHTS_FILE).open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(_COLUMNS)
                writer.writerows(row for entry in self._every() for row in entry.rows())


def _check_progress(weighed: _WeighedSet, name: str) -> Iterator[str]:
    """Refuse what is no progress of steps; yields what is said of episodes without any."""
    import numpy as np

    known: set[str] = set()
    without, changes = 0, False
    for ids in batched(weighed.ids(), _BATCH_IDS):
        for id, trajectory in weighed.stores.tables.trajectories.read(ids):
            known |= trajectory.extra.keys()
            signal = trajectory.extra.get(name)
            if signal is None:
                without += 1
                continue
            values = signal.values.reshape(len(signal.values), -1)
            if values.shape[1] != 1 or not ((values >= 0) & (values <= 1)).all():
                size = f"{count_of(values.shape[1], 'dimension')} from {values.min():g} to {values.max():g}"
                detail = f"{name!r} of episode {id} has {size}"
                raise RequestError("progress is one number from 0 to 1 at each step", detail)
            changes |= bool(np.ptp(values) > 0)
    if not changes:
        _refuse_progress(weighed, name, known)
    if without:
        yield f"progress of {count_of(without, 'episode')}: their source has no {name}"


def _refuse_progress(weighed: _WeighedSet, name: str, known: set[str]) -> None:
    advice = (
        "rabc weighs steps by how progress rises in an episode and would train something else; use --weights"
    )
    if name in known:
        raise RequestError("no progress of steps", f"{name!r} does not change within any episode; {advice}")
    if name in weighed.stores.tables.episodes.columns():
        raise RequestError(
            "no progress of steps", f"{name!r} is one value of an episode, such as a grade; {advice}"
        )
    detail = (
        f"{did_you_mean(name, sorted(known))}signals of the sources are: {', '.join(sorted(known)) or 'none'}"
    )
    raise RequestError(f"no signal {name!r} of the steps", detail)


class ProgressFileWriter:
    """Writes the progress of the steps of a dataset as lerobot 0.6 reads it for `sample_weighting.type=rabc`.

    Args:
        root: Dataset folder.
    """

    def __init__(self, root: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        integer = pa.int64()
        names = [("index", integer), ("episode_index", integer), ("frame_index", integer)]
        self._schema = pa.schema([*names, (PROGRESS, pa.float32())])
        self._writer = pq.ParquetWriter(root / PROGRESS_FILE, self._schema)

    def add(self, number: int, first_row: int, count: int, signal: Signal | None) -> None:
        """Append the steps of an episode; without progress they have no value, which rabc weighs 1.

        Args:
            number: Number of the episode.
            first_row: Number of its first step in the dataset.
            count: Its steps.
            signal: (count, 1) progress.
        """
        import numpy as np
        import pyarrow as pa

        steps = np.arange(count, dtype=np.int64)
        values = pa.nulls(count, pa.float32()) if signal is None else pa.array(signal.values.reshape(-1))
        columns = [steps + first_row, np.full(count, number, np.int64), steps, values.cast(pa.float32())]
        self._writer.write_table(
            pa.Table.from_arrays([pa.array(column) for column in columns], schema=self._schema)
        )

    def close(self) -> None:
        """Finish the file; may be called twice."""
        self._writer.close()
