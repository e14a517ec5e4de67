"""Counts: the columns of one version of the episodes kept as codes, so that a filter only says which rows count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from ares.search.bins import bins
from ares.search.codes import Bars, Counted, Items, Lists, TooManyValues, Words, numbers
from ares.search.many import count_many
from ares.store import filters

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store.episodes import EpisodeTable

NUMBERS = ("int64", "float64", "timestamp")
KINDS = ("string", "bool", "list<string>", *NUMBERS)
_THREADS = 4
_ROWS = 65_536
# Their numbers fit into the nearest cache of a core.
_COMBINATIONS = 2**12
# Values of a column, evenly spread over its rows, that tell where most of them lie.
_SAMPLE = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Coded:
    """One column as codes.

    Attributes:
        codes: (P,) uint8 or uint16, by place; see `ares.store.layout`.
        meaning: What they stand for.
    """

    codes: NDArray[np.uint8] | NDArray[np.uint16]
    meaning: Words | Lists | Bars


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Columns whose codes were made one, so that one pass counts them all.

    Attributes:
        meanings: Of the codes of each column, by its name; G columns.
        codes: (P,) uint16, by place: C-order places in an array of the shape of `totals`.
        totals: (size, ...) int64 of G dimensions: episodes of each combination in the whole table.
    """

    meanings: Mapping[str, Words | Lists | Bars]
    codes: NDArray[np.uint16]
    totals: NDArray[np.int64]

    def counted(self, sums: NDArray[np.int64]) -> dict[str, Counted]:
        """What it means that each combination was counted so often. Args: int64 of the shape of `totals`."""
        axes = range(sums.ndim)
        return {
            name: meaning.counted(sums.sum(axis=tuple(other for other in axes if other != axis)))
            for axis, (name, meaning) in enumerate(self.meanings.items())
        }


