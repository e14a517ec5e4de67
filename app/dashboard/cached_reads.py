"""What the pages read of the workspace: each query within a time limit, most of them cached."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import nullcontext, suppress
from functools import partial, wraps
from threading import BoundedSemaphore, Lock, Thread, local
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import streamlit as st

from ares.deadline import Deadline, current_deadline, limit_time
from ares.errors import QueryTimeout, RequestError
from ares.rubric import REFUTED_COLUMN
from ares.search import (
    IDENTITY_COLUMNS,
    Facet,
    Hit,
    Query,
    list_embedding_spaces,
    load_encoder,
    prepare_text_search,
)
from ares.store import CONFLICT, DISAGREEMENT, NOTES, TAGS, in_condition
from ares.workspace import Workspace
from ares_app.dashboard import map_points
from ares_app.dashboard.user_limits import UserLimits, search_image

if TYPE_CHECKING:
    from ares.annotation import Producer
    from ares.curation import CurationSet, GroupStatistics
    from ares.episode import Episode, Json
    from ares.reports import DatasetHealth
    from ares.review import InstructionAudit, MeasuredShare, ReviewQueue
    from ares.search import EpisodeScores
    from ares.workspace import DatasetCoverage
    from ares_app.dashboard.map_points import MapColours, MapPoints, View


# Parts of a search by their names in `ares.search.Query`, see `ViewState.query`.
SearchQuery = Mapping[str, str]
P = ParamSpec("P")
T = TypeVar("T")

# Queries that run at once, with those that no page waits for any more and that could not be ended.
MAX_QUERIES = 8
# A filter that was too slow is refused without a try for this long: a page uses one filter in several queries.
_REFUSED_SECONDS = 30.0
_MAX_REFUSED = 256

_slots = BoundedSemaphore(MAX_QUERIES)
_lock = Lock()
# By filter: until when it is refused.
_refused: dict[str, float] = {}


def run_with_time_limit(query: Callable[[], T], seconds: float, where: str = "") -> T:
    """Return the result of a query that runs in a separate thread.

    Args:
        query: The query; it checks the deadline of its thread, see `ares.deadline`.
        seconds: Time limit, with the wait for a free slot.
        where: Filter of a user that the query evaluates, or "".

    Raises:
        QueryTimeout: It took longer, or too many other queries run.
    """
    if current_deadline() is not None:
        return query()
    deadline = Deadline(seconds)
    if _is_refused(where):
        raise deadline.error()
    if not _slots.acquire(timeout=seconds):
        raise QueryTimeout(f"the server is busy with {MAX_QUERIES} other queries", "reload the page later")
    future: Future[T] = Future()
    Thread(target=_run_in_slot, args=(query, deadline, future), name="query", daemon=True).start()
    wait([future], timeout=deadline.remaining_seconds)
    if not future.done():
        deadline.cancel()
        _refuse_later_queries(where)
        raise deadline.error()
    try:
        return future.result()
    except QueryTimeout:
        _refuse_later_queries(where)
        raise


def forget_slow_filters() -> None:
    """Allow every filter again."""
    with _lock:
        _refused.clear()


def _run_in_slot(query: Callable[[], T], deadline: Deadline, future: Future[T]) -> None:
    try:
        with limit_time(deadline):
            result = query()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        _slots.release()


def _is_refused(where: str) -> bool:
    with _lock:
        return _refused.get(where, 0.0) > time.monotonic()


def _refuse_later_queries(where: str) -> None:
    if not where:
        return
    with _lock:
        _refused.pop(where, None)
        _refused[where] = time.monotonic() + _REFUSED_SECONDS
        while len(_refused) > _MAX_REFUSED:
            del _refused[next(iter(_refused))]


# Changes by a job are visible after this long at the latest.
_MAX_AGE_SECONDS = 20
# A spec that is given later changes the contract of a dataset and the version of no table.
_HEALTH_AGE_SECONDS = 300
# Columns that have another value for nearly every episode: a facet of them offers no choice.
_WITHOUT_FACET = IDENTITY_COLUMNS | {"instructions", "caption", "grade_time", NOTES}
# Columns that a card shows.
_CARD_COLUMNS = (
    *("caption", "grade", TAGS, NOTES, REFUTED_COLUMN, CONFLICT, DISAGREEMENT),
    *("outcome", "outcome_source"),
)
# New vectors change the version of neither the episodes nor the segments.
_SCORES_AGE_SECONDS = 300
# The workspace of the process; empty until `use_workspace`.
_current: list[tuple[Workspace, UserLimits]] = []


def use_workspace(opened: Workspace, limits: UserLimits | None = None) -> None:
    """Show this workspace in every page of the process, within these limits."""
    if _current:
        clear_caches()
    _current[:] = [(opened, limits or UserLimits())]


def workspace() -> Workspace:
    """Return the workspace. Raises RequestError when none is open."""
    if not _current:
        raise RequestError("no workspace is open", "start the dashboard with `ares app`")
    return _current[0][0]


def page_limits() -> UserLimits:
    """Return the limits of the pages. Raises RequestError when no workspace is open."""
    workspace()
    return _current[0][1]


def limited(query: Callable[[], T], where: str = "") -> T:
    """Return the result of a query, which runs within the time limit of the pages.

    Args:
        query: Reads from the workspace.
        where: Filter of a user that it evaluates, or "".

    Raises:
        QueryTimeout: It took longer, or too many other queries run.
    """
    return run_with_time_limit(query, page_limits().query_seconds, where)


def clear_caches() -> None:
    """Drop every cached read, so that the next page shows the current state."""
    st.cache_data.clear()
    st.cache_resource.clear()
    forget_slow_filters()


def newest_version() -> int:
    """The version of the table: what was read of it holds until this changes, whoever changes it."""
    return limited(lambda: workspace().stores.tables.episodes.version())


def _keep_answers(
    entries: int, *, seconds: float | None = None, is_shared: bool = False
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Keep what a function returns, by its arguments, until the caches are cleared.

    Args:
        entries: How many answers are kept.
        seconds: How long one is kept; None for ever.
        is_shared: Whether all pages get one object, which none of them changes; otherwise each gets a copy.
    """
    cache: Any = st.cache_resource if is_shared else st.cache_data

    def decorate(read: Callable[P, T]) -> Callable[P, T]:
        kept: Callable[P, T] = cache(read, max_entries=entries, ttl=seconds, show_spinner=False)
        return kept

    return decorate


