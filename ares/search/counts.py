"""Counts: what DuckDB is asked about the columns of the episodes, and what its answers mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ares.search.bins import Bins, bins
from ares.store import filters

if TYPE_CHECKING:
    from ares.store.episodes import EpisodeTable

TOP_VALUES = 50
NUMBERS = ("int64", "float64", "timestamp")
KINDS = ("string", "bool", "list<string>", *NUMBERS)
# More values than this are not grouped one by one: a text that is different for every episode would cost as much
# as all other columns together.
_MANY_VALUES = 2_000
# Columns are grouped together while their values make fewer combinations: a group costs less than a pass over the rows.
_COMBINATIONS = 5_000
# Groupings of one query: DuckDB tells them apart by the bits of a 64-bit number.
_PER_QUERY = 48
# Places of an episode that is in no bin, beside 0 to B - 1.
_UNREAL, _BELOW, _ABOVE = -3, -2, -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How a column is counted, from what the whole table has in it.

    Attributes:
        column: Its name.
        kind: Its type, one of `KINDS`.
        distinct: About how many different values it has; of a number, how many bins.
        bins: Of a number or a time; None without values.
    """

    column: str
    kind: str
    distinct: int = 2
    bins: Bins | None = None

    @property
    def many(self) -> bool:
        """Whether it has too many different values to group them all."""
        return self.distinct > _MANY_VALUES

    @property
    def real(self) -> str:
        """The column in SQL; a time as seconds since 1970."""
        name = f'"{self.column}"'
        return f"epoch_us({name}) / 1e6" if self.kind == "timestamp" else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted of one column; see `ares.search.facets.Facet`."""

    values: tuple[tuple[str | bool, int], ...] = ()
    distinct: int = 0
    histogram: tuple[int, ...] = ()
    below: int = 0
    above: int = 0
    unreal: int = 0
    missing: int = 0


def measure(episodes: EpisodeTable, kinds: Mapping[str, str]) -> dict[str, Scale]:
    """How to count each of these columns: one pass over the whole table. Raises StoreError."""
    asked = [part for name, kind in kinds.items() for part in _measures(Scale(column=name, kind=kind))]
    if not asked:
        return {}
    (row,) = _ask(episodes, list(kinds), "", f"SELECT {', '.join(asked)} FROM episodes")
    parts = iter(row)
    return {name: _scale(name, kind, parts) for name, kind in kinds.items()}


def count(episodes: EpisodeTable, where: str, scales: Mapping[str, Scale]) -> dict[str, Counted]:
    """Count the columns among the episodes that a filter leaves; each column is read once, those of many values twice.

    Raises:
        RequestError: The filter cannot be read.
    """
    found: dict[str, Counted] = {}
    sets = _together([scale for scale in scales.values() if not scale.many])
    for start in range(0, len(sets), _PER_QUERY):
        found |= _count_few(episodes, where, sets[start : start + _PER_QUERY])
    for scale in scales.values():
        if scale.many:
            found[scale.column] = _count_many(episodes, where, scale)
    return found


def _together(scales: Sequence[Scale]) -> list[list[Scale]]:
    """Columns that are grouped at once, so that fewer hash tables see every row."""
    sets: list[tuple[int, list[Scale]]] = []
    for scale in sorted(scales, key=lambda each: -each.distinct):
        # Missing values and those beyond the bins make groups too; a list is slow to compare, so it stays alone.
        size = _COMBINATIONS if scale.kind.startswith("list") else scale.distinct + (scale.distinct > 1)
        fits = (place for place, (taken, _) in enumerate(sets) if taken * size <= _COMBINATIONS)
        place = next(fits, None)
        if place is None:
            sets.append((size, [scale]))
        else:
            sets[place] = (sets[place][0] * size, [*sets[place][1], scale])
    return [members for _, members in sets]


def _measures(scale: Scale) -> list[str]:
    if scale.kind == "bool":
        return []
    if scale.kind not in NUMBERS:
        return [f"approx_count_distinct({scale.real})"]
    real = f"CAST({scale.real} AS DOUBLE)"
    finite = f"CASE WHEN isfinite({real}) THEN {real} END"

    return [f"min({finite})", f"max({finite})", f"approx_quantile({finite}, [0.005, 0.995])"]


def _scale(name: str, kind: str, parts: Iterator[Any]) -> Scale:
    if kind == "bool":
        return Scale(column=name, kind=kind)
    if kind not in NUMBERS:
        return Scale(column=name, kind=kind, distinct=next(parts))
    least, most, middle = next(parts), next(parts), next(parts)
    if least is None:
        return Scale(column=name, kind=kind)
    low, high = middle if middle and None not in middle else (least, most)
    made = bins(least, most, low, high, whole=kind == "int64")
    return Scale(column=name, kind=kind, distinct=made.count, bins=made)


def _count_few(episodes: EpisodeTable, where: str, sets: Sequence[Sequence[Scale]]) -> dict[str, Counted]:
    flat = [scale for members in sets for scale in members]
    place = {scale.column: f"g{number}" for number, scale in enumerate(flat)}
    keys = ", ".join(f"{group_key(scale)} AS {place[scale.column]}" for scale in flat)
    grouped = [f"({', '.join(place[scale.column] for scale in members)})" for members in sets]
    firsts = ", ".join(place[members[0].column] for members in sets)
    sql = (
        f"SELECT grouping({firsts}), count(*), {', '.join(place.values())} "
        f"FROM (SELECT {keys} FROM episodes) GROUP BY GROUPING SETS ({', '.join(grouped)})"
    )
    # The bit of the set that a row is of is 0, and the first set's bit is the highest.
    bits = {(1 << len(sets)) - 1 - (1 << len(sets) - 1 - number): number for number in range(len(sets))}
    groups: dict[str, Counter[Any]] = {scale.column: Counter() for scale in flat}
    offsets = [sum(map(len, sets[:number])) for number in range(len(sets))]
    for which, number, *row in _ask(episodes, [scale.column for scale in flat], where, sql):
        members, offset = sets[bits[which]], offsets[bits[which]]
        for scale, value in zip(members, row[offset:], strict=False):
            groups[scale.column][tuple(value) if isinstance(value, list) else value] += number
    return {scale.column: _counted(scale, groups[scale.column]) for scale in flat}


def group_key(scale: Scale) -> str:
    """What is grouped by: the value itself, or the place of its bin."""
    if scale.kind not in NUMBERS:
        return scale.real
    if scale.bins is None:
        return f"CASE WHEN {scale.real} IS NOT NULL THEN {_UNREAL} END::TINYINT"
    real, edges = f"CAST({scale.real} AS DOUBLE)", scale.bins.edges
    # A cast rounds, so half a bin less makes it a floor; and an edge such as 0.3 is not exactly three steps of 0.1,
    # yet what lies at it belongs above it. All numbers are doubles: DuckDB would take plain ones for decimals.
    slope, offset = 1.0 / scale.bins.step, -edges[0] / scale.bins.step - 0.5 + 1e-9
    place = f"{real} * {_double(slope)} + {_double(offset)}"
    last = _double(scale.bins.count - 1.0)
    return (
        f"CASE WHEN {real} BETWEEN {_double(edges[0])} AND {_double(edges[-1])} "
        f"THEN least(greatest({place}, {_double(0.0)}), {last})::TINYINT "
        f"WHEN NOT isfinite({real}) THEN {_UNREAL} WHEN {real} < {_double(edges[0])} THEN {_BELOW} "
        f"WHEN {real} IS NOT NULL THEN {_ABOVE} END::TINYINT"
    )


def _double(value: float) -> str:
    return f"({value!r}::DOUBLE)"


def _counted(scale: Scale, groups: Mapping[Any, int]) -> Counted:
    missing = groups.get(None, 0)
    if scale.kind in NUMBERS:
        return Counted(
            histogram=tuple(groups.get(place, 0) for place in range(scale.bins.count if scale.bins else 0)),
            below=groups.get(_BELOW, 0),
            above=groups.get(_ABOVE, 0),
            unreal=groups.get(_UNREAL, 0),
            missing=missing,
        )
    items: Counter[Any] = Counter()
    for value, number in groups.items():
        for item in set(value) if isinstance(value, tuple) else (value,):
            items[item] += number
    return Counted(values=_top(items.items()), distinct=len(items.keys() - {None}), missing=missing)


def _top(pairs: Iterable[tuple[Any, int]]) -> tuple[tuple[str | bool, int], ...]:
    known = ((value, number) for value, number in pairs if value is not None)
    return tuple(sorted(known, key=lambda pair: (-pair[1], str(pair[0])))[:TOP_VALUES])


def _count_many(episodes: EpisodeTable, where: str, scale: Scale) -> Counted:
    listed = scale.kind.startswith("list")
    item = f"unnest(list_distinct({scale.real}))" if listed else scale.real
    items = f"(SELECT {item} AS item FROM episodes)"
    likely = f"SELECT approx_top_k(item, {TOP_VALUES}), approx_count_distinct(item) FROM {items}"
    ((top, distinct),) = _ask(episodes, [scale.column], where, likely)
    among = [value for value in top or () if value is not None]
    texts = ", ".join(map(filters.literal, among)) or "NULL"
    exact = f"SELECT item, count(*) FROM {items} WHERE item IN ({texts}) GROUP BY item"
    missing = episodes.count(f"({where.strip() or 'true'}) AND {scale.column} IS NULL")
    return Counted(
        values=_top(_ask(episodes, [scale.column], where, exact)), distinct=distinct, missing=missing
    )


def _ask(episodes: EpisodeTable, columns: Sequence[str], where: str, sql: str) -> list[tuple[Any, ...]]:
    import duckdb

    with duckdb.connect() as connection, filters.failures("episodes", where, episodes.columns()):
        connection.register("episodes", episodes.reader(columns, where))
        try:
            return connection.execute(sql).fetchall()
        except duckdb.Error as error:
            # What Lance met while DuckDB was reading.
            raise RuntimeError(str(error)) from error