class Columns:
    """The columns of one version of the table, encoded when they are first asked for.

    Args:
        episodes: That version; see `EpisodeTable.pinned`.
    """

    def __init__(self, episodes: EpisodeTable) -> None:
        self.episodes = episodes
        self.version = episodes.version()
        self._lock = Lock()
        # None for a column of too many values.
        self._kept: dict[str, Group | Items | None] = {}
        self._layout, self._rows = episodes.layout(), episodes.count()

    def edges(self, column: str) -> tuple[float, ...]:
        """The edges of the bins of a column that was counted; () when it has none."""
        kept = self._kept[column]
        meaning = kept.meanings[column] if isinstance(kept, Group) else None
        return meaning.edges if isinstance(meaning, Bars) else ()

    def count(self, where: str, kinds: Mapping[str, str]) -> dict[str, Counted]:
        """Count columns among the episodes that a filter leaves.

        Args:
            where: SQL condition; "" is all.
            kinds: Columns with their types, of `KINDS`.

        Raises:
            RequestError: The filter cannot be read.
        """
        kept = self._encoded(kinds)
        groups = list({id(one): one for one in kept.values() if isinstance(one, Group)}.values())
        items = {name: one for name, one in kept.items() if isinstance(one, Items)}
        rows = self.episodes.marks(where) if where.strip() and (groups or items) else None
        found = {name: one.counted(rows) for name, one in items.items()}
        for group, sums in zip(groups, _sums(groups, rows), strict=True):
            found |= group.counted(sums)
        many = {name: kinds[name] for name, one in kept.items() if one is None}
        return found | {name: count_many(self.episodes, where, name, kind) for name, kind in many.items()}

    def _encoded(self, kinds: Mapping[str, str]) -> dict[str, Group | Items | None]:
        # Threads that meet here wait for one encoding instead of each doing its own.
        with self._lock, ThreadPoolExecutor(_THREADS) as threads:
            new = [name for name in kinds if name not in self._kept]
            made = dict(zip(new, threads.map(lambda name: self._encode(name, kinds[name]), new), strict=True))
            self._kept |= {name: one for name, one in made.items() if not isinstance(one, Coded)}
            for members in _together({name: one for name, one in made.items() if isinstance(one, Coded)}):
                self._kept |= dict.fromkeys(members, self._group(members))
            return {name: self._kept[name] for name in kinds}

    def _group(self, members: Mapping[str, Coded]) -> Group:
        import numpy as np

        sizes = [one.meaning.size for one in members.values()]
        codes = np.zeros(self._layout.size, np.uint16)
        for one in members.values():
            if len(members) > 1:
                codes *= one.meaning.size
            codes += one.codes
        totals = np.bincount(codes, minlength=math.prod(sizes))
        totals[0] -= self._layout.size - self._rows  # deleted rows kept the 0 of the beginning
        meanings = {name: one.meaning for name, one in members.items()}
        return Group(meanings=meanings, codes=codes, totals=totals.reshape(sizes))

    def _encode(self, column: str, kind: str) -> Coded | Items | None:
        """A column as codes, or its items where there are too many different lists; None with too many values."""
        with suppress(TooManyValues):
            return self._encode_values(column, kind)
        if kind.startswith("list"):
            with suppress(TooManyValues):
                return self._encode_items(column)
        return None

    def _encode_values(self, column: str, kind: str) -> Coded:
        import numpy as np

        meaning = self._meaning(column, kind)
        codes: NDArray[np.uint8] | NDArray[np.uint16] = np.zeros(self._layout.size, np.uint8)
        for batch in self._read(column):
            found = meaning.encode(batch[column])
            if meaning.size > 256 and codes.dtype == np.uint8:
                codes = codes.astype(np.uint16)
            codes[self._layout.places(batch)] = found
        return Coded(codes=codes, meaning=meaning)

    def _encode_items(self, column: str) -> Items:
        items = Items(self._layout.size)
        for batch in self._read(column):
            items.add(batch[column], self._layout.places(batch))
        return items

    def _meaning(self, column: str, kind: str) -> Words | Lists | Bars:
        if kind in NUMBERS:
            return Bars(self._measured(column, whole=kind == "int64"))
        return Lists() if kind.startswith("list") else Words(self.episodes.schema([column]).field(0).type)

    def _measured(self, column: str, whole: bool) -> tuple[float, ...]:
        """The edges of the bins of a column of numbers; () without finite ones."""
        import numpy as np

        least, most, sample = np.inf, -np.inf, [np.zeros(0)]
        for batch in self._read(column):
            real = numbers(batch[column])
            real = real[np.isfinite(real)]
            least, most = min(least, real.min(initial=np.inf)), max(most, real.max(initial=-np.inf))
            sample.append(real[:: 1 + self._rows // _SAMPLE])
        if least > most:
            return ()
        low, high = np.quantile(np.concatenate(sample), [0.005, 0.995])
        return bins(float(least), float(most), float(low), float(high), whole)

    def _read(self, column: str) -> Iterator[pa.RecordBatch]:
        with filters.failures("episodes"):
            yield from self.episodes.reader([column], with_addresses=True)


def _sums(groups: Sequence[Group], rows: NDArray[np.bool_] | None) -> list[NDArray[np.int64]]:
    """How often each combination of each group is among some rows, all for None."""
    import numpy as np

    if rows is None:
        return [one.totals for one in groups]
    sums = [np.zeros_like(one.totals) for one in groups]
    for start in range(0, len(rows), _ROWS):
        at = np.flatnonzero(rows[start : start + _ROWS])
        for one, sum_ in zip(groups, sums, strict=True):
            codes = one.codes[start : start + _ROWS][at]
            sum_ += np.bincount(codes, minlength=sum_.size).reshape(sum_.shape)
    return sums


def _together(coded: Mapping[str, Coded]) -> list[dict[str, Coded]]:
    """Columns that have few combinations of codes: a pass costs the same for one column and for all of these."""
    groups: list[dict[str, Coded]] = []
    sizes: list[int] = []
    for name, one in sorted(coded.items(), key=lambda pair: -pair[1].meaning.size):
        size = max(2, one.meaning.size)  # NumPy has 64 dimensions, however small
        fits = next((place for place, there in enumerate(sizes) if there * size <= _COMBINATIONS), None)
        if fits is None:
            groups.append({name: one})
            sizes.append(size)
        else:
            groups[fits][name] = one
            sizes[fits] *= size
    return groups
