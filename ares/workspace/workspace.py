"""What a user calls on one workspace: to open it, ingest, annotate, search, export, show it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from ares.errors import RequestError
from ares.registry import operations, refuse_unknown_keywords
from ares.settings import Settings
from ares.store import workspace_exists
from ares.workspace.actions import WorkspaceActions
from ares.workspace.arguments import expanded_path
from ares.workspace.operations import (
    annotate_operation,
    estimate_operation,
    ingest_operation,
    plan_ingest_operation,
)

if TYPE_CHECKING:
    from ares.curation import CurationSet
    from ares.episode import Json
    from ares.export import ExportReport, RetimeMode, TaskSource
    from ares.jobs import IngestPlan, IngestReport, MediaMode
    from ares.loader import StepDataset
    from ares.store import Stores
    from ares.workspace.episode import AnnotateReports, EstimateList, FindingList
    from ares.workspace.status import TableStatus


class Workspace(WorkspaceActions):
    """A collection of episodes with their annotations, indexes and sets; `ares.open` opens one.

    >>> with ares.open("curation") as ws:
    ...     print(ws)
    Workspace('curation': 1,204 episodes, 3 datasets, captions 1,200, sets: sinks)
    """

    @refuse_unknown_keywords
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

    @refuse_unknown_keywords
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

    @refuse_unknown_keywords
    def annotate(
        self,
        *names: str,
        where: str = "",
        model: str = "",
        device: str = "",
        options: Mapping[str, Json] | None = None,
        limit: int | None = None,
        budget_usd: float | None = None,
        strict: bool = False,
        retry_failed: bool = False,
        reason: str = "",
        engine: str = "local",
        workers: int | None = None,
        per_worker: Mapping[str, float] | None = None,
        quiet: bool = False,
    ) -> AnnotateReports:
        """Run annotators over the episodes that lack their annotation, as `ares annotate` does.

            >>> ws.annotate("caption", where="success", options={"caption": {"layout": "sheet"}}, limit=100)

        Args:
            names: Annotators, in order; a later one gets what an earlier one made.
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
            quiet: Show no progress.

        Raises:
            RequestError: An annotator or an option is unknown, or the filter is wrong.
            ModelError: A model cannot be loaded; nothing was annotated.
        """
        from ares.workspace.episode import AnnotateReports

        reports = annotate_operation()(
            self.stores,
            names,
            where=where,
            model=model,
            device=device,
            options=options or {},
            limit=limit,
            budget_usd=budget_usd,
            strict=strict,
            retry_failed=retry_failed,
            reason=reason,
            engine=engine,
            workers=workers,
            per_worker=per_worker or {},
            quiet=quiet,
        )
        return AnnotateReports(reports)

    @refuse_unknown_keywords
    def estimate(
        self,
        *names: str,
        where: str = "",
        model: str = "",
        device: str = "",
        options: Mapping[str, Json] | None = None,
        retry_failed: bool = False,
        reason: str = "",
    ) -> EstimateList:
        """Say what `annotate` would do and cost with these arguments, as `ares annotate --dry-run` does.

            >>> ws.estimate("caption", where="success")

        Raises as `annotate`.
        """
        from ares.workspace.episode import EstimateList

        estimates = estimate_operation()(
            self.stores,
            names,
            where=where,
            model=model,
            device=device,
            options=options or {},
            retry_failed=retry_failed,
            reason=reason,
        )
        return EstimateList(estimates)

    def use(self, **makers: str) -> dict[str, str]:
        """Choose the makers whose values fill the columns.

            >>> ws.use(caption="42b1", grade="newest")

        Args:
            makers: By annotator a maker_id, the unique start of one, or "newest" for the newest of each episode.

        Returns:
            The maker_id, or "newest", by annotator.

        Raises:
            RequestError: An annotator or a maker does not exist, or several begin so; then nothing is changed.
        """
        from ares.curation import use_makers

        return use_makers(self.stores, makers)

    @refuse_unknown_keywords
    def export(
        self,
        selection: str | CurationSet,
        dest: str | os.PathLike[str],
        *,
        format: str = "lerobot",
        task: TaskSource = "instruction",
        fps: float | None = None,
        retime: RetimeMode = "nearest",
        convert: Sequence[str] = (),
        strict: bool = False,
        quiet: bool = False,
    ) -> ExportReport:
        """Write a set as a training dataset, as `ares export` does.

            >>> ws.export("sinks", "exports/sinks", format="lerobot").episodes

        Args:
            selection: Name of a set, "name@version", or a set.
            dest: Folder to write; it must not be there yet, or be empty.
            format: "lerobot", "lerobot-v2.1", "rlds", "parquet", or the name of another exporter.
            task: Task of every episode: its "instruction", or its "caption" where that is acceptable.
            fps: Steps per second to write; None for the rate of each episode.
            retime: Step for a second: the "nearest", or the last at or before it ("hold").
            convert: Conversions of signals, such as ["action.gripper=open1", "state.arm=rad"].
            strict: Write nothing when an episode fails, instead of leaving it out.
            quiet: Show no progress.

        Raises:
            RequestError: There is no such set or format, the folder is not empty, or the rate is not positive.
            ClashError: Signals of the set mean different things, and no conversion is named for them.
            MediaError: No episode can be exported, or with `strict` one cannot.
        """
        from ares.export import ExportClock, export_set

        frozen_set = self.sets[selection] if isinstance(selection, str) else selection
        stream = None if quiet else sys.stderr
        return export_set(
            self.stores,
            frozen_set,
            Path(expanded_path(dest)),
            format=format,
            task=task,
            clock=ExportClock(fps, retime),
            convert=convert,
            strict=strict,
            stream=stream,
        )

    @refuse_unknown_keywords
    def torch_dataset(
        self,
        selection: str | CurationSet,
        *,
        cameras: Sequence[str] | None = None,
        delta_seconds: Mapping[str, Sequence[float]] | None = None,
        task: TaskSource = "instruction",
        fps: float | None = None,
        retime: RetimeMode = "nearest",
        convert: Sequence[str] = (),
        strict: bool = False,
    ) -> StepDataset:
        """The steps of a set as a dataset that `torch.utils.data.DataLoader` takes; frames are decoded on demand.

            >>> dataset = ws.torch_dataset("sinks", delta_seconds={"action": [0.0, 0.05, 0.1]})
            >>> dataset[0]["action"].shape, dataset[0]["action_is_pad"]

        Args:
            selection: Name of a set, "name@version", or a set; its episodes have one layout.
            cameras: Cameras whose frames are decoded; None for all.
            delta_seconds: By key of an item, the times of a window relative to the step.
            task: Task of every episode, as for `export`; so are the next four.
            fps: Steps per second; None for the rate of the episodes.
            retime: Step for a second: the "nearest", or the last at or before it ("hold").
            convert: Conversions of signals.
            strict: Fail when an episode cannot be read, instead of leaving it out.

        Raises:
            RequestError: There is no such set, camera or key, its episodes have several layouts, or torch is not
                installed.
            ClashError: Signals of the set mean different things, and no conversion is named for them.
            MediaError: No episode can be read, or with `strict` one cannot.
        """
        from ares.export import ExportClock, ExportOptions, set_conversion
        from ares.loader import build_step_dataset

        frozen_set = self.sets[selection] if isinstance(selection, str) else selection
        clock, conversion = ExportClock(fps, retime), set_conversion(self.stores, frozen_set, convert)
        options = ExportOptions(strict, task, clock, conversion)
        return build_step_dataset(self.stores, frozen_set, options, cameras, delta_seconds)

    @refuse_unknown_keywords
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
        from ares.messages import print_message
        from ares.workspace.summary import vector_tables

        with self.stores.write_lock("ares index"):
            self.stores.tables.refresh_indexes((lambda message: None) if quiet else print_message)
        return vector_tables(self.stores)

    @refuse_unknown_keywords
    def doctor(
        self,
        repair: bool = False,
        relocate: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ) -> FindingList:
        """Check that the stores agree with each other and with the source files, as `ares doctor` does.

            >>> ws.doctor(relocate={"/old/data": "/new/data"})

        Args:
            repair: Repair what can be repaired without losing data.
            relocate: New folder or URL by the old one, for source files that were moved.

        Raises:
            RequestError: A new path does not exist.
        """
        from ares.doctor import relocate_sources, run_checks
        from ares.workspace.episode import FindingList

        moves = list(relocate.items() if isinstance(relocate, Mapping) else relocate)
        findings = relocate_sources(self.stores, moves) if moves else []
        return FindingList(findings + run_checks(self.stores, repair))


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
    workspace = new_workspace(path, settings) if create else _existing_workspace(path, settings)
    assert workspace.stores  # opened, or created, now
    return workspace


def new_workspace(path: str | os.PathLike[str], settings: Settings) -> Workspace:
    """A workspace that is created, where it is missing, when it is first used."""
    return Workspace(expanded_path(path), settings)


def _existing_workspace(path: str | os.PathLike[str], settings: Settings) -> Workspace:
    location = expanded_path(path)
    if not workspace_exists(location):
        raise RequestError(
            f"there is no workspace at {location!r}",
            "`ares ingest` or ares.open(path, create=True) makes one; -w selects another",
        )
    return Workspace(location, settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A dashboard that is being served in the background, by a process of its own.

        >>> dashboard = ares.app(ws)
        >>> dashboard.url
        'http://127.0.0.1:8501'
        >>> dashboard.close()

    Attributes:
        url: Its address.
        close: Ends it.
    """

    url: str
    close: Callable[[], None]

    def __repr__(self) -> str:
        return f"Dashboard({self.url!r}; close() ends it)"

    def _repr_html_(self) -> str:
        """A link, for notebooks."""
        return f'<a href="{escape(self.url)}" target="_blank">ARES dashboard: {escape(self.url)}</a>'


class AppOperation(Protocol):
    """The entry point `app` of the group "ares.operations"; see `ares.app`."""

    def __call__(
        self,
        workspace: Workspace,
        *,
        host: str,
        port: int,
        open_browser: bool,
        export_dirs: Sequence[str],
        query_seconds: float | None,
        trusted_proxies: Sequence[str],
    ) -> Dashboard:
        """Serve the dashboard in the background."""


def app_operation() -> AppOperation:
    """The function that serves the dashboard. Raises RequestError when its package is not installed."""
    return cast("AppOperation", operations.get("app"))
