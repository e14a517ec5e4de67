"""Weights of the episodes of an export, from a column of numbers or a table: docs/trim.md."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, field_validator

from ares.console import count_of
from ares.episode import Episode, Json, Signal, Trajectory
from ares.errors import RequestError
from ares.export.base import SAMPLE_WEIGHT
from ares.input import is_table, read_valid_rows
from ares.registry import suggest_column
from ares.store import batched, ids_filter

if TYPE_CHECKING:
    from ares.store import Stores


# The list of the weights in an export.
WEIGHTS_FILE = "weights.csv"
_COLUMNS = ("episode_id", "weight", "reason")
_BATCH_IDS = 10_000
_NUMBER_TYPES = ("bool", "int", "float", "double")


class EpisodeWeight(NamedTuple):
    """The weight of all steps of an episode, 0 or more, and where it is from."""

    weight: float
    reason: str


@dataclass(frozen=True, slots=True)
class _WeighedSet:
    """The stores of a workspace, and the members of a set of it: ids of episodes, or lines of spans."""

    stores: Stores
    members: Callable[[], Iterator[str]]

    def ids(self) -> Iterator[str]:
        """The distinct episodes."""
        return (id for id, _ in groupby(self.members(), key=lambda member: member.partition(" ")[0]))


class _WeightRow(BaseModel):
    """A row of a table of weights."""

    model_config = ConfigDict(frozen=True)

    episode_id: Annotated[str, Field(min_length=1, max_length=64)]
    weight: Annotated[FiniteFloat, Field(ge=0)]
    reason: str = ""
    start_seconds: FiniteFloat | None = None

    @field_validator("start_seconds")
    @classmethod
    def _check_whole(cls, start: float | None) -> None:
        if start is not None:
            raise ValueError("a weight is of a whole episode, not from start_seconds on")


def _read_weight_table(path: str) -> dict[str, EpisodeWeight]:
    """The weights of a table by episode. Raises RequestError for a wrong row."""
    weights: dict[str, EpisodeWeight] = {}
    for row in read_valid_rows(path, _WeightRow):
        if row.episode_id in weights:
            raise RequestError("the table of weights has an episode twice", f"{path!r}: {row.episode_id}")
        weights[row.episode_id] = EpisodeWeight(row.weight, row.reason or Path(path).name)
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
                weights[id] = EpisodeWeight(self.mean, f"no {self.column}, mean {self.mean:g}")
                continue
            if value < 0:
                detail = f"episode {id}: {self.column} is {value:g}; rescale it in a table of weights"
                raise RequestError("a weight is 0 or more", detail)
            weights[id] = EpisodeWeight(value, f"{self.column} {value:g}")
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
        source: A column of numbers, or a table.

    Raises:
        RequestError: There is no such column, or the table is wrong.
    """

    def __init__(self, stores: Stores, members: Callable[[], Iterator[str]], source: str) -> None:
        self._set, self._source = _WeighedSet(stores, members), source.strip()
        self._table: dict[str, EpisodeWeight] | None = None
        self._left_out: tuple[str, ...] = ()
        if is_table(self._source):
            self._table = _read_weight_table(self._source)
            self._left_out = tuple(_check_weighed(self._set, self._table, self._source))
        else:
            self._column = _ColumnWeights(stores, self._source, _mean_of_column(self._set, self._source))

    def notes(self) -> tuple[tuple[dict[str, Json], ...], tuple[str, ...], tuple[str, ...]]:
        """What is changed, left out and unknown of the episodes, as `ares.export.run.ReadingNotes`.

        Raises RequestError where every weight is 0.
        """
        import numpy as np

        array = np.array([entry.weight for _, entry in self._every()])
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
        if self._table is None:
            return self._column.read(ids)
        stored = self._set.stores.tables.episodes.ids(ids_filter(ids))
        return {id: self._table[id] for id in ids if id in stored}

    def _every(self) -> Iterator[tuple[str, EpisodeWeight]]:
        """The ids and weights of all episodes of the set, in its order."""
        for ids in batched(self._set.ids(), _BATCH_IDS):
            weights = self.of_episodes(ids)
            yield from ((id, weights[id]) for id in ids if id in weights)

    def add(
        self, episodes: Sequence[Episode], trajectories: Mapping[str, Trajectory]
    ) -> dict[str, Trajectory]:
        """The trajectories of episodes with the weights of their steps as a further signal."""
        import numpy as np

        weights = self.of_episodes([episode.episode_id for episode in episodes])
        weighed = {}
        for episode in episodes:
            id, trajectory = episode.episode_id, trajectories[episode.episode_id]
            extra = dict(trajectory.extra)
            if id in weights:
                values = np.full((len(trajectory.timestamps), 1), weights[id].weight, np.float32)
                extra[SAMPLE_WEIGHT] = Signal(values, (SAMPLE_WEIGHT,))
            weighed[id] = replace(trajectory, extra=extra)
        return weighed

    def write(self, folder: Path) -> None:
        """Write the list of the weights into an export; it is a table of weights itself."""
        with (folder / WEIGHTS_FILE).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(_COLUMNS)
            writer.writerows((id, *entry) for id, entry in self._every())
