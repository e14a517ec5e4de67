"""What a user calls on one workspace: to open it, ingest, annotate, search, export, show it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias, Unpack

from ares.console import visible
from ares.errors import RequestError, WrongArguments
from ares.io import expanded_path, local_file_path, output_file, output_path
from ares.jobs import AnnotateKeywords, make_annotate_request
from ares.settings import Settings, user_name
from ares.store import Stores, open_stores, workspace_exists
from ares.workspace.answers import Reviews
from ares.workspace.arguments import (
    IngestKeywords,
    SelectionOptions,
    make_ingest_request,
    make_selection,
    read_episode_id,
    read_values,
)
from ares.workspace.episode import best_poster_html
from ares.workspace.episodes import Episodes
from ares.workspace.foreign_names import explain_mistakes, resolve_workspace_name, suggest_form
from ares.workspace.operations import (
    estimate_run,
    ingest_datasets,
    plan_ingest,
    read_annotators,
    run_annotators,
)
from ares.workspace.requested_exports import (
    ExportOptions,
    export_with_progress,
    find_set,
    make_export_request,
)
from ares.workspace.sets import SetCollection, StoredSet

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

    from ares.curation import CurationSet, SelectedEpisodes, UndoReport
    from ares.episode import Episode
    from ares.export import ExportReport, MergePlan
    from ares.jobs import IngestPlan, IngestReport
    from ares.loader import Normalisation, StepDataset
    from ares.search import Hit, MinScore
    from ares.store import Action
    from ares.workspace.arguments import EpisodesLike
    from ares.workspace.correcting import CorrectionReport
    from ares.workspace.coverage import DatasetCoverage
    from ares.workspace.dataset_sheet import DatasetSheet
    from ares.workspace.episode import SegmentList
    from ares.workspace.groups import ViewsByValue
    from ares.workspace.names import NameHit
    from ares.workspace.result_lists import (
        AnnotateReports,
        EstimateList,
        FindingList,
        SearchResults,
        TagList,
    )
    from ares.workspace.status import ProducerStatus, TableStatus, WorkspaceStatus

    ImageLike: TypeAlias = str | os.PathLike[str] | Image.Image | NDArray[np.uint8]


# Episodes whose pictures a notebook shows.
_POSTERS = 6


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

    _called: ClassVar = "ws"
    _part: ClassVar = ("ws.episodes", Episodes)
    _resolve_name = resolve_workspace_name

    def __init__(self, path: str = "ws", settings: Settings | None = None) -> None:
        if settings is None:
            raise WrongArguments("a workspace is opened by a function", f"use ares.open({path!r})")
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

    def __len__(self) -> NoReturn:
        """Raises WrongArguments: `episodes`, `datasets`, `sets` and `tags` are its lists."""
        raise WrongArguments("a workspace is no list of episodes", suggest_form(self, "__len__"))

    def __bool__(self) -> bool:
        return True

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
        from ares.workspace.status import list_workspace_counts

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
    def datasets(self) -> ViewsByValue[Episodes]:
        """The episodes of each dataset by its name; no episodes are read.

        >>> list(ws.datasets), ws.datasets["bridge"].where("success")
        """
        from ares.store import quote_literal
        from ares.workspace.groups import ViewsByValue

        names = sorted(self.episodes.to_arrow(["dataset"])["dataset"].unique().to_pylist())
        return ViewsByValue(
            "ws.datasets", ((name, self.episodes.where(f"dataset = {quote_literal(name)}")) for name in names)
        )

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
        from ares.workspace.result_lists import TagList

        return TagList(list_tags(self.stores))

    def search(
        self,
        text: str = "",
        *,
        image: ImageLike = "",
        like: str | Episode | Hit = "",
        by: str = "",
        where: str = "",
        limit: int = 20,
        space: str = "",
        min_score: MinScore | None = None,
        copies: bool = False,
    ) -> SearchResults:
        """Find the moments that match a text, an image or an episode, best first, as `ares search` does.

            >>> for hit in ws.search("open the drawer", where="acceptable", limit=5):
            ...     print(hit.episode_id, hit.camera, hit.seconds, hit.caption)

        Args:
            text: Words that describe the moment.
            image: A similar image: a path, a PIL image, an array (H, W, 3) uint8 RGB, or
                "EPISODE_ID/CAMERA@SECONDS" for a frame of a stored episode.
            like: A similar episode, or its id.
            by: Ways to compare with optional weights: "frames", "captions", "meaning", "state", "action", such as
                "frames=2,captions"; by default the first three.
            where: SQL filter over the episodes.
            limit: Most episodes in the answer.
            space: Name of the embedding space; by default the newest.
            min_score: Least score of an episode, 0 to 1, as on the dashboard; "auto" is where the relevant ones end.
                By default the answer has the best `limit`, ordered by their ranks of all ways together.
            copies: Answer with all episodes of equal content (`duplicate_of`); by default with one of each content.

        Raises:
            RequestError: Nothing to search for, a wrong filter, or the workspace lacks what a way needs.
            ModelError: The model of the embedding space cannot be loaded.
        """
        from ares.search import Query, leave_out_copies, search
        from ares.workspace.episode import StoredHit
        from ares.workspace.result_lists import SearchResults

        with _query_image_path(image) as path:
            query = Query(
                text=text,
                image=path,
                like=read_episode_id(like) if like else "",
                by=by,
                where=where if copies else leave_out_copies(self.stores, where),
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

    def status(self) -> WorkspaceStatus:
        """Count episodes, annotations, sets and failures, as `ares status` does.

        >>> ws.status().annotations["caption"].missing
        """
        from ares.workspace.status import workspace_status

        return workspace_status(self.stores)

    def coverage(self) -> list[DatasetCoverage]:
        """How much of each dataset is stored, as `ares status --coverage` says.

        >>> [row.dataset for row in ws.coverage() if not row.is_whole]
        """
        from ares.workspace.coverage import read_coverage

        return read_coverage(self.stores)

    def producers(self) -> Mapping[str, tuple[ProducerStatus, ...]]:
        """The producers of every annotator, and which of them fill the columns, as `ares use` shows them."""
        from ares.workspace.status import producer_statuses

        return producer_statuses(self.stores)

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
        self, *sources: str | os.PathLike[str], quiet: bool = False, **keywords: Unpack[IngestKeywords]
    ) -> IngestReport:
        """Read every dataset at and below some paths, as `ares ingest` does; stored episodes are skipped.

            >>> report = ws.ingest("~/data/bridge_dataset", rate_hz=5)
            >>> report.kept, report.failed

        Args:
            sources: Folders or files; a folder may hold datasets of several formats at any depth.
            format: Name of a format, or "auto".
            dataset: Name to store instead of the source's; for one dataset, as the next three are.
            rate_hz: Recording rate, where the source does not store it.
            cameras: How names of video files tell episode and camera, such as "{episode}_{camera}.mp4".
            spec: YAML file with what the dataset does not say of itself.
            options: YAML file with such options by the path of each dataset.
            media: "reference" leaves pixels where they are; "copy" writes videos into the workspace.
            limit: Most episodes to read.
            settle_seconds: Leave records for the next run of which a file was written within so many seconds.
            verify: Compare files of stored episodes by content, and not by size and time alone.
            engine: "local", or "ray" for a cluster.
            quiet: Show no progress.

        Raises:
            RequestError: A path holds no dataset of the format, or there are several for an option of one; nothing was
                read.
            SourceError: The only dataset cannot be opened.
        """
        request = make_ingest_request(sources, keywords)
        return ingest_datasets(lambda: self.stores, self.existing_stores, request, quiet=quiet)

    def plan_ingest(self, *sources: str | os.PathLike[str], **keywords: Unpack[IngestKeywords]) -> IngestPlan:
        """Say what `ingest` would read with these arguments, as `ares ingest --dry-run` does; nothing is stored.

            >>> plan = ws.plan_ingest("~/data")
            >>> plan.datasets, plan.left_files

        Raises:
            RequestError: As `ingest`.
            SourceError: As `ingest`.
        """
        return plan_ingest(self.existing_stores, make_ingest_request(sources, keywords))

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
            retry_failed: Work only on what these annotators have failed before and not done since.
            reason: With `retry_failed`: only failures whose reason has this text, whatever its case.
            engine: "local", or "ray" for a cluster.
            workers: Most workers of an annotator that computes itself; by default one per GPU.
            per_worker: What one worker takes: "cpus", "memory_gb" and "gpus"; the rest is what its annotator states.

        Raises:
            RequestError: An annotator or an option is unknown, or the filter is wrong.
            ModelError: A model cannot be loaded; nothing was annotated.
        """
        from ares.workspace.result_lists import AnnotateReports

        where = keywords.get("where", "")
        called, keywords["where"], functions = read_annotators(
            self.stores, self.episodes, names, where, columns, batch_size
        )
        request = make_annotate_request(called, functions=functions, **keywords)
        return AnnotateReports(run_annotators(self.stores, request, quiet=quiet))

    def estimate(self, *names: str, **keywords: Unpack[AnnotateKeywords]) -> EstimateList:
        """Say what `annotate` would do and cost with these arguments, as `ares annotate --dry-run` does.

            >>> ws.estimate("caption", where="success")

        With a limit it is for the episodes that such a run would work on. Raises as `annotate`.
        """
        from ares.workspace.result_lists import EstimateList

        request = make_annotate_request(names, **keywords)
        return EstimateList(estimate_run(self.stores, request))

    def use(self, **producers: str) -> dict[str, str]:
        """Choose the producers whose values fill the columns; returns the maker_id, or "newest", by annotator.

            >>> ws.use(caption="42b1", grade="newest")

        Args:
            producers: By annotator a maker_id, the unique start of one, or "newest" for the newest of each episode.

        Raises:
            RequestError: An annotator or a producer does not exist, or several begin so; then nothing is changed.
        """
        from ares.curation import choose_shown_producers

        return choose_shown_producers(self.stores, producers)

    def find(self, text: str, limit: int = 20) -> list[NameHit]:
        """Episodes by id, record or file, and datasets, tags and sets by name; the surest first.

            >>> ws.find("episode_000012.parquet")[0].name

        Raises RequestError as `find_names`.
        """
        from ares.workspace.names import find_names

        return find_names(self.stores, text, limit)

    def remove(
        self, ids: EpisodesLike | None = None, *, note: str = "", **conditions: Unpack[SelectionOptions]
    ) -> Action:
        """Take episodes out of the workspace, as `ares remove` does; sources stay, and `undo` brings them back.

            >>> ws.remove(where="dataset = 'droid' AND num_steps < 20", note="too short")
            >>> ws.remove(ws.search("black picture", limit=5))

        Args:
            ids: Ids, episodes, or hits of a search; or the path of a text file of ids.
            note: Why, in your words.
            where: SQL filter.
            set: Name of a set, or "name@version".
            dataset: Name of a dataset.
            search: Text; selects the best `limit` episodes for it, 100 without a limit.
            like: Id of a similar episode.
            image: Image to search by, as for `Workspace.search`.
            by: Ways to compare, as for `Workspace.search`.
            limit: Maximum number of episodes.
            min_score: Least score of an episode of a search, 0 to 1 or "auto": all that reach it are selected.

        Raises:
            RequestError: Nothing says which episodes, none is selected, or the filter is wrong.
        """
        from ares.curation import remove_episodes

        return self._act(ids, conditions, lambda selected: remove_episodes(self.stores, selected, note=note))

    def correct(
        self,
        episode: str | Episode,
        *,
        instruction: str = "",
        caption: str = "",
        outcome: str = "",
        person: str = "",
    ) -> CorrectionReport:
        """Store what a person says in place of what is shown, as `ares correct` does; `undo` takes it back by its id.

            >>> ws.correct("42b13cbcbaa01293", instruction="put the mug on the shelf", outcome="failure")

        Args:
            episode: It, its id, the beginning of that, or its key.
            instruction: What the robot is to do, or "".
            caption: What it does, or "".
            outcome: "success", "failure", "partial", "aborted", "unsure", or ""; "partial 0.6" for 60 % of the task.
            person: Who says it; you by default.

        Raises:
            RequestError: There is no such episode or outcome, or nothing is said.
        """
        from ares.workspace.correcting import correct_episode

        fields = {"instruction": instruction, "caption": caption, "outcome": outcome}
        return correct_episode(self.stores, read_episode_id(episode), fields, person or user_name())

    def correct_file(self, path: str | os.PathLike[str], *, person: str = "") -> CorrectionReport:
        """Store what a table says of episodes: columns episode, and some of instruction, caption and outcome.

        Args:
            path: A CSV file; a bad row is named in the report, and the others are stored.
            person: Who says it; you by default.

        Raises:
            RequestError: The file cannot be read, or lacks a column.
        """
        from ares.workspace.correcting import correct_file

        return correct_file(self.stores, Path(path), person or user_name())

    def tag(
        self, tag: str, ids: EpisodesLike | None = None, **conditions: Unpack[SelectionOptions]
    ) -> Action:
        """Add a tag to episodes, as `ares tag add` does; the arguments are those of `remove`.

            >>> ws.tag("blurred", ws.episodes.where("num_steps < 20"))
            >>> ws.episodes.where("array_has(tags, 'blurred')")

        Raises:
            RequestError: As `remove`, or the text cannot be a tag.
        """
        from ares.curation import add_tag

        return self._act(ids, conditions, lambda selected: add_tag(self.stores, tag, selected))

    def untag(
        self, tag: str, ids: EpisodesLike | None = None, **conditions: Unpack[SelectionOptions]
    ) -> Action:
        """Remove a tag from episodes, as `ares tag remove` does; the arguments are those of `remove`.

            >>> ws.untag("blurred", set="accepted")

        Raises:
            RequestError: As `remove`, or the text cannot be a tag.
        """
        from ares.curation import remove_tag

        return self._act(ids, conditions, lambda selected: remove_tag(self.stores, tag, selected))

    def note(
        self, text: str, ids: EpisodesLike | None = None, **conditions: Unpack[SelectionOptions]
    ) -> Action:
        """Write a note to episodes, as `ares note` does; the arguments are those of `remove`.

            >>> ws.note("the gripper slips", ["0123456789abcdef"])
            >>> ws.episodes.where("notes IS NOT NULL")

        Raises:
            RequestError: As `remove`, or the text is empty or too long.
        """
        from ares.curation import add_note

        return self._act(ids, conditions, lambda selected: add_note(self.stores, text, selected))

    def set_values(self, column: str, values: Any) -> Action:
        """Set values of a column of your own, which filters, tables, Browse and exports have from then on.

            >>> ws.set_values("my_score", {"3f2a90c1d2e3f405": 0.5})
            >>> ws.set_values("my_score", frame.set_index("episode_id")["score"])
            >>> ws.episodes.where("my_score > 0.4")

        Args:
            column: Small letters, digits and "_"; a new name, or that of a column that was set before.
            values: By id: a mapping, or a Series of pandas with the ids as its index. A column keeps its type: true or
                false, whole numbers, numbers or texts. A missing value, NaN too, takes away what an episode has.

        Raises:
            RequestError: The name is in use, an id is no episode, or the values are of another type.
        """
        from ares.curation import set_values

        return set_values(self.stores, column, *read_values(values))

    def undo(self, number: int | None = None) -> UndoReport:
        """Take back a removal, a tag, values or a change of a set, as `ares undo` does.

            >>> ws.undo()

        Args:
            number: Number of the action; by default your last.

        Raises:
            RequestError: There is nothing to take back.
        """
        from ares.curation import undo

        return undo(self.stores, number)

    def export(
        self,
        selection: str | CurationSet | EpisodesLike,
        dest: str | os.PathLike[str],
        *,
        format: str = "lerobot",
        quiet: bool = False,
        **options: Unpack[ExportOptions],
    ) -> ExportReport:
        """Write a set, or any episodes, as a training dataset, as `ares export` does.

            >>> ws.export("sinks", "exports/sinks", format="lerobot").episodes
            >>> ws.export(ws.episodes.where("success"), "exports/successes")
            >>> ws.export("sinks", "exports/moving", trim=TrimRequest(idle_seconds=0.5), weights="success")

        Args:
            selection: Name of a set, "name@version", a set, a view, or a list of episodes, hits or ids. A set alone
                keeps its members, for the next export and for `ares set rebuild`.
            dest: Folder to write, or a URL such as s3://lab/sinks; it must not be there yet, or be empty.
            format: "lerobot", "lerobot-v2.1", "rlds", "parquet", or the name of another exporter.
            task: Task of every episode: its "instruction", or its "caption" where that is acceptable.
            refuted: Captions and texts of segments leave also where a refuted judge accepts them.
            fps: Steps per second to write; None for the rate of each episode.
            retime: Step for a second: the "nearest", or the last at or before it ("hold").
            convert: Conversions of signals, such as ["action.gripper=open1", "state.arm=rad"].
            strict: Write nothing when an episode fails, or something is lacking for imitation learning.
            segments: Grades of texts of models that are written too, such as ["ungraded"]; ["none"] writes no texts.
            plan: File of the plan by which the sources become one dataset, see `write_merge_plan`.
            like: Dataset that gives rate, sizes and names of one dataset of all sources, without a plan.
            trim: Which parts of the episodes are written, an `ares.export.TrimRequest`; None writes them whole.
            weights: Weight of each step: a column of numbers such as "success_probability", or a table such as
                "weights.csv" with the columns episode_id and weight.
            min_precision: Least share of true captions that people must have measured of each dataset.
            min_kept: Least share of the episodes that the last export of this set had.
            signals: Further signals to write, such as ["next.done"]; None writes those that all episodes have.
            drop_cameras: Cameras that are not written.
            link_dest: An earlier export, to whose files equal ones are linked and not written again.
            quiet: Show no progress.

        Raises:
            RequestError: There is no such set or format, the plan is wrong, the folder is not empty, or the
                rate is not positive.
            ClashError: Signals of the set mean different things, and no conversion is named for them.
            MediaError: No episode can be exported, or with `strict` one cannot.
        """
        members = find_set(self.stores, selection)
        return export_with_progress(
            make_export_request(self.stores, members, output_path(dest), format, options),
            self.stores,
            quiet=quiet,
        )

    def write_merge_plan(
        self, selection: str | CurationSet, path: str | os.PathLike[str], like: str | None = None
    ) -> MergePlan:
        """Write how the sources of a set become one dataset, as `ares export --write-plan` does.

            >>> plan = ws.write_merge_plan("mixed", "plan.yaml")
            >>> [source.state for source in plan.sources]

        Args:
            selection: Name of a set, "name@version", or a set.
            path: A new YAML file, for a person to edit; `export` obeys it.
            like: Dataset that gives rate, sizes and names; None for the source with most of each.

        Raises:
            RequestError: There is no such set or dataset, the set has no episodes, or the file exists.
        """
        from ares.export import propose_merge_plan

        plan = propose_merge_plan(self.stores, find_set(self.stores, selection), like)
        with output_file(path) as target:
            plan.write(target)
        return plan

    def torch_dataset(
        self,
        selection: str | CurationSet | EpisodesLike,
        *,
        cameras: Sequence[str] | None = None,
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        normalise: Mapping[str, Normalisation] | None = None,
        **options: Unpack[ExportOptions],
    ) -> StepDataset:
        """The steps of a set as a dataset that `torch.utils.data.DataLoader` takes; frames are decoded on demand.

            >>> dataset = ws.torch_dataset("sinks", delta_timestamps={"action": [0.0, 0.05, 0.1]})
            >>> dataset[0]["action"].shape, dataset[0]["action_is_pad"]
            >>> stream = dataset.stream(batch_size=8)

        Args:
            selection: Name of a set, "name@version", a set, or a view such as `ws.episodes.where(...)`; its episodes
                have one layout.
            cameras: Cameras whose frames are decoded; None for all.
            delta_timestamps: By key of an item, the times of a window relative to the step.
            normalise: By key of a signal how it is normalised, by statistics over all steps: "mean_std" to mean 0 and
                deviation 1, "min_max" to the span from -1 to 1.
            task: Task of every episode, as for `export`; so are the next four.
            fps: Steps per second; None for the rate of the episodes.
            retime: Step for a second: the "nearest", or the last at or before it ("hold").
            convert: Conversions of signals.
            strict: Fail when an episode cannot be read, or something is lacking for imitation learning.
            plan: File of the plan by which the sources become one dataset; `like` as for `export`.
            trim: Which parts of the episodes it has, as for `export`.
            weights: Weight of each step, as for `export`: an item has the key "sample_weight", and
                `StepDataset.make_weighted_sampler` draws by it.

        Raises:
            RequestError: There is no such set, camera or key, its episodes have several layouts, or torch is not
                installed.
            ClashError: Signals of the set mean different things, and no conversion is named for them.
            MediaError: No episode can be read, or with `strict` one cannot.
        """
        from ares.loader import LoaderRequest, build_step_dataset

        members = find_set(self.stores, selection)
        request = make_export_request(self.stores, members, Path(), "steps", options)
        loading = LoaderRequest(
            cameras=cameras, delta_timestamps=delta_timestamps or {}, normalise=normalise or {}
        )
        return build_step_dataset(request, self.stores, loading)

    def index(self, quiet: bool = False) -> dict[str, TableStatus]:
        """Index vectors so that searches for similar frames, texts and motions stay fast, as `ares index` does.

        Searches go on meanwhile, and find what is not indexed yet by comparing it one by one.

            >>> ws.annotate("motion", "embed")
            >>> ws.index()["vectors/motion"].indexed

        Args:
            quiet: Say nothing of what is indexed.

        Returns:
            The tables of vectors by name, with their rows, indexed rows and measured recall.
        """
        from ares.console import print_message
        from ares.workspace.status import vector_tables

        with self.stores.write_lock("ares index"):
            self.stores.tables.refresh_indexes((lambda message: None) if quiet else print_message)
        return vector_tables(self.stores)

    def doctor(
        self,
        repair: bool = False,
        rebuild: bool = False,
        relocate: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ) -> FindingList:
        """Check that the stores agree with each other and with the source files, as `ares doctor` does.

            >>> ws.doctor(relocate={"/old/data": "/new/data"})

        Args:
            repair: Repair what can be repaired without losing data.
            rebuild: Drop the columns and segments that come from the annotation log, and make them from it again.
            relocate: New folder or URL by the old one, for source files that were moved.

        Raises:
            RequestError: A new path does not exist.
            StoreError: The log has values that no column can show; all others are shown by then.
        """
        from ares.doctor import relocate_sources, run_checks
        from ares.workspace.result_lists import FindingList

        moves = list(relocate.items() if isinstance(relocate, Mapping) else relocate)
        findings = relocate_sources(self.stores, moves) if moves else []
        return FindingList(findings + run_checks(self.stores, repair, rebuild))

    def _act(
        self,
        ids: EpisodesLike | None,
        conditions: SelectionOptions,
        act: Callable[[SelectedEpisodes], Action],
    ) -> Action:
        from ares.curation import select_episodes

        selection = make_selection(ids, conditions)
        if selection.is_empty:
            raise RequestError("nothing says which episodes", "give ids, where, set, dataset or search")
        with select_episodes(self.stores, selection) as selected:
            return act(selected)


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
    return Workspace(local_file_path(expanded_path(path)), settings)


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
