"""Weights of the steps of an export: from columns, filters, segments or a list of episodes; and progress for rabc.

How they are combined, and how well they agree with what is known of the episodes: docs/weights.md.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from ares.console import count_of
from ares.curation import Sets
from ares.episode import Episode, Json, Signal, Trajectory
from ares.errors import RequestError
from ares.export.base import PROGRESS, SAMPLE_WEIGHT
from ares.export.weight_calibration import describe_weights
from ares.io import existing_path, open_file
from ares.registry import did_you_mean, suggest_column
from ares.store import batched, conjunction, ids_filter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.curation import CurationSet
    from ares.store import Stores


# The list of the weights in an export.
WEIGHTS_FILE = "weights.csv"
# Where lerobot looks for the progress of steps, see lerobot.utils.sample_weighting.
PROGRESS_FILE = "sarm_progress.parquet"
_COLUMNS = ("episode_id", "weight", "reason", "start_seconds", "stop_seconds")
_RULE = re.compile(r"\s*([-+.\w]+)\s+(where|over)\s+(\S.*)", re.IGNORECASE | re.DOTALL)
_SUFFIXES = (".csv", ".json", ".jsonl")
_LARGEST_BYTES = 2**30
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
        reasons: What it is made of.
        spans: Steps with further factors.
    """

    episode_id: str
    weight: float = 1.0
    reasons: list[str] = field(default_factory=list)
    spans: list[_WeightedSpan] = field(default_factory=list)

    def multiply(self, factor: float, reason: str) -> None:
        """Multiply the weight. Raises RequestError for a factor that is negative or no number."""
        if not (math.isfinite(factor) and factor >= 0):
            detail = f"episode {self.episode_id}: {reason} gives {factor:g}; rescale it in a file of weights"
            raise RequestError("a weight is 0 or more", detail)
        self.weight *= factor
        self.reasons.append(reason)

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

    def rows(self) -> Iterator[dict[str, Json]]:
        """The episode and its spans as rows of a list."""
        yield dict(
            zip(_COLUMNS, (self.episode_id, self.weight, "; ".join(self.reasons), None, None), strict=True)
        )
        for span in self.spans:
            values = (self.episode_id, span.factor, span.reason, span.start_seconds, span.stop_seconds)
            yield dict(zip(_COLUMNS, values, strict=True))


class _Factor(Protocol):
    """One factor of the weights."""

    def apply(self, weights: Mapping[str, EpisodeWeight]) -> None:
        """Multiply the weights of some episodes, by id."""


@dataclass(frozen=True, slots=True)
class _ColumnFactor:
    """The values of a column; an episode without one gets their mean, for it is neither better nor worse."""

    stores: Stores
    column: str
    mean: float

    def apply(self, weights: Mapping[str, EpisodeWeight]) -> None:
        """Multiply the weights by the values of the column."""
        for id, value in _read_values(self.stores, self.column, list(weights)):
            reason = (
                f"{self.column} {value:g}" if value is not None else f"no {self.column}, mean {self.mean:g}"
            )
            weights[id].multiply(self.mean if value is None else value, reason)


@dataclass(frozen=True, slots=True)
class _FilterFactor:
    """A number for the episodes of a filter."""

    stores: Stores
    factor: float
    where: str

    def apply(self, weights: Mapping[str, EpisodeWeight]) -> None:
        """Multiply the weights of the episodes that match."""
        matching = self.stores.tables.episodes.ids(conjunction([ids_filter(list(weights)), self.where]))
        for id in sorted(matching):
            weights[id].multiply(self.factor, f"{self.factor:g} where {self.where}")


@dataclass(frozen=True, slots=True)
class _SegmentFactor:
    """A number for the steps in the segments of a filter."""

    stores: Stores
    factor: float
    where: str

    def apply(self, weights: Mapping[str, EpisodeWeight]) -> None:
        """Add the spans of the segments that match, each once."""
        columns = ["episode_id", "start_seconds", "stop_seconds"]
        where = conjunction([ids_filter(list(weights)), self.where])
        rows = self.stores.tables.segments.scan(columns, where).to_pylist()
        spans = sorted({(row["episode_id"], row["start_seconds"], row["stop_seconds"]) for row in rows})
        for id, own in groupby(spans, key=lambda span: span[0]):
            reason = f"{self.factor:g} over {self.where}"
            weights[id].spans += [_WeightedSpan(*span[1:], self.factor, reason) for span in _join_spans(own)]


def _join_spans(spans: Iterable[tuple[str, float, float]]) -> list[tuple[str, float, float]]:
    """Spans of one episode by start, those that overlap joined, so that no step gets a factor twice."""
    joined: list[tuple[str, float, float]] = []
    for id, start, stop in spans:
        if joined and start <= joined[-1][2]:
            joined[-1] = (id, joined[-1][1], max(stop, joined[-1][2]))
        else:
            joined.append((id, start, stop))
    return joined


