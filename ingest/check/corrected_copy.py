"""The correction as an operation: checks a dataset, and writes a copy in which is corrected what the data decide."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import AresError, RequestError
from ares.jobs import CheckRequest, FixRequest, IngestRequest
from ares.registry import exporters
from ares.reports import CheckReport, FindingCounter, FixReport
from ares.signals import EpisodeRepair
from ares_ingest.check.run import check, check_source, make_check_report
from ares_ingest.check.tasks import CheckProgress
from ares_ingest.pipeline import find_datasets, ingest_sources

if TYPE_CHECKING:
    from ares.export import ExportReport
    from ares_ingest.base import Source
    from ares_ingest.pipeline import IngestSources


def fix(request: FixRequest, *, quiet: bool) -> FixReport:
    """Correct a dataset in a copy; see `ares.fix` for the errors."""
    destination = str(Path(request.destination).expanduser())
    _require_new(destination)
    exporters.get(request.export_format)
    planned = find_datasets(None, request.datasets)
    source = _only_source(planned)
    _require_outside(destination, source.folder)
    repairs: list[EpisodeRepair] = []
    progress = CheckProgress(counter=FindingCounter(num_listed=request.num_listed), repairs=repairs)
    checked = check_source(source, None, progress)
    before = make_check_report(planned, [checked])
    if request.dry_run:
        return FixReport(destination=destination, before=before, repairs=tuple(repairs))
    exported = _write_copy(request, Path(destination), repairs, quiet)
    report = FixReport(destination=destination, before=before, repairs=tuple(repairs), export=exported)
    try:
        return replace(report, after=_check_copy(destination, request.num_listed))
    except AresError as error:  # of a format that ARES writes and does not read
        return replace(report, not_checked=str(error))


def _require_new(destination: str) -> None:
    if os.path.lexists(destination):
        raise RequestError(
            "the folder of a corrected copy exists already", f"{destination}; name a new folder"
        )


def _require_outside(destination: str, folder: str) -> None:
    """A copy inside the source would change it, and be a part of it when it is read again."""
    if folder and Path(destination).resolve().is_relative_to(Path(folder).resolve()):
        raise RequestError("a corrected copy lies outside its source", f"{destination} is in {folder}")


def _only_source(planned: IngestSources) -> Source:
    """The one dataset that is corrected. Raises RequestError where there are several."""
    if len(planned.sources) != 1:
        folders = ", ".join(source.folder or source.dataset for source in planned.sources) or "none"
        raise RequestError(
            "one dataset at a time is corrected", f"the path holds {folders}; name one of them"
        )
    return planned.sources[0]


def _write_copy(
    request: FixRequest, destination: Path, repairs: Sequence[EpisodeRepair], quiet: bool
) -> ExportReport:
    """Export the dataset from a workspace that exists for so long; only signals are stored in it."""
    from ares.contract import SetConverter
    from ares.curation import Sets
    from ares.export import ExportRequest, export_set
    from ares.jobs import Progress
    from ares.settings import Settings
    from ares.store import open_stores

    with tempfile.TemporaryDirectory(prefix="ares-fix-") as folder:
        stores = open_stores(str(Path(folder) / "workspace"), Settings())
        try:
            ingest_sources(stores, find_datasets(None, request.datasets), request.datasets, quiet=True)
            ids = (id for batch in stores.tables.episodes.id_batches() for id in batch)
            selection = Sets(stores.annotations).create(
                "corrected", ids, {"corrected": list(request.datasets.sources)}
            )
            changes = {repair.episode_id: repair.changes for repair in repairs if repair.changes}
            export = ExportRequest(set=selection, destination=destination, format=request.export_format)
            stream = None if quiet else sys.stderr
            with closing(Progress("export corrected", selection.episodes, stream)) as progress:
                return export_set(export, stores, progress.advance, SetConverter((), changes=changes))
        finally:
            stores.close()


def _check_copy(destination: str, num_listed: int) -> CheckReport:
    return check(CheckRequest(datasets=IngestRequest(sources=(destination,)), num_listed=num_listed))
