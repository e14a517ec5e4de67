"""What a user reads from one workspace: episodes, sets, searches, counts, and an overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, TypeVar

from ares.curation import Sets
from ares.errors import RequestError
from ares.registry import refuse_unknown_keywords
from ares.settings import Settings
from ares.store import Stores, open_stores
from ares.workspace.episode import best_poster_html
from ares.workspace.episodes import Episodes
from ares.workspace.sets import SetCollection

if TYPE_CHECKING:
    from types import TracebackType

    from ares.search import MinScore
    from ares.workspace.arguments import ImageLike
    from ares.workspace.episode import FacetList, SearchResults
    from ares.workspace.status import MakerStatus, WorkspaceStatus


# Up to so many episodes, counting the values of a column is not noticed.
_MAX_COUNTED_ROWS = 100_000
_SHOWN_SETS, _POSTERS = 8, 6


def overview_text(stores: Stores) -> str:
    """For example "Workspace('curation': 1,204 episodes, 3 datasets, captions 1,200, sets: sinks, drawers)"."""
    return f"Workspace({stores.path!r}: {', '.join(_overview_parts(stores))})"


def overview_html(stores: Stores) -> str:
    """The same with posters of a few episodes."""
    posters = "".join(best_poster_html(stores, episode) for episode in Episodes(stores).take(_POSTERS))
    return f"<div><p><b>{escape(stores.path)}</b>: {escape(', '.join(_overview_parts(stores)))}</p>{posters}</div>"


def _overview_parts(stores: Stores) -> list[str]:
    table = stores.tables.episodes.snapshot()
    total = table.count()
    parts = [f"{total:,} episodes"]
    if 0 < total <= _MAX_COUNTED_ROWS:
        batches = table.scan(["dataset"])
        datasets = {name for batch in batches for name in batch["dataset"].unique().to_pylist()}
        parts.append(f"{len(datasets)} dataset{'s' if len(datasets) != 1 else ''}")
        if "caption" in table.columns():
            parts.append(f"captions {table.count('caption IS NOT NULL'):,}")
    names = list(Sets(stores.annotations))
    if names:
        more = f" and {len(names) - _SHOWN_SETS} more" if len(names) > _SHOWN_SETS else ""
        parts.append(f"sets: {', '.join(names[:_SHOWN_SETS])}{more}")
    return parts


Reader = TypeVar("Reader", bound="WorkspaceReader")


class WorkspaceReader:
    """The part of `Workspace` that changes nothing.

    Args:
        path: Folder or URI, as the user wrote it; what is missing is created when it is first used.
        settings: Models, keys and prices.
    """

    def __init__(self, path: str, settings: Settings) -> None:
        self.path = path
        self.settings = settings
        self._stores: Stores | None = None
        self._is_closed = False

    @property
    def stores(self) -> Stores:
        """Its tables, annotation log, media cache and write lock, for what this class does not offer.

        Raises:
            RequestError: The workspace is closed.
        """
        if self._is_closed:
            raise RequestError("the workspace is closed", f"ares.open({self.path!r}) opens it again")
        if self._stores is None:
            self._stores = open_stores(self.path, self.settings)
        return self._stores

    @property
    def is_open(self) -> bool:
        """Whether its stores were opened, and created where they were missing."""
        return self._stores is not None

    @property
    def location(self) -> str:
        """The absolute folder, or the URI on an object store."""
        return self.stores.location

    def __enter__(self: Reader) -> Reader:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Workspace({self.path!r}: closed)" if self._is_closed else overview_text(self.stores)

    def _repr_html_(self) -> str:
        """The same with a few episodes, for notebooks."""
        return overview_html(self.stores)

    @property
    def episodes(self) -> Episodes:
        """Its episodes, read when they are needed.

        >>> ws.episodes.where("success").sort("num_steps").take(10).to_pandas()
        >>> ws.episodes["3f2a"].video("front")
        """
        return Episodes(self.stores)

    @property
    def sets(self) -> SetCollection:
        """The frozen selections, by name.

        >>> ws.sets.create("sinks", where="acceptable AND success")
        """
        return SetCollection(self.stores)

    @refuse_unknown_keywords
    def search(
        self,
        text: str = "",
        *,
        image: ImageLike = "",
        like: str = "",
        by: str = "",
        where: str = "",
        limit: int = 20,
        space: str = "",
        min_score: MinScore | None = None,
    ) -> SearchResults:
        """Find the moments that match a text, an image or an episode, best first, as `ares search` does.

            >>> for hit in ws.search("open the drawer", where="acceptable", limit=5):
            ...     print(hit.episode_id, hit.camera, hit.seconds, hit.caption)

        Args:
            text: Words that describe the moment.
            image: A similar image: a path, a PIL image, an array (H, W, 3) uint8 RGB, or
                "EPISODE_ID/CAMERA@SECONDS" for a frame of a stored episode.
            like: Id of a similar episode.
            by: Ways to compare with optional weights: "frames", "captions", "meaning", "state", "action", such as
                "frames=2,captions"; by default the first three.
            where: SQL filter over the episodes.
            limit: Most episodes in the answer.
            space: Name of the embedding space; by default the newest.
            min_score: Least score of an episode, 0 to 1, as on the dashboard; "auto" is where the relevant ones end.
                By default the answer has the best `limit`, and their scores compare ranks only.

        Raises:
            RequestError: Nothing to search for, a wrong filter, or the workspace lacks what a way needs.
            ModelError: The model of the embedding space cannot be loaded.
        """
        from ares.search import Query, search
        from ares.workspace.arguments import image_path
        from ares.workspace.episode import SearchResults, StoredHit

        with image_path(image) as path:
            query = Query(
                text=text,
                image=path,
                like=like,
                by=by,
                where=where,
                limit=limit,
                space=space,
                min_score=min_score,
            )
            hits = search(self.stores, query)
        return SearchResults(StoredHit.from_hit(hit, self.stores) for hit in hits)

    @refuse_unknown_keywords
    def facets(self, where: str = "", columns: Sequence[str] = ()) -> FacetList:
        """Count the values of every column among the episodes that match a filter.

            >>> ws.facets("success", columns=["dataset", "grade"])

        Args:
            where: SQL filter; "" is all.
            columns: Columns to count; by default all that are not ids or paths.

        Raises:
            RequestError: The filter is wrong, or a column does not exist.
        """
        from ares.search import compute_facets
        from ares.workspace.episode import FacetList

        return FacetList(compute_facets(self.stores, where, columns))

    def status(self) -> WorkspaceStatus:
        """Count episodes, annotations, sets and failures, as `ares status` does.

        >>> ws.status().annotations["caption"].missing
        """
        from ares.workspace.summary import workspace_status

        return workspace_status(self.stores)

    def makers(self) -> Mapping[str, tuple[MakerStatus, ...]]:
        """The makers of every annotator, and which of them fill the columns, as `ares use` shows them."""
        from ares.workspace.summary import maker_statuses

        return maker_statuses(self.stores)

    def sync(self) -> int:
        """Apply the annotations that the tables lack. Returns the number of annotations applied."""
        return self.stores.sync()

    def close(self) -> None:
        """Close it; what was read stays, and a view of its episodes reads no more. A second time does nothing."""
        if self._stores is not None and not self._is_closed:
            self._stores.is_closed = True
            self._stores.close()
        self._is_closed = True