def _keep_by_version(
    entries: int, *, seconds: float | None = None, is_shared: bool = False
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """As `_keep_answers`, as long as the table of the episodes has the same version."""

    def decorate(read: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(read)
        plain: Callable[..., T] = read

        @_keep_answers(entries, seconds=seconds, is_shared=is_shared)
        @wraps(read)
        def read_version(version: int, *arguments: Any) -> T:
            return plain(*arguments)

        @wraps(read)
        def read_newest(*arguments: P.args, **keywords: P.kwargs) -> T:
            bound = signature.bind(*arguments, **keywords)
            bound.apply_defaults()
            return read_version(newest_version(), *bound.args)

        return read_newest

    return decorate


@_keep_by_version(4)
def filter_columns() -> dict[str, str]:
    """Return the columns that can be filtered, with their types; a new one is seen at once, whoever made it."""
    return limited(lambda: workspace().stores.tables.episodes.columns())


@_keep_by_version(256)
def count_episodes(where: str) -> int:
    """Return the number of episodes that match a filter."""
    return limited(lambda: workspace().stores.tables.episodes.count(where), where)


@_keep_by_version(64, is_shared=True)
def leave_out_copies(where: str) -> str:
    """Return the filter with one episode of each content, see `ares.search.leave_out_copies`."""
    from ares.search import leave_out_copies

    return limited(lambda: leave_out_copies(workspace().stores, where), where)


@_keep_by_version(64)
def read_ends(where: str, column: str) -> tuple[float | None, float | None]:
    """Return the lowest and the highest value of a column of numbers; None where no episode has one."""
    import pyarrow.compute as pc

    table = workspace().stores.tables.episodes
    ends: dict[str, Any] = limited(
        lambda: pc.min_max(table.read_columns([column], where)[column]), where
    ).as_py()
    return ends["min"], ends["max"]


@_keep_by_version(1)
def outcome_column() -> str:
    """Return the column that says how episodes ended; an older workspace has only `success`, or has more in it."""
    known = filter_columns()
    if "outcome" not in known or count_episodes("outcome IS NULL AND success IS NOT NULL"):
        return "success"
    return "outcome"


def list_facet_columns() -> list[str]:
    """The columns that have a facet."""
    return [name for name in filter_columns() if name not in _WITHOUT_FACET]


@_keep_by_version(64)
def read_facets(
    where: str, only: str | tuple[str, ...] = "", query: SearchQuery | None = None, cut: float = 0.0
) -> list[Facet]:
    """Return counts and histograms of the episodes that match a filter.

    Args:
        where: SQL filter.
        only: One column, or some; "" for every column that has a facet.
        query: Only episodes of this search; None for all.
        cut: Least score of these.
    """
    from ares.search import compute_facets

    columns = ([only] if isinstance(only, str) else only) if only else list_facet_columns()
    rows = read_search_scores(query).rows(cut) if query else None
    return limited(lambda: compute_facets(workspace().stores, where, columns, rows), where)


@_keep_by_version(64)
def read_groups(where: str, name: str) -> GroupStatistics:
    """Return counts of the episodes that match a filter by the values of a name; see `Episodes.count_by`."""
    view = workspace().episodes

    def read() -> GroupStatistics:
        counted = (view.where(where) if where else view).count_by(name).statistics
        assert counted is not None
        return counted

    return limited(read, where)


# Models that are loaded, by their use; every page that needs one waits for it.
_loaded: set[str] = set()
_load_lock = Lock()
_thread = local()
# Rankers that compare by the vectors of a model.
_MODEL_RANKERS = ("frames", "meaning")


def preload_in_this_thread() -> None:
    """Let no load of this thread draw anything."""
    _thread.is_preloading = True


def warm_up(query: SearchQuery) -> None:
    """Load the model that a search needs, once per server and outside the time limit; the page says that it waits.

    A model that cannot be loaded is no error here: the search says why.
    """
    by, image, stores = query.get("by", ""), query.get("image", ""), workspace().stores
    is_by_model = not by or any(name in by for name in _MODEL_RANKERS)
    is_search = bool(query.get("text") or query.get("like") or image)
    spaces = limited(lambda: list_embedding_spaces(stores)) if is_by_model and is_search else {}
    for space in list(spaces.values())[-1:]:
        # The texts of a space may have another, smaller encoder.
        load = partial(load_encoder, space) if image else partial(prepare_text_search, stores, space)
        _load_once(f"{space.name} {'images' if image else 'texts'}", space.model, load)


def _load_once(use: str, model: str, load: Callable[[], object]) -> None:
    if use in _loaded:
        return
    # What is loaded before a page asks for it has no page that could say so.
    has_page = not getattr(_thread, "is_preloading", False)
    code = model.replace("`", "")
    text = f"Loading the model `{code}`, once for this server"
    waiting = st.spinner(text, show_time=True) if has_page else nullcontext()
    with waiting, _load_lock, suppress(Exception):
        if use not in _loaded:
            load()
            _loaded.add(use)


def read_search_scores(query: SearchQuery) -> EpisodeScores:
    """Return the score of every episode for a text, an image or an episode."""
    warm_up(query)
    tables = workspace().stores.tables
    version = limited(lambda: (tables.episodes.version(), tables.segments.version()))
    return _scores_of_version(query, version)


@_keep_answers(8, is_shared=True)
def review_queue(name: str) -> ReviewQueue:
    """A review queue, which keeps what it has read of its answers. Raises RequestError where there is none."""
    return workspace().review.queue(name)


@_keep_answers(8, seconds=_SCORES_AGE_SECONDS, is_shared=True)
def _scores_of_version(query: SearchQuery, version: tuple[int, int]) -> EpisodeScores:
    from ares.search import EncodedQuery, score_episodes

    stores = workspace().stores
    return limited(lambda: score_episodes(stores, EncodedQuery(stores, _search_query(query))))


def find_best_moments(query: SearchQuery, ids: Sequence[str], scores: Sequence[float]) -> list[Hit]:
    """Return the best moment of each of some episodes, for a text, an image or an episode."""
    warm_up(query)
    return _described_hits(query, ids, scores)


@_keep_answers(64, seconds=_MAX_AGE_SECONDS)
def _described_hits(query: SearchQuery, ids: Sequence[str], scores: Sequence[float]) -> list[Hit]:
    from ares.search import EncodedQuery, find_best_moments_of

    stores = workspace().stores
    encoded = partial(EncodedQuery, stores, _search_query(query))
    return limited(lambda: find_best_moments_of(stores, encoded(), ids, scores))


def find_similar_episodes(episode_id: str, by: str, limit: int) -> list[Hit]:
    """Return the episodes most like one, by fused ranks."""
    warm_up({"like": episode_id, "by": by})
    return _similar_hits(episode_id, by, limit)


@_keep_answers(64, seconds=_MAX_AGE_SECONDS)
def _similar_hits(episode_id: str, by: str, limit: int) -> list[Hit]:
    from ares.search import search

    query = Query(like=episode_id, by=by, limit=limit)
    return limited(lambda: search(workspace().stores, query))


def _search_query(query: SearchQuery) -> Query:
    parts: dict[str, Any] = {**query, "image": search_image(query.get("image", ""))}
    return Query(**parts)


@_keep_by_version(256)
def read_ids(where: str, order_by: str, offset: int, limit: int) -> list[str]:
    """Return the ids of one page of the episodes that match a filter."""
    table = workspace().stores.tables.episodes

    def read() -> list[str]:
        batches = table.scan(["episode_id"], where=where, limit=limit, offset=offset, order_by=order_by)
        return [str(episode_id) for batch in batches for episode_id in batch.column("episode_id").to_pylist()]

    return limited(read, where)


@_keep_by_version(4, is_shared=True)
def read_map_points(where: str) -> MapPoints:
    """Return the places and the ids of the episodes that match a filter, a few bytes each."""
    table = workspace().stores.tables.episodes
    return limited(lambda: map_points.read_map_points(table, where), where)


@_keep_by_version(16, is_shared=True)
def read_map_colours(where: str, column: str) -> MapColours:
    """Return the colours of the same episodes by a column, a byte each."""
    table = workspace().stores.tables.episodes
    return limited(lambda: map_points.read_map_colours(table, where, column), where)


@_keep_by_version(32)
def read_map_tile(where: str, column: str, view: View) -> dict[str, Json]:
    """Return the points of a part of the map as the browser gets them; a click beside the map changes none."""
    return map_points.make_tile(read_map_points(where), read_map_colours(where, column), view)


@_keep_by_version(256)
def read_captions(ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return captions, grades, and the columns that compare producers, of some episodes by episode id."""
    return read_values(ids, [name for name in filter_columns() if name in _CARD_COLUMNS])


@_keep_by_version(1)
def read_producers() -> Mapping[str, Producer]:
    """Return every producer by its id."""
    return limited(workspace().stores.annotations.producers)


@_keep_by_version(64)
def read_values(ids: Sequence[str], columns: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return columns of some episodes by episode id, for one page."""
    if not ids:
        return {}
    table, names = workspace().stores.tables.episodes, dict.fromkeys(("episode_id", *columns))
    rows = limited(lambda: table.read_columns(list(names), in_condition("episode_id", ids)))
    return {str(row["episode_id"]): row for row in rows.to_pylist()}


@_keep_by_version(1, seconds=_MAX_AGE_SECONDS)
def read_status() -> dict[str, Any]:
    """Return the document of `ares status`."""
    return limited(lambda: workspace().status().to_json())


def count_datasets() -> Mapping[str, int]:
    """Return the number of episodes of each dataset."""
    counts: Mapping[str, int] = read_status()["datasets"]
    return counts


@_keep_by_version(1, seconds=_MAX_AGE_SECONDS)
def read_coverage() -> list[DatasetCoverage]:
    """Return how much of each dataset is stored."""
    return limited(workspace().coverage)


@_keep_by_version(64, seconds=_HEALTH_AGE_SECONDS, is_shared=True)
def read_health(dataset: str) -> DatasetHealth:
    """Return what is typical of a dataset, and what the checks say of a sample of its episodes."""
    from ares.reports import dataset_health

    return limited(lambda: dataset_health(workspace().stores, dataset))


@_keep_by_version(1)
def read_measured() -> dict[str, list[MeasuredShare]]:
    """Return what people measured, by dataset."""
    from ares.review import read_measured_shares

    return limited(lambda: read_measured_shares(workspace().stores))


def draw_measurement(dataset: str, question: str, person: str) -> str:
    """Draw what a measurement asks, unless that was done; returns the name of its queue. Raises as `review.measure`."""
    reviews = workspace().review
    return limited(lambda: reviews.measure(dataset, question, person=person).drawing.queue.name)


@_keep_by_version(1, seconds=_MAX_AGE_SECONDS, is_shared=True)
def read_instruction_audits() -> list[InstructionAudit]:
    """Return the last audit of each dataset."""
    return limited(workspace().review.audits)


def list_sets() -> list[CurationSet]:
    """Return every version of every set, the newest of a name first."""
    sets = workspace().sets
    return limited(lambda: [version for name in sets for version in reversed(sets.versions(name))])


def read_episodes(ids: Sequence[str]) -> list[Episode]:
    """Return episodes in the order of the ids; unknown ids are left out."""
    return limited(lambda: workspace().stores.tables.episodes.get(ids))