class _WeightRow(BaseModel):
    """A row of a list of weights; empty cells are None."""

    model_config = ConfigDict(frozen=True)

    episode_id: Annotated[str, Field(min_length=1, max_length=64)]
    weight: Annotated[FiniteFloat, Field(ge=0)]
    reason: str | None = ""
    start_seconds: FiniteFloat | None = None
    stop_seconds: FiniteFloat | None = None


@dataclass(frozen=True, slots=True)
class _ListFactor:
    """The weights of a list; an episode without a row of its own is an error, unless the list has spans of it."""

    path: str
    rows: Mapping[str, Sequence[_WeightRow]]

    def apply(self, weights: Mapping[str, EpisodeWeight]) -> None:
        """Multiply the weights by those of the list."""
        for id, weight in weights.items():
            if id not in self.rows:
                detail = f"{self.path!r} has no row of episode {id}; give every episode of the set a weight"
                raise RequestError("the list of weights lacks an episode", detail)
            for row in self.rows[id]:
                reason = row.reason or Path(self.path).name
                if row.start_seconds is None or row.stop_seconds is None:
                    weight.multiply(row.weight, reason)
                else:
                    span = _WeightedSpan(row.start_seconds, row.stop_seconds, row.weight, reason)
                    weight.spans.append(span)


def _read_list(path: str) -> _ListFactor:
    """The weights of a CSV or JSON file. Raises RequestError for a wrong one."""
    existing_path(path)
    with open_file(path) as file:
        content = file.read(_LARGEST_BYTES + 1)
    rows: dict[str, list[_WeightRow]] = {}
    try:
        if len(content) > _LARGEST_BYTES:
            raise ValueError(f"it has more than {_LARGEST_BYTES} bytes")
        text = content.decode("utf-8-sig")
        for number, document in enumerate(_parse_rows(path, text), start=1):
            cells = {name: document[name] for name in _COLUMNS if document.get(name) not in (None, "")}
            try:
                row = _WeightRow.model_validate(cells)
            except ValidationError as error:
                first = error.errors()[0]
                name = str(first["loc"][0])
                raise ValueError(f"row {number}: {name} {document.get(name)!r}: {first['msg']}") from None
            rows.setdefault(row.episode_id, []).append(row)
    except (ValueError, csv.Error, RecursionError) as error:
        detail = f"{path!r}: {error}; rows have {', '.join(_COLUMNS)}, the last three may be empty"
        raise RequestError("the list of weights cannot be read", detail) from None
    for id, own in rows.items():
        if sum(row.start_seconds is None for row in own) > 1:
            raise RequestError("the list of weights has an episode twice", f"{path!r}: {id}")
    return _ListFactor(path, rows)


def _parse_rows(path: str, text: str) -> list[Mapping[str, Any]]:
    if path.lower().endswith(".csv"):
        return list(csv.DictReader(text.splitlines()))
    is_lines = path.lower().endswith(".jsonl")
    rows = [json.loads(line) for line in text.splitlines() if line.strip()] if is_lines else json.loads(text)
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ValueError("it is no list of objects")
    return rows


@dataclass(frozen=True, slots=True)
class _WeighedSet:
    """The stores of a workspace, and the members of a set of it: ids of episodes, or lines of spans."""

    stores: Stores
    members: Callable[[], Iterator[str]]

    def ids(self) -> Iterator[str]:
        """The distinct episodes."""
        return (id for id, _ in groupby(self.members(), key=lambda member: member.partition(" ")[0]))


def _make_factors(own: _WeighedSet, specs: Sequence[str]) -> Iterator[_Factor]:
    """The factors that a user names. Raises RequestError."""
    stores = own.stores
    for spec in specs:
        if spec.lower().endswith(_SUFFIXES):
            yield _read_list(spec)
        elif rule := _RULE.fullmatch(spec):
            number, kind, where = rule.groups()
            factor = _parse_factor(number, spec)
            if kind.lower() == "where":
                stores.tables.episodes.check(where)
                yield _FilterFactor(stores, factor, where)
            else:
                stores.tables.segments.count(where)  # a wrong filter is refused, also without any segment
                yield _SegmentFactor(stores, factor, where)
        else:
            yield _ColumnFactor(stores, spec.strip(), _mean_of_column(own, spec.strip()))


