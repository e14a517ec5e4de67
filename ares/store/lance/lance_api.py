"""Low-level calls of Lance, which may change with its versions, and its errors as errors of ARES."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.errors import StoreError, storage_error
from ares.store.filters import make_engine_filter_error
from ares.store.sql import TrustedFilter, column_membership, replace_membership

if TYPE_CHECKING:
    import lance
    import numpy as np
    import pyarrow as pa
    from lance.lance import _Session as Session
    from numpy.typing import NDArray


# Major versions of the distributions that this module has been tried with.
TESTED_VERSIONS = {"pylance": (14,)}
# Words of an error that comes from evaluating a filter ("divide by zero", a cast), not from the store.
_FILTER_ERRORS = (
    "Arrow error",
    "LanceError(Arrow)",
    "Invalid user input",
    "Not supported",
    "Error applying filter expression",
)
_PLANNING_ERRORS = (ValueError, RuntimeError, OSError)


class IndexSegment(NamedTuple):
    """A part of an index.

    Attributes:
        index_name: Name of the index.
        segment_id: Id of the segment.
        fragment_ids: Fragments of the table that it covers.
    """

    index_name: str
    segment_id: str
    fragment_ids: frozenset[int]


class IndexSearch(NamedTuple):
    """How to search an approximate vector index.

    Attributes:
        segments: Ids of its segments.
        nprobes: Partitions to search.
        refine_factor: Candidates per row of the result whose exact distance is computed.
    """

    segments: Sequence[str]
    nprobes: int
    refine_factor: int


@contextmanager
def lance_errors(table: str, where: str = "") -> Iterator[None]:
    """Turn what Lance raises while it reads or writes into errors of ARES.

    Args:
        table: Name of the table, for the message.
        where: Filter of the user that is evaluated inside, or "".
    """
    try:
        yield
    except _PLANNING_ERRORS as error:
        if where and any(words in str(error) for words in _FILTER_ERRORS):
            raise make_engine_filter_error(where, error) from error
        if os.strerror(errno.ENOSPC) in str(error):
            raise storage_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"table {table}")) from error
        raise StoreError(f"the table {table} cannot be used", str(error).splitlines()[0][:500]) from error


def plan_filter(
    dataset: lance.LanceDataset,
    where: str,
    columns: Mapping[str, str],
    membership: Callable[[str, str], str | None] | None = None,
) -> str | None:
    """Check and plan a filter without evaluating it.

    Args:
        dataset: The table.
        where: SQL condition; "" is none. Of a trusted filter only the user's part is checked and planned.
        columns: Type of every column that may stand in it.
        membership: The SQL of a call of `in_set`, `tagged` or `reviewed`, see `replace_membership`; by default that
            over the columns.

    Returns:
        The filter as Lance has to read it, or None for none.

    Raises:
        FilterError: The filter is not allowed, or cannot be planned.
    """
    from ares.store.filters import check_filter

    user_filter = where.user_filter if isinstance(where, TrustedFilter) else where
    if user_filter.strip():
        user_filter = check_filter(user_filter, columns)
        expand = membership or partial(column_membership, columns=columns)
        user_filter = replace_membership(user_filter, expand)
        try:
            # In parentheses, so that nothing can follow the condition.
            dataset.scanner(columns=[], filter=f"({user_filter}\n)", with_row_id=True).explain_plan()
        except _PLANNING_ERRORS as error:
            raise make_engine_filter_error(user_filter, error) from error
    if isinstance(where, TrustedFilter):
        return str(TrustedFilter(where.trusted, user_filter))
    return user_filter if user_filter.strip() else None


def open_session(index_cache_bytes: int, metadata_cache_bytes: int) -> Session:
    """A cache of what was read of indexes and file headers, shared by the datasets that are opened with it."""
    from lance.lance import _Session as Session

    return Session(index_cache_size_bytes=index_cache_bytes, metadata_cache_size_bytes=metadata_cache_bytes)


def row_allowlist(row_ids: NDArray[np.uint64]) -> bytes:
    """Row ids, (N,) uint64, as a scanner takes them: only these rows are searched."""
    from lance.dataset import serialize_row_addrs

    return bytes(serialize_row_addrs(row_ids))


def allowlist_options(allowlist: bytes | None) -> dict[str, Any]:
    """Options of a scanner that searches only the rows of `row_allowlist`; None is all rows."""
    return {} if allowlist is None else {"row_addr_allowlist": allowlist, "prefilter": True}


def make_fulltext_query(text: str, column: str) -> Any:
    """A full-text query for any of the words of a text; nothing in it is an operator."""
    from lance.query import MatchQuery

    # Half of a surrogate pair is not part of a word, and cannot be sent.
    return MatchQuery(text.encode("utf-8", "replace").decode(), column)


def vector_index_segments(dataset: lance.LanceDataset, column: str) -> list[IndexSegment]:
    """Segments of all indexes of a vector column."""
    return [
        IndexSegment(index.name, str(segment.uuid), frozenset(segment.fragment_ids))
        for index in dataset.describe_indices()
        if list(index.field_names) == [column]
        for segment in index.segments
    ]


def scan_nearest(
    dataset: lance.LanceDataset,
    columns: Sequence[str],
    query: NDArray[np.float32],
    count: int,
    allowlist: bytes | None = None,
    fragments: Sequence[Any] | None = None,
    index: IndexSearch | None = None,
) -> pa.Table:
    """The `count` rows whose "vector" is nearest to a query by cosine distance, in no particular order.

    Args:
        dataset: The table.
        columns: Columns to return, beside "_distance".
        query: (D,) float32.
        count: Number of rows.
        allowlist: Only these rows; see `row_allowlist`.
        fragments: Only these fragments; None for all.
        index: How to search the index, or None to compare every row.
    """
    nearest: dict[str, Any] = {"column": "vector", "q": query, "k": count, "metric": "cosine"}
    options: dict[str, Any] = {"prefilter": True, **allowlist_options(allowlist)}
    if index is None:
        nearest["use_index"] = False
    else:
        nearest |= {"minimum_nprobes": index.nprobes, "maximum_nprobes": index.nprobes}
        nearest["refine_factor"] = index.refine_factor
        options["index_segments"] = list(index.segments)
    if fragments is not None:
        options["fragments"] = fragments
    return dataset.scanner(columns=[*columns, "_distance"], nearest=nearest, **options).to_table()


def index_types(dataset: lance.LanceDataset) -> set[str]:
    """Types of the indexes of a table, such as "Inverted" and "BTree"."""
    return {index.index_type for index in dataset.describe_indices()}


def has_fulltext_index(dataset: lance.LanceDataset) -> bool:
    """Whether a column has a full-text index."""
    return "Inverted" in index_types(dataset)


def max_unindexed_rows(dataset: lance.LanceDataset) -> int:
    """Rows that are not in an index yet, of the index that has most of them."""
    names = [index.name for index in dataset.describe_indices()]
    return max((int(dataset.stats.index_stats(name)["num_unindexed_rows"]) for name in names), default=0)


def data_bytes(dataset: lance.LanceDataset) -> int:
    """Bytes of the data files of a table."""
    files = (file for fragment in dataset.get_fragments() for file in fragment.metadata.files)
    return sum(file.file_size_bytes or 0 for file in files)
