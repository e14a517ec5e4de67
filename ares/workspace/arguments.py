"""Turns what people pass in Python for episodes, values and vectors into checked ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from ares.episode import Episode
from ares.errors import RequestError
from ares.search import Hit

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.jobs import EpisodeSelection
    from ares.search import MinScore
    from ares.store import StoredSegment


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


def is_frame(values: object) -> bool:
    """Whether it is a mapping, or a table with columns of whichever library, and not one column."""
    if isinstance(values, Mapping) or hasattr(values, "columns"):
        return True
    return hasattr(values, "__arrow_c_stream__") and not (hasattr(values, "dtype") or hasattr(values, "type"))


def _read_frame(values: object) -> pa.Table | None:
    """The table that another library hands over by the Arrow C stream interface, as Polars and DuckDB do, or None."""
    import pyarrow as pa

    try:
        return pa.table(values) if hasattr(values, "__arrow_c_stream__") else None
    except (pa.ArrowException, TypeError, ValueError):
        return None


def read_values(values: object, column: str) -> tuple[pa.Array, pa.Array]:
    """(N,) ids and (N,) values of a mapping by id, or of a frame or Series of pandas, Polars, Arrow or DuckDB.

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
    # A frame of pandas marks its missing values differently.
    frame: Any = values if kind == "pandas.DataFrame" else _read_frame(values)
    names = [str(name) for name in getattr(frame, "column_names", getattr(frame, "columns", ()))]
    others = [name for name in names if name != "episode_id"]
    if column not in others and len(others) == 1:
        column = others[0]
    if frame is None or {"episode_id", column} - {*names}:
        raise RequestError(
            "values are a mapping by id, or a frame with the ids as its index or in the column episode_id",
            f"got a {kind}{f' with {names}' if names else ''}; give for example {{id: 0.5}}",
        )
    return _id_array(frame["episode_id"]), make_values_array(frame[column])


def _id_array(ids: Any) -> pa.Array:
    import pyarrow as pa

    array = make_values_array(ids)
    if pa.types.is_primitive(array.type) or pa.types.is_nested(array.type):
        raise RequestError(
            "ids are a list of episode ids", f"got {array[0].as_py()!r}; use set_index('episode_id')"
        )
    return array.cast(pa.string())


def make_values_array(values: Any) -> pa.Array:
    """Values as one Arrow array, a missing one as null. Raises RequestError for several types, or none of Arrow."""
    import pyarrow as pa

    if hasattr(values, "__arrow_c_stream__") and not type(values).__module__.startswith("pandas"):
        values = pa.chunked_array(values)  # a Series of Polars
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        if pa.types.is_dictionary(values.type):
            # Arrow takes no values out of views of texts, which categories of Polars are.
            return make_values_array(values.dictionary).take(values.indices)
        return values.cast(pa.string()) if pa.types.is_string_view(values.type) else values
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
    """N ids and an array (N, D) of a mapping by id, a pair, or a frame with the ids in the column episode_id.

    Raises RequestError for anything else.
    """
    import numpy as np

    pair: Any = vectors
    if isinstance(vectors, Mapping):
        pair = list(vectors), list(vectors.values())
    elif is_frame(vectors):
        pair = _read_vector_frame(vectors)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise RequestError(
            "vectors are a mapping by id, ids with an array (N, D), or a frame with the column episode_id",
            f"got a {type(vectors).__name__}",
        )
    ids, rows = pair
    if type(rows).__module__.partition(".")[0] == "polars":
        rows = rows.to_numpy() if is_frame(rows) else rows.to_list()
    try:
        return read_episode_ids(ids), np.asarray(rows, np.float64)
    except (TypeError, ValueError) as error:
        raise RequestError("vectors have the same number of numbers", str(error).splitlines()[0]) from None


def _read_vector_frame(frame: object) -> tuple[list[str], list[Any]] | None:
    """Ids and vectors of a frame whose other column has lists, or whose other columns have a number each."""
    table = _read_frame(frame)
    if table is None or "episode_id" not in table.column_names or table.num_columns < 2:
        return None
    ids, others = table["episode_id"].to_pylist(), table.drop_columns(["episode_id"])
    if others.num_columns == 1:
        return ids, others[0].to_pylist()
    return ids, list(zip(*(column.to_pylist() for column in others.columns), strict=True))


def read_id_file(path: Path) -> list[str]:
    """The ids in a text file, separated by white space. Raises RequestError for a file that cannot be read."""
    try:
        return path.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError("the list of ids cannot be read", f"{str(path)!r}: {error}") from None


if TYPE_CHECKING:
    # Ids, episodes, hits of a search, or segments; the path of a text file of ids; or a selection as it is.
    EpisodesLike: TypeAlias = Iterable[str | Episode | Hit | StoredSegment] | Path | EpisodeSelection


def make_selection(
    episodes: EpisodesLike | None, options: SelectionOptions, if_empty: str = "no episode is selected"
) -> EpisodeSelection:
    """The selection of a list and conditions; without a list (None) that of the conditions alone.

    Raises:
        RequestError: They cannot be combined, are no ids, or the list is empty; `if_empty` is the reason then.
    """
    from ares.jobs import EpisodeSelection

    if isinstance(episodes, EpisodeSelection):
        if options:
            raise RequestError("a selection has all conditions", f"leave out {', '.join(options)}")
        return episodes
    if episodes is None:
        return EpisodeSelection(**options)
    ids = read_id_file(episodes) if isinstance(episodes, Path) else read_episode_ids(episodes)
    if not len(ids):  # the conditions alone would select
        raise RequestError(if_empty, "the list of episodes is empty")
    return EpisodeSelection(ids=ids, **options)
