"""Turns what people pass in Python for episodes and exports into checked values."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, cast, get_args

from ares.annotation import ColumnType, short_hash
from ares.episode import Episode
from ares.errors import RequestError
from ares.search import Hit
from ares.store import is_column_name

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.export import RetimeMode, TaskSource, TrimRequest
    from ares.jobs import EpisodeSelection, FunctionAnnotator
    from ares.search import MinScore
    from ares.store import StoredSegment, Stores
    from ares.workspace.episodes import Episodes


class SelectionOptions(TypedDict, total=False):
    """The conditions of a selection of episodes, see `EpisodeSelection`."""

    where: str
    set: str
    dataset: str
    search: str
    like: str
    image: str
    by: str
    limit: int | None
    min_score: MinScore | None


class ExportOptions(TypedDict, total=False):
    """What may be chosen for an export, see `ExportRequest`."""

    task: TaskSource
    fps: float | None
    retime: RetimeMode
    convert: Sequence[str]
    strict: bool
    segments: Sequence[str]
    plan: str | os.PathLike[str] | None
    trim: TrimRequest | None
    weights: Sequence[str]
    progress: str


def read_episode_ids(items: Iterable[object]) -> list[str]:
    """The ids of some episodes.

    Raises:
        RequestError: It is a table, a single text, or a list of something else.
    """
    kind = type(items).__name__
    if isinstance(items, str) or getattr(items, "ndim", 1) != 1 or not isinstance(items, Iterable):
        raise RequestError(
            "ids are a list of episode ids", f"got a {kind}; give for example df['episode_id']"
        )
    if type(items).__name__ in ("Episodes", "StoredSet"):
        return list(items.ids())  # type: ignore[attr-defined]
    return [_episode_id(item, kind) for item in items]


def _episode_id(item: object, kind: str) -> str:
    from ares.store import StoredSegment

    if isinstance(item, Episode | Hit | StoredSegment):
        return item.episode_id
    if isinstance(item, str):
        return item
    raise RequestError(
        "ids are a list of episode ids", f"got a {kind} with {type(item).__name__} {item!r} in it"
    )


def read_values(values: object, column: str) -> tuple[pa.Array, pa.Array]:
    """(N,) ids and (N,) values of a mapping by id, or of a frame or Series of pandas, Polars or Arrow.

    Args:
        values: A frame has the ids as its index or in the column `episode_id`.
        column: Its column with the values, where it has several.

    Raises:
        RequestError: It is something else, an id is no text, or the values are of several types.
    """
    import pyarrow as pa

    kind = f"{type(values).__module__.partition('.')[0]}.{type(values).__name__}"
    if isinstance(values, Mapping):
        ids = [key if isinstance(key, str) else _episode_id(key, kind) for key in values]
        return pa.array(ids, pa.string()), make_values_array(list(values.values()))
    if kind == "pandas.Series":
        return _id_array(values.index), make_values_array(values)  # type: ignore[attr-defined]
    if kind == "pandas.DataFrame" and "episode_id" not in values:  # type: ignore[operator]
        values = values.rename_axis("episode_id").reset_index()  # type: ignore[attr-defined]
    if kind == "polars.DataFrame":
        values = values.to_arrow()  # type: ignore[attr-defined]
    names = [str(name) for name in getattr(values, "column_names", getattr(values, "columns", ()))]
    others = [name for name in names if name != "episode_id"]
    if column not in others and len(others) == 1:
        column = others[0]
    if kind not in ("pandas.DataFrame", "polars.DataFrame", "pyarrow.Table") or {"episode_id", column} - {
        *names
    }:
        raise RequestError(
            "values are a mapping by id, or a frame with the ids as its index or in the column episode_id",
            f"got a {kind}{f' with {names}' if names else ''}; give for example {{id: 0.5}}",
        )
    return _id_array(values["episode_id"]), make_values_array(values[column])  # type: ignore[index]


def _id_array(ids: Any) -> pa.Array:
    import pyarrow as pa

    array = make_values_array(ids)
    try:
        return array.cast(pa.string()) if not pa.types.is_integer(array.type) else pa.array([0], pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        example = array[0].as_py()
        raise RequestError(
            "ids are a list of episode ids", f"got {example!r}; use set_index('episode_id')"
        ) from None


def make_values_array(values: Any) -> pa.Array:
    """Values as one Arrow array, a missing one as null. Raises RequestError for several types, or none of Arrow."""
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray | pa.Array):
        return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(values, list) and bool in (kinds := set(map(type, values))) and kinds - {bool, type(None)}:
        raise RequestError("the values of a column are of one type", "got true or false beside others")
    try:
        array = pa.array(values, from_pandas=True)
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        UnicodeError,
        OverflowError,
    ) as error:
        line = str(error).splitlines()[0]
        raise RequestError("the values of a column are of one type, flags, numbers or texts", line) from None
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def read_vectors(vectors: object) -> tuple[list[str], NDArray[np.float64]]:
    """N ids and an array (N, D) of a mapping by id, or of a pair. Raises RequestError for anything else."""
    import numpy as np

    if isinstance(vectors, Mapping):
        vectors = list(vectors), list(vectors.values())
    if not isinstance(vectors, tuple | list) or len(vectors) != 2:
        raise RequestError(
            "vectors are a mapping by id, or ids with an array (N, D)", f"got a {type(vectors).__name__}"
        )
    try:
        return read_episode_ids(vectors[0]), np.asarray(vectors[1], np.float64)
    except (TypeError, ValueError) as error:
        raise RequestError("vectors have the same number of numbers", str(error).splitlines()[0]) from None


_TYPES: Mapping[object, ColumnType] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "list<string>",
}
# Episodes on which a function is tried, to learn what it returns.
_TRIED_EPISODES = 10


def read_annotators(
    stores: Stores,
    episodes: Episodes,
    names: Sequence[Any],
    where: str,
    columns: Mapping[str, object] | None,
    batch_size: int,
) -> tuple[tuple[str, ...], str, dict[str, FunctionAnnotator]]:
    """Names of annotators, the filter of the episodes, and those of them that are functions.

    Args:
        stores: Stores of the workspace.
        episodes: All episodes.
        names: Names and functions; a view or a set in the last place is the episodes.
        where: Further filter.
        columns: Type of every column of the functions: bool, int, float, str, list or a name of
            `ares.annotation.ColumnType`; None to take them from what they return of the first episodes.
        batch_size: Episodes that a function gets as a list, or 0 for one.

    Raises:
        RequestError: A function has no name, a type cannot be that of a column, or nothing was returned to learn from.
    """
    last = getattr(names[-1], "members", names[-1]) if names else None
    if isinstance(last, type(episodes)):
        names, where = names[:-1], (last.where(where) if where else last).condition()
    functions: dict[str, FunctionAnnotator] = {}
    for function in filter(callable, names):
        view = episodes.where(where) if where else episodes
        functions[function.__name__] = _read_function(stores, function, columns, batch_size, view)
    return tuple(name.__name__ if callable(name) else name for name in names), where, functions


def _read_function(
    stores: Stores,
    function: Callable[[Any], Any],
    columns: Mapping[str, object] | None,
    batch_size: int,
    episodes: Episodes,
) -> FunctionAnnotator:
    """A function as an annotator of some episodes."""
    from ares.jobs import FunctionAnnotator
    from ares.registry import annotators

    name = function.__name__
    if not is_column_name(name) or name in annotators.names():
        raise RequestError(
            "a function that annotates has a name of its own", f"got {name!r}; write def my_score(episode)"
        )
    source = short_hash(_source_text(function))
    if columns is None:
        # A run that goes on has learnt them before.
        earlier = [
            maker.columns
            for maker in stores.annotations.makers().values()
            if maker.annotator == name and maker.settings.get("source") == source
        ]
        columns = (
            {column.name: column.type for column in earlier[-1]}
            if earlier
            else _learn_columns(function, name, batch_size, episodes)
        )
    types = {key: _TYPES.get(kind, kind) for key, kind in columns.items()}
    for key, kind in types.items():
        if not is_column_name(key) or kind not in (known := get_args(ColumnType)):
            raise RequestError(
                "that cannot be a column of a function",
                f"{key!r}: {kind!r}; the types are {', '.join(known)}",
            )
    return FunctionAnnotator(
        function=function,
        columns=cast("Mapping[str, ColumnType]", types),
        batch_size=operator.index(batch_size),
        source=source,
    )


def _learn_columns(
    function: Callable[[Any], Any], name: str, batch_size: int, episodes: Episodes
) -> dict[str, object]:
    """The type by column of what a function returns of the first episodes."""
    from ares.jobs import read_function_value

    types, faults = dict[str, object](), list[str]()
    for episode in episodes.take(_TRIED_EPISODES):
        try:
            value = function([episode])[0] if batch_size else function(episode)
        except Exception as error:
            faults.append(f"{type(error).__name__}: {error}")
            continue
        for key, item in read_function_value(value, name).items():
            if item is not None and types.get(key) is not float:
                types[key] = type(item)
    if not types:
        detail = f"{faults[0][:200]}; " if faults else ""
        raise RequestError(
            f"{name} returned nothing of the first episodes", f"{detail}give columns={{{name!r}: float}}"
        )
    return types


def _source_text(function: Callable[[Any], Any]) -> str:
    """The source of a function; where there is none, its code."""
    import inspect
    import textwrap

    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return repr((code.co_code, code.co_names)) if code else repr(type(function))


class IdFile(Collection[str]):
    """The ids in a text file, separated by white space; read again for each iteration.

    Args:
        path: The file.

    Raises:
        RequestError: The file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = sum(1 for _ in self)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, episode_id: object) -> bool:
        return any(listed_id == episode_id for listed_id in self)

    def __iter__(self) -> Iterator[str]:
        try:
            with self._path.open() as lines:
                yield from (episode_id for line in lines for episode_id in line.split())
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError("the list of ids cannot be read", f"{str(self._path)!r}: {error}") from None


if TYPE_CHECKING:
    # Ids, episodes, hits of a search, or segments; the path of a text file of ids; or a selection as it is.
    EpisodesLike: TypeAlias = Iterable[str | Episode | Hit | StoredSegment] | Path | EpisodeSelection


def make_selection(
    episodes: EpisodesLike, options: SelectionOptions, if_empty: str = "no episode is selected"
) -> EpisodeSelection:
    """The selection of a list and conditions.

    Raises:
        RequestError: They cannot be combined, are no ids, or the list is empty; `if_empty` is the reason then.
    """
    from ares.jobs import EpisodeSelection

    if isinstance(episodes, EpisodeSelection):
        if options:
            raise RequestError("a selection has all conditions", f"leave out {', '.join(options)}")
        return episodes
    ids: Collection[str] = IdFile(episodes) if isinstance(episodes, Path) else read_episode_ids(episodes)
    # Without any id the conditions alone would select.
    if not isinstance(episodes, tuple) and not len(ids):
        raise RequestError(if_empty, "the list of episodes is empty")
    return EpisodeSelection(ids=ids, **options)
