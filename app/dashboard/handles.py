"""Handles: the workspace that the pages show, and everything that they cache of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from ares.errors import RequestError
from ares.search.facets import Facet
from ares.search.query import Hit
from ares.workspace import Workspace

if TYPE_CHECKING:
    from ares.curate.sets import CurationSet

# What a job changes in the meantime is seen after this long at the latest.
_FRESH_SECONDS = 20
# Columns with a value of its own for nearly every episode: there is nothing to choose from.
_NOT_DRAWN = frozenset(
    ("episode_id", "key", "source", "content_hash", "duplicate_of", "instruction", "instructions", "caption")
)
_opened: list[Workspace] = []


def use(ws: Workspace) -> None:
    """Show this workspace in every page of the process."""
    if _opened:
        refresh()
    _opened[:] = [ws]


def workspace() -> Workspace:
    """The workspace. Raises RequestError when none is open."""
    if not _opened:
        raise RequestError("no workspace is open", "start the dashboard with `ares app`")
    return _opened[0]


def refresh() -> None:
    """Forget what was cached, so that the next page shows what is there now."""
    for reader in (columns, count, _facets, ranked, ids_between, points, rows):
        reader.clear()


def warm() -> None:
    """Load what the first page and the first search need; what is wrong is told by the page that meets it."""
    from ares.curate.choose import ORDER
    from ares.errors import AresError
    from ares.search.spaces import choose_space, encoder
    from ares.store.paging import DEEP

    try:
        if workspace().tables.episodes.count():
            facets("")
            # So far down that the table keeps its order, and a page is found in it at once.
            ids_between("", ORDER, DEEP, 1)
            encoder(choose_space(workspace()))
    except AresError:
        return


@st.cache_data(ttl=_FRESH_SECONDS, max_entries=1, show_spinner=False)
def columns() -> dict[str, str]:
    """Columns that can be filtered, with their types."""
    return workspace().tables.episodes.columns()


@st.cache_data(ttl=_FRESH_SECONDS, max_entries=256, show_spinner=False)
def count(where: str) -> int:
    """Number of episodes that a filter leaves."""
    return workspace().tables.episodes.count(where)


def facets(where: str, only: str = "") -> list[Facet]:
    """Counts and histograms of the episodes that a filter leaves, of one column or of all that are drawn."""
    return _facets(where, only, workspace().tables.episodes.version())


@st.cache_data(max_entries=64, show_spinner=False)
def _facets(where: str, only: str, version: int) -> list[Facet]:
    from ares.search.facets import facets as count_facets

    drawn = [name for name in columns() if name not in _NOT_DRAWN]
    return count_facets(workspace(), where, [only] if only else drawn)


@st.cache_data(ttl=_FRESH_SECONDS, max_entries=64, show_spinner=False)
def ranked(
    where: str, limit: int, *, text: str = "", like: str = "", image: str = "", by: str = ""
) -> list[Hit]:
    """The best moments for a text, an image or an episode."""
    return workspace().search(text, like=like, image=image, by=by, where=where, limit=limit)


@st.cache_data(ttl=_FRESH_SECONDS, max_entries=256, show_spinner=False)
def ids_between(where: str, order_by: str, offset: int, limit: int) -> list[str]:
    """Ids of one stretch of the episodes that a filter leaves."""
    table = workspace().tables.episodes
    batches = table.scan(["episode_id"], where=where, limit=limit, offset=offset, order_by=order_by)
    return [str(one) for batch in batches for one in batch.column("episode_id").to_pylist()]


@st.cache_data(ttl=_FRESH_SECONDS, max_entries=16, show_spinner=False)
def points(where: str, wanted: Sequence[str], most: int, there: int) -> list[Mapping[str, Any]]:
    """Some columns of the episodes that a filter leaves, or of a fair sample when there are more than `most`."""
    if there > most:
        # Ids are hashes: those below a bound are a fair sample of all.
        where = f"({where}) AND episode_id < '{int(most / there * 2**64):016x}'"
    found: list[Mapping[str, Any]] = workspace().frame(list(wanted), where).to_pylist()
    return found


@st.cache_data(ttl=_FRESH_SECONDS, max_entries=256, show_spinner=False)
def rows(ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """What annotators say of some episodes, by id: caption, grade."""
    if not ids:
        return {}
    wanted = [name for name in ("caption", "grade") if name in columns()]
    among = ", ".join(f"'{one}'" for one in ids)
    found = workspace().frame(["episode_id", *wanted], f"episode_id IN ({among})")
    return {str(row["episode_id"]): row for row in found.to_pylist()}


def sets() -> list[CurationSet]:
    """Every version of every set, newest of a name first."""
    kept = workspace().sets
    return [one for name in kept for one in reversed(kept.versions(name))]


@st.cache_data(ttl=_FRESH_SECONDS, max_entries=1, show_spinner=False)
def cache_bytes() -> int:
    """Disk taken by playable videos and posters."""
    folder = workspace().folder / "cache"
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0