def _parse_factor(text: str, spec: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not (math.isfinite(factor) and factor >= 0):
        raise RequestError(
            "a weight is 0 or more", f"got {text!r} in {spec!r}; such as: 0.2 where NOT acceptable"
        )
    return factor


def _mean_of_column(own: _WeighedSet, column: str) -> float:
    """Mean of the values of a column in the set. Raises RequestError for one that has no numbers."""
    columns = own.stores.tables.episodes.columns()
    numeric = [name for name, own in columns.items() if any(word in own for word in _NUMBER_TYPES)]
    if column not in numeric:
        kind = f"{column!r} is a {columns[column]}" if column in columns else f"there is no column {column!r}"
        forms = "a weight is a column of numbers, a file, 'NUMBER where FILTER' or 'NUMBER over FILTER'"
        raise RequestError("no such weight", f"{kind}; {suggest_column(column, numeric)}{forms}")
    total, count = 0.0, 0
    for ids in batched(own.ids(), _BATCH_IDS):
        values = [value for _, value in _read_values(own.stores, column, ids) if value is not None]
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
        specs: Factors: columns of numbers, "NUMBER where FILTER" over episodes, "NUMBER over FILTER" over segments, or
            files. Without any there are no weights, only progress.
        progress: Signal that is the progress of the steps, or "".

    Raises:
        RequestError: A factor is wrong.
    """

    def __init__(
        self,
        stores: Stores,
        members: Callable[[], Iterator[str]],
        specs: Sequence[str],
        progress: str = "",
    ) -> None:
        self._set, self._specs, self._progress = _WeighedSet(stores, members), tuple(specs), progress
        self._factors = tuple(_make_factors(self._set, specs))
        self._left_out = tuple(_check_progress(self._set, progress)) if progress else ()

    def notes(self) -> tuple[tuple[dict[str, Json], ...], tuple[str, ...], tuple[str, ...]]:
        """What is changed, left out and unknown of the episodes, as `ares.export.run.ReadingNotes`."""
        if not self._specs:
            return (), self._left_out, ()
        pairs = ((own.episode_id, own.weight) for own in self.every())
        return tuple(describe_weights(pairs, self._set.stores, self._specs)), self._left_out, ()

    def of_episodes(self, ids: Sequence[str]) -> list[EpisodeWeight]:
        """The weights of some episodes of the workspace, in their order."""
        stored = self._set.stores.tables.episodes.ids(ids_filter(ids))
        weights = {id: EpisodeWeight(id) for id in ids if id in stored}
        for factor in self._factors if weights else ():
            factor.apply(weights)
        return list(weights.values())

    def every(self) -> Iterator[EpisodeWeight]:
        """Yield the weights of all episodes of the set."""
        for ids in batched(self._set.ids(), _BATCH_IDS):
            yield from self.of_episodes(ids)

    def add(
        self, episodes: Sequence[Episode], trajectories: Mapping[str, Trajectory]
    ) -> dict[str, Trajectory]:
        """The trajectories of episodes with the weights, and the progress, of their steps as further signals."""
        import numpy as np

        ids = [episode.episode_id for episode in episodes]
        weights = {own.episode_id: own for own in self.of_episodes(ids)} if self._factors else {}
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
        """Write the list of the weights into an export."""
        if self._factors:
            self.write_list(folder / WEIGHTS_FILE)

    def write_list(self, path: Path) -> None:
        """Write the list of the weights as CSV or JSON, by the name of the file. Raises RequestError for another."""
        rows = (row for own in self.every() for row in own.rows())
        if path.suffix.lower() not in _SUFFIXES:
            raise RequestError(
                "a list of weights is CSV or JSON", f"got {path}; end it in {', '.join(_SUFFIXES)}"
            )
        with path.open("w", encoding="utf-8", newline="") as file:
            if path.suffix.lower() == ".csv":
                writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
            elif path.suffix.lower() == ".jsonl":
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            else:
                json.dump(list(rows), file, ensure_ascii=False, indent=1)


def write_weights(
    stores: Stores, selection: CurationSet, specs: Sequence[str], path: Path
) -> tuple[Mapping[str, Json], ...]:
    """Write the list of the weights of a set; returns what they are and how well they agree with what is known.

    Raises:
        RequestError: A factor is wrong, none is named, or the file is neither CSV nor JSON.
    """
    if not specs:
        raise RequestError("no weights are named", "such as --weights success_probability")
    members = partial(Sets(stores.annotations).members, selection)
    weights = SampleWeights(stores, members, specs)
    described, _, _ = weights.notes()
    weights.write_list(path)
    return described


def _check_progress(own: _WeighedSet, name: str) -> Iterator[str]:
    """Refuse what is no progress of steps; yields what is said of episodes without any."""
    import numpy as np

    known: set[str] = set()
    without, changes = 0, False
    for ids in batched(own.ids(), _BATCH_IDS):
        for id, trajectory in own.stores.tables.trajectories.read(ids):
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
        _refuse_progress(own, name, known)
    if without:
        yield f"progress of {count_of(without, 'episode')}: their source has no {name}"


def _refuse_progress(own: _WeighedSet, name: str, known: set[str]) -> None:
    advice = (
        "rabc weighs steps by how progress rises in an episode and would train something else; use --weights"
    )
    if name in known:
        raise RequestError("no progress of steps", f"{name!r} does not change within any episode; {advice}")
    if name in own.stores.tables.episodes.columns():
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
            pa.Table.from_arrays([pa.array(own) for own in columns], schema=self._schema)
        )

    def close(self) -> None:
        """Finish the file; may be called twice."""
        self._writer.close()
