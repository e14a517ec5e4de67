"""ARES curates robot-learning data: it reads episodes, annotates, searches, selects and exports them."""

from __future__ import annotations

import os
import sys

# The command, and no process that a library starts with its arguments.
if os.path.basename(sys.orig_argv[-len(sys.argv) :][0]) in ("ares", "-mares"):  # noqa: PTH119
    # `python -m ares` puts the current folder first on the path: its files would be taken for modules of Python.
    if (
        sys.argv[:1] == ["-m"]  # while Python still looks for the module
        and not sys.flags.safe_path
        and sys.path[0] != os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    ):
        del sys.path[0]
    from ares.early_stop import answer_early_signals

    answer_early_signals()  # the imports below take a tenth of a second

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ares.errors import UnknownName as _UnknownName
from ares.imports import lazy_exports
from ares.registry import (
    read_foreign_names as _read_foreign_names,
    refuse_unknown_keywords as _checks_arguments,
)

if TYPE_CHECKING:
    from ares.annotation import Annotation as Annotation
    from ares.curation import CurationSet as CurationSet
    from ares.episode import Episode as Episode, Trajectory as Trajectory
    from ares.errors import AresError as AresError
    from ares.export import ExportReport as ExportReport
    from ares.jobs import (
        AnnotateEstimate as AnnotateEstimate,
        AnnotateReport as AnnotateReport,
        IngestReport as IngestReport,
    )
    from ares.loader import Normalisation as Normalisation, StepDataset as StepDataset
    from ares.reports import CheckReport as CheckReport, FixReport as FixReport
    from ares.search import Hit as Hit, Query as Query
    from ares.workspace import (
        Dashboard as Dashboard,
        Episodes as Episodes,
        SearchResults as SearchResults,
        StoredEpisode as StoredEpisode,
        StoredSet as StoredSet,
        Workspace as Workspace,
        WorkspaceStatus as WorkspaceStatus,
    )


__version__ = "0.2.0"
_find_export = lazy_exports(__name__)


def __getattr__(name: str) -> object:
    if form := "" if name.startswith("_") else _read_foreign_names()["ares"].get(name, ""):
        if name[0].isupper():  # Python says nothing of an AttributeError at `from ares import NAME`
            raise ImportError(f"cannot import name {name!r} from 'ares': use {form}")
        raise _UnknownName(f"module 'ares' has no attribute {name!r}", f"use {form}")
    return __dir__() if name == "__all__" else _find_export(name)


def __dir__() -> list[str]:
    return sorted([*_find_export("__all__"), "__version__", "app", "check", "fix", "open", "torch_dataset"])


@_checks_arguments
def open(path: str | os.PathLike[str] | None = None, *, create: bool = False) -> Workspace:
    """Open the workspace in a folder or at an object-store URI; a purge that was interrupted is completed.

    So opening may write: it deletes the rest of the episodes of a `remove --purge` that was killed, and says so. A
    workspace of an older layout is migrated.

        >>> ws = ares.open("curation")
        >>> ws = ares.open("new", create=True)
        >>> with ares.open("curation") as ws:
        ...     print(len(ws.episodes))

    Args:
        path: Folder or URI; the default is ARES_WORKSPACE, else ./ares-workspace.
        create: Create it when the folder is empty or does not exist; else no folder is made.

    Raises:
        RequestError: There is no workspace, the folder holds something else, or an object store is to be used without
            MongoDB.
        StoreError: A newer version wrote the workspace, or its location cannot be reached.
    """
    from ares.io import expanded_path, local_file_path
    from ares.settings import name_ignored_config, settings_from_environment
    from ares.workspace import open_workspace

    settings = settings_from_environment()
    name_ignored_config()
    location = local_file_path(expanded_path(path or settings.workspace))
    name_ignored_config(location)
    workspace = open_workspace(location, settings, create=create)
    if workspace.stores.annotations.position().has_purge:
        from ares.curation import complete_purges

        complete_purges(workspace.stores)
    return workspace


@_checks_arguments
def app(
    workspace: Workspace,
    *,
    host: str = "127.0.0.1",
    port: int = 8501,
    open_browser: bool = True,
) -> Dashboard:
    """Serve the dashboard of a workspace by a process in the background, until it is closed or this process ends.

    `ares app` serves until interrupted.

        >>> dashboard = ares.app(ares.open("curation"))
        >>> dashboard.url, dashboard.close()

    Args:
        workspace: The workspace to show.
        host: Address to listen on; beyond this machine a password is needed.
        port: Port to listen on; 0 for any free one.
        open_browser: Whether to open the browser.

    Raises:
        RequestError: The port is in use, the host needs a password, an option cannot be read, or the extra `app` is not
            installed.
    """
    from ares.workspace import serve_app

    return serve_app(workspace, host=host, port=port, open_browser=open_browser)


