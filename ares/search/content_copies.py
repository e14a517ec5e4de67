"""One episode of each content: which copies an answer leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.store import TrustedFilter, conjunction, ids_filter

if TYPE_CHECKING:
    from ares.store import Stores


_IS_COPY, _IS_FIRST = "duplicate_of IS NOT NULL", "duplicate_of IS NULL"
# The beginning of the columns that say what is a copy: a filter that has it asks for copies.
_COPY_COLUMNS = "duplicate_"


def leave_out_copies(stores: Stores, where: str) -> str:
    """The filter with one episode of each content: the one that was stored first, else the first by id.

    Args:
        stores: Stores of the workspace.
        where: SQL filter. One that names a column of copies stays as it is, and so does one that selects no copies.

    Raises:
        RequestError: The filter is invalid.
    """
    episodes = stores.tables.episodes
    if _COPY_COLUMNS in where or not episodes.count_duplicates():
        return where
    if not where.strip():
        return TrustedFilter(_IS_FIRST)
    copies = conjunction([where, TrustedFilter(_IS_COPY)])
    rows = episodes.read_columns(["episode_id", "duplicate_of"], copies).sort_by("episode_id").to_pylist()
    originals = {row["duplicate_of"] for row in rows}
    first = {id: id for id in episodes.ids(conjunction([where, ids_filter(originals)]))}
    hidden = [
        row["episode_id"]
        for row in rows
        if first.setdefault(row["duplicate_of"], row["episode_id"]) != row["episode_id"]
    ]
    if len(hidden) == len(rows):
        return conjunction([where, TrustedFilter(_IS_FIRST)]) if rows else where
    return conjunction([where, TrustedFilter(f"NOT ({ids_filter(hidden)})")]) if hidden else where
