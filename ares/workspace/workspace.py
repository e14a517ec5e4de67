"""What a user calls on one workspace: to open it, ingest, annotate, search, export, show it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar, Unpack

from ares.console import visible
from ares.errors import RequestError
from ares.io import expanded_path
from ares.jobs import AnnotateKeywords, make_annotate_request
from ares.registry import explain_mistakes
from ares.settings import Settings
from ares.store import Stores, open_stores, workspace_exists
from ares.workspace.episode import best_poster_html
from ares.workspace.episode_actions import EpisodeActions, TagList, ViewList
from ares.workspace.episodes import Episodes
from ares.workspace.jobs import WorkspaceJobs
from ares.workspace.operations import (
    annotate_operation,
    estimate_operation,
    ingest_operation,
    plan_ingest_operation,
    read_annotators,
)
from ares.workspace.review import Reviews
from ares.workspace.sets import SetCollection, StoredSet

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from PIL import Image

    from ares.jobs import IngestPlan, IngestReport, MediaMode
    from ares.search import MinScore
    from ares.workspace.dataset_sheet import DatasetSheet
    from ares.workspace.episode import (
        AnnotateReports,
        EstimateList,
        FacetList,
        SearchResults,
        SegmentList,
        StoredEpisode,
    )
    from ares.workspace.status import MakerStatus, WorkspaceStatus

    ImageLike: TypeAlias = str | os.PathLike[str] | Image.Image | NDArray[np.uint8]


# Episodes whose pictures a notebook shows.
_POSTERS = 6
Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def _method_of(
    part: str, method: Callable[Concatenate[Any, Parameters], Returned]
) -> Callable[Concatenate[Workspace, Parameters], Returned]:
    """A method of a part as one of the workspace, with its help."""

    @wraps(method)
    def call(self: Workspace, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        return method(getattr(self, part), *args, **kwargs)

    return call


@explain_mistakes
class Workspace:
    """A collection of episodes with their annotations, indexes and sets; `ares.open` opens one.

        >>> with ares.open("curation") as ws:
        ...     print(ws)
        Workspace('curation': 1,204 episodes, 3 datasets, captions 1,200, sets: sinks)

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

    def __len__(self) -> int:
        return len(self.episodes)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[StoredEpisode]:
        return iter(self.episodes)

    def __contains__(self, episode: object) -> bool:
        return episode in self.episodes

    def __getitem__(self, key: Any) -> Any:
        """What `episodes` has of a key, see `Episodes`."""
        return self.episodes[key]

    def sql(self, query: str) -> pd.DataFrame:
        """The result of a SELECT over the table `episodes`, see `Episodes.sql`."""
        return self.episodes.sql(query)

    def __getstate__(self) -> tuple[str, Settings]:
        return self.path, self.settings

    def __setstate__(self, state: tuple[str, Settings]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __enter__(self) -> Workspace:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Workspace({self.path!r}: {'closed' if self._is_closed else self._overview()})"

    def _overview(self) -> str:
        from ares.workspace.summary import list_workspace_counts

        return visible(", ".join(list_workspace_counts(self.stores)))

    def _repr_html_(self) -> str:
        """The same with a few episodes, for notebooks."""
        posters = "".join(best_poster_html(self.stores, episode) for episode in self.episodes.take(_POSTERS))
        return f"<div><p><b>{escape(self.path)}</b>: {escape(self._overview())}</p>{posters}</div>"

    @property
    def episodes(self) -> Episodes:
        """Its episodes, read when they are needed.

        >>> ws.episodes.where("success").sort("num_steps").take(10).to_pandas()
        >>> ws.episodes["3f2a"].video("front")
        """
        return Episodes(self.stores)

    @property
    def sets(self) -> SetCollection:
        """The frozen selections, by name."""
        return SetCollection(self.stores)

    @property
    def review(self) -> Reviews:
        """What people say is true, and the queues in which they are asked."""
        return Reviews(self.stores)

    def sheet(self, dataset: str) -> DatasetSheet:
        """What is believed of a dataset, each line with the key of a spec that corrects it.

        Raises RequestError for a name without episodes.
        """
        from ares.workspace.dataset_sheet import describe_dataset

        return describe_dataset(self.stores, dataset)

    @property
    def tags(self) -> TagList:
        """The tags that episodes have; `tag` and `untag` change them."""
        from ares.curation import list_tags

        return TagList(list_tags(self.stores))

    @property
    def views(self) -> ViewList:
        """The views that people saved."""
        return ViewList(self.stores)

    @property
    def jobs(self) -> WorkspaceJobs:
        """What goes over many episodes; each is a method of the workspace, too."""
        return WorkspaceJobs(self.stores)

    @property
    def actions(self) -> EpisodeActions:
        """What can be done to episodes; each is a method of the workspace, too."""
        return EpisodeActions(self.stores)

    find = _method_of("actions", EpisodeActions.find)
    remove = _method_of("actions", EpisodeActions.remove)
    tag = _method_of("actions", EpisodeActions.tag)
    untag = _method_of("actions", EpisodeActions.untag)
    note = _method_of("actions", EpisodeActions.note)
    set_values = _method_of("actions", EpisodeActions.set_values)
    add_vectors = _method_of("actions", EpisodeActions.add_vectors)
    remove_vectors = _method_of("actions", EpisodeActions.remove_vectors)
    similar = _method_of("episodes", Episodes.similar)
    undo = _method_of("actions", EpisodeActions.undo)

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
        from ares.workspace.episode import SearchResults, StoredHit

        with _query_image_path(image) as path:
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

    def search_segments(self, text: str = "", *, where: str = "", limit: int = 20) -> SegmentList:
        """Find spans of episodes by words of their texts, best first, as `ares search --segments` does.

            >>> for segment in ws.search_segments("pick the mug", where="author = 'person'"):
            ...     print(segment.episode_id, segment.start_seconds, segment.stop_seconds, segment.text)

        Args:
            text: Words; without any, those of the filter by episode and time.
            where: SQL filter over the columns of segments, such as "style = 'subtask'".
            limit: Most segments in the answer.

        Raises:
            RequestError: There is neither a text nor a filter, or the filter is wrong.
        """
        from ares.workspace.episode import SegmentList

        if not text.strip() and not where.strip():
            raise RequestError("a search for segments needs words or a filter", "give a text or `where`")
        return SegmentList(self.stores.tables.segments.find(text, where, limit))

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

    def ingest(
        self,
        *sources: str | os.PathLike[str],
        format: str = "auto",
        dataset: str = "",
        rate_hz: float | None = None,
        cameras: str = "",
        spec: str | os.PathLike[str] = "",
        options: str | os.PathLike[str] = "",
        data_dir: str | os.PathLike[str] = "",
        follow_links: bool = False,
        media: MediaMode = "reference",
        limit: int | None = None,
        strict: bool = False,
        engine: str = "local",
        quiet: bool = False,
    ) -> IngestReport:
        """Read every dataset at and below some paths, as `ares ingest` does; stored episodes are skipped.

            >>> report = ws.ingest("~/data/bridge_dataset", rate_hz=5)
            >>> report.kept, report.failed

        Args:
            sources: Folders or files; a folder may hold datasets of several formats at any depth.
            format: Name of a format, or "auto".
            dataset: Name to store instead of the source's own; for one dataset, as the next three are.
            rate_hz: Recording rate, where the source does not store it.
            cameras: How names of video files tell episode and camera, such as "{episode}_{camera}.mp4".
            spec: YAML file with what the dataset does not say of itself.
            options: YAML file with such options by the path of each dataset.
            data_dir: Folder of the prepared datasets that sources such as "tfds:NAME" name; by default TFDS_DATA_DIR.
            follow_links: Whether symbolic links may lead out of a dataset, or out of a source.
            media: "reference" leaves pixels where they are; "copy" writes videos into the workspace.
            limit: Most episodes to read.
            strict: Stop at the first episode that fails.
            engine: "local", or "ray" for a cluster.
            quiet: Show no progress.

        Raises:
            RequestError: A path holds no dataset of the format, or there are several for an option of one; nothing was
                read.
            SourceError: The only dataset cannot be opened, or an episode failed and `strict` is set.
        """
        from ares.jobs import ComputePlan, IngestRequest

        return ingest_operation()(
            lambda: self.stores,
            self.existing_stores,
            IngestRequest(
                sources=tuple(expanded_path(source) for source in sources),
                format=format,
                dataset=dataset,
                rate_hz=rate_hz,
                cameras=cameras,
                spec=expanded_path(spec),
                options=expanded_path(options),
                data_dir=expanded_path(data_dir),
                follow_links=follow_links,
                media=media,
                limit=limit,
                strict=strict,
                compute=ComputePlan(engine=engine),
            ),
            quiet=quiet,
        )

    def plan_ingest(
        self,
        *sources: str | os.PathLike[str],
        format: str = "auto",
        dataset: str = "",
        rate_hz: float | None = None,
        cameras: str = "",
        spec: str | os.PathLike[str] = "",
        options: str | os.PathLike[str] = "",
        data_dir: str | os.PathLike[str] = "",
        follow_links: bool = False,
    ) -> IngestPlan:
        """Say what `ingest` would read with these arguments, as `ares ingest --dry-run` does; nothing is stored.

            >>> plan = ws.plan_ingest("~/data")
            >>> plan.datasets, plan.left_files

        Raises:
            RequestError: As `ingest`.
            SourceError: As `ingest`.
        """
        from ares.jobs import IngestRequest

        return plan_ingest_operation()(
            self.existing_stores,
            IngestRequest(
                sources=tuple(expanded_path(source) for source in sources),
                format=format,
                dataset=dataset,
                rate_hz=rate_hz,
                cameras=cameras,
                spec=expanded_path(spec),
                options=expanded_path(options),
                data_dir=expanded_path(data_dir),
                follow_links=follow_links,
            ),
        )

    def existing_stores(self) -> Stores | None:
        """The stores where the workspace is there, so that a plan or a wrong path creates none."""
        return self.stores if self.is_open or workspace_exists(self.path) else None

    def annotate(
        self,
        *names: str | Callable[[Any], Any] | Episodes | StoredSet,
        quiet: bool = False,
        columns: Mapping[str, object] | None = None,
        batch_size: int = 0,
        **keywords: Unpack[AnnotateKeywords],
    ) -> AnnotateReports:
        """Run annotators over the episodes that lack their annotation, as `ares annotate` does.

            >>> ws.annotate("caption", where="success", options={"caption": {"layout": "sheets"}}, limit=100)
            >>> ws.annotate(my_score, ws.episodes.where("dataset = 'bridge'"))

        Args:
            names: Annotators, in order; a later one gets what an earlier one made. A function gets an episode and
                returns a value for the column of its name, or a dict by column. A view comes last.
            quiet: Show no progress.
            columns: Types of what a function returns, {"my_score": float}; by default as of the first episodes.
            batch_size: Episodes that a function gets as a list, for which it returns a list; 0 for one by itself.
            where: SQL filter over the episodes.
            model: Model for the annotator, when one is named.
            device: torch device; by default a GPU when there is one.
            options: Own options: {"layout": ...} for all that have it, {"caption": {"layout": ...}} for one.
            limit: Most episodes to work on.
            budget_usd: Stop before this much money is spent.
            strict: Stop at the first failure.
            retry_failed: Work only on what these annotators have failed before and not done since.
            reason: With `retry_failed`: only failures whose reason has this text, whatever its case.
            engine: "local", or "ray" for a cluster.
            workers: Most workers of an annotator that computes itself; by default one per GPU.
            per_worker: What one worker takes: "cpus", "memory_gb" and "gpus"; the rest is what its annotator states.

        Raises:
            RequestError: An annotator or an option is unknown, or the filter is wrong.
            ModelError: A model cannot be loaded; nothing was annotated.
        """
        from ares.workspace.episode import AnnotateReports

        where = keywords.get("where", "")
        called, keywords["where"], functions = read_annotators(
            self.stores, self.episodes, names, where, columns, batch_size
        )
        request = make_annotate_request(called, functions=functions, **keywords)
        return AnnotateReports(annotate_operation()(self.stores, request, quiet=quiet))

    def estimate(self, *names: str, **keywords: Unpack[AnnotateKeywords]) -> EstimateList:
        """Say what `annotate` would do and cost with these arguments, as `ares annotate --dry-run` does.

            >>> ws.estimate("caption", where="success")

        With a limit it is for the episodes that such a run would work on. Raises as `annotate`.
        """
        from ares.workspace.episode import EstimateList

        request = make_annotate_request(names, **keywords)
        return EstimateList(estimate_operation()(self.stores, request))

    def use(self, **makers: str) -> dict[str, str]:
        """Choose the makers whose values fill the columns; returns the maker_id, or "newest", by annotator.

            >>> ws.use(caption="42b1", grade="newest")

        Args:
            makers: By annotator a maker_id, the unique start of one, or "newest" for the newest of each episode.

        Raises:
            RequestError: An annotator or a maker does not exist, or several begin so; then nothing is changed.
        """
        from ares.curation import choose_shown_makers

        return choose_shown_makers(self.stores, makers)

    export = _method_of("jobs", WorkspaceJobs.export)
    write_merge_plan = _method_of("jobs", WorkspaceJobs.write_merge_plan)
    torch_dataset = _method_of("jobs", WorkspaceJobs.torch_dataset)
    index = _method_of("jobs", WorkspaceJobs.index)
    doctor = _method_of("jobs", WorkspaceJobs.doctor)


def open_workspace(path: str | os.PathLike[str], settings: Settings, *, create: bool = True) -> Workspace:
    """Open a workspace.

    Args:
        path: Folder or URI.
        settings: Models, keys and prices.
        create: Create it when the folder is empty or does not exist.

    Raises:
        RequestError: There is no workspace, the folder holds something else, or an object store is to be used without
            MongoDB.
        StoreError: A newer version wrote the workspace, or its location cannot be reached.
    """
    workspace = new_workspace(path, settings)
    if not create and not workspace_exists(workspace.path):
        raise RequestError(
            f"there is no workspace at {workspace.path!r}",
            "`ares ingest` or ares.open(path, create=True) makes one; -w selects another",
        )
    assert workspace.stores  # opened, or created, now
    return workspace


def new_workspace(path: str | os.PathLike[str], settings: Settings) -> Workspace:
    """A workspace that is created, where it is missing, when it is first used."""
    return Workspace(expanded_path(path), settings)


@contextmanager
def _query_image_path(image: ImageLike) -> Iterator[str]:
    """The path of an image; a picture in memory is written to a temporary file until then.

    Args:
        image: A path or a frame as text, a path object, a PIL image, or (H, W, 3) uint8 RGB.

    Raises:
        RequestError: It is none of these.
    """
    if isinstance(image, str | os.PathLike):
        yield expanded_path(image)
        return
    with tempfile.TemporaryDirectory(prefix="ares-query-") as folder:
        path = Path(folder) / "image.png"
        _to_pil(image).save(path)
        yield str(path)


def _to_pil(image: Image.Image | NDArray[np.uint8]) -> Image.Image:
    import numpy as np
    from PIL import Image

    if isinstance(image, Image.Image):
        return image.convert("RGB")
    array = np.asarray(image)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
        raise RequestError(
            "an image is a path, a PIL image, or an array (H, W, 3) uint8",
            f"got {type(image).__name__} {array.dtype} {array.shape}",
        )
    return Image.fromarray(array)