@_checks_arguments
def check(
    *sources: str | os.PathLike[str],
    format: str = "auto",
    rate_hz: float | None = None,
    spec: str | os.PathLike[str] = "",
    limit: int | None = None,
    num_listed: int = 20,
    video: bool = False,
) -> CheckReport:
    """Check the signals of datasets where they lie, and their videos on demand; no workspace is needed.

        >>> report = ares.check("data/bridge_dataset")
        >>> report.is_clean, [count.code for dataset in report.datasets for count in dataset.counts]

    Args:
        sources: Folders, files or URLs of datasets.
        format: Name of a format, or "auto".
        rate_hz: Recording rate, where the source does not store it.
        spec: YAML file with what the dataset does not say of itself, as for `Workspace.ingest`.
        limit: Number of episodes to check at most; all by default.
        num_listed: Findings of each code that are listed with their episode, the worst; all are counted.
        video: Whether to decode the videos, each file once, and check them too.

    Raises:
        RequestError: A path does not exist or holds no dataset, options do not fit, or a file of the user cannot be
            read or written.
        SourceError: The one dataset that there is cannot be opened.
    """
    from ares.jobs import CheckRequest, IngestRequest
    from ares.workspace import check_datasets

    datasets = IngestRequest(
        sources=tuple(os.fspath(source) for source in sources),
        format=format,
        rate_hz=rate_hz,
        spec=os.fspath(spec),
        limit=limit,
    )
    request = CheckRequest(
        datasets=datasets,
        num_listed=num_listed,
        video=video,
    )
    return check_datasets(request)


@_checks_arguments
def fix(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    format: str = "auto",
    rate_hz: float | None = None,
    spec: str | os.PathLike[str] = "",
    export_format: str = "lerobot",
    dry_run: bool = False,
    num_listed: int = 20,
    quiet: bool = False,
) -> FixReport:
    """Write a copy of a dataset in which is corrected what the data alone decide; the source is never changed.

    Corrected are gaps of one or two steps (A001), single spikes (A004) and whole turns (A007). What is not certain is
    left. The copy is checked again.

        >>> report = ares.fix("data/so101", "data/so101-corrected")
        >>> [(repair.key, change.seconds, change.old, change.new) for repair, change in report.changes]

    Args:
        source: Folder, file or URL of one dataset.
        destination: Folder to write; must not be there yet.
        format: Name of the format of the source, or "auto".
        rate_hz: Recording rate, where the source does not store it.
        spec: YAML file with what the dataset does not say of itself, as for `Workspace.ingest`.
        export_format: Name of the format to write, as for `Workspace.export`.
        dry_run: Whether to list the changes without writing.
        num_listed: Findings of each code that are listed with their episode, the worst; all are counted.
        quiet: Show no progress.

    Raises:
        RequestError: The destination exists, the source holds no dataset or several, or an option does not fit.
        SourceError: The dataset cannot be opened.
        MediaError: No episode can be written.
        StoreError: The disk is full.
    """
    from ares.jobs import FixRequest, IngestRequest
    from ares.workspace import fix_dataset

    datasets = IngestRequest(
        sources=(os.fspath(source),),
        format=format,
        rate_hz=rate_hz,
        spec=os.fspath(spec),
    )
    request = FixRequest(
        datasets=datasets,
        destination=os.fspath(destination),
        export_format=export_format,
        dry_run=dry_run,
        num_listed=num_listed,
    )
    return fix_dataset(request, quiet=quiet)


@_checks_arguments
def torch_dataset(
    source: str | os.PathLike[str],
    *,
    cameras: Sequence[str] | None = None,
    delta_timestamps: Mapping[str, Sequence[float]] | None = None,
    normalise: Mapping[str, Normalisation] | None = None,
    rate_hz: float | None = None,
    spec: str | os.PathLike[str] = "",
) -> StepDataset:
    """The steps of an export, or of any dataset, as a dataset for PyTorch; no workspace is needed.

    The episodes are in the order of the dataset: `episode_index` and `index` of LeRobot are those of its files.

        >>> dataset = ares.torch_dataset("exports/sinks", delta_timestamps={"action": [0.0, 0.05, 0.1]})

    Args:
        source: Folder, file or URL of a dataset that `Workspace.ingest` reads.
        cameras: Cameras whose frames are decoded; None for all.
        delta_timestamps: By key of an item, the times of a window relative to the step.
        normalise: By key of a signal how it is normalised, as for `Workspace.torch_dataset`.
        rate_hz: Recording rate, where the source does not store it.
        spec: YAML file with what the dataset does not say of itself.

    Raises:
        RequestError: There is no dataset, episodes of it have several layouts, or a camera or a key does not exist.
        SourceError: An episode cannot be read.
    """
    from tempfile import TemporaryDirectory

    from ares.errors import SourceError
    from ares.workspace import list_in_source_order

    with TemporaryDirectory(prefix="ares-steps-") as folder, open(folder, create=True) as workspace:
        read = workspace.ingest(source, dataset="steps", rate_hz=rate_hz, spec=spec, quiet=True)
        for failure in read.failures:
            raise SourceError(failure.reason, failure.example)
        return workspace.torch_dataset(
            list_in_source_order(workspace.stores),
            cameras=cameras,
            delta_timestamps=delta_timestamps,
            normalise=normalise,
        )
