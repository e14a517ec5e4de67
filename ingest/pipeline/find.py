"""Finds the datasets to ingest, names them, and says what they are before anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ares.errors import AresError, SourceError
from ares.jobs import IngestPlan, LocalEngine, PlannedDataset
from ingest.base import IngestOptions, Source
from ingest.discovery import Discovery, OpenedDataset, StoredDataset, discover, make_plan, stored_datasets
from ingest.guard import GuardedItems, guarded_item
from ingest.pipeline.naming import DatasetNamer
from ingest.pipeline.read import record_limits, summarise_records

if TYPE_CHECKING:
    from ares.store import Stores
    from ingest.discovery import DatasetOptions


@dataclass(frozen=True, slots=True)
class IngestSources:
    """The datasets to ingest.

    Attributes:
        sources: Those that could be opened.
        failed: Why each other one could not be opened, by path.
        plan: What they are, and the use of every file.
        faults: Errors of ingesters that could not be asked.
        paths: The paths where they were looked for.
        stored: The datasets that the workspace knew.
    """

    sources: tuple[Source, ...]
    failed: Mapping[str, AresError]
    plan: IngestPlan
    faults: tuple[AresError, ...] = ()
    paths: tuple[str, ...] = ()
    stored: tuple[StoredDataset, ...] = ()


def find_datasets(
    stores: Stores | None,
    paths: Sequence[str],
    options: IngestOptions,
    *,
    format: str = "auto",
    by_path: Mapping[str, DatasetOptions] | None = None,
    sample: bool = False,
) -> IngestSources:
    """Find, open and name the datasets at and below some paths.

    Args:
        stores: The workspace, whose datasets keep their names; None where there is none yet.
        paths: Folders, files or URLs.
        options: What the user says of the one dataset that there is.
        format: Name of a format, or "auto".
        by_path: Options of single datasets by path.
        sample: Whether a record is read of each dataset whose rate or cameras only the records tell.

    Raises RequestError, SourceError and PluginError as `ingest.discovery.discover`.
    """
    stored = stored_datasets(stores) if stores else ()
    discovery = discover(paths, options, format, by_path, stored)
    DatasetNamer(stores, stored).name_all(discovery.datasets)
    plan = make_plan(discovery.trees, discovery.datasets, discovery.skipped)
    if sample:
        plan = replace(plan, datasets=_sampled(plan.datasets, discovery))
    return IngestSources(
        sources=tuple(source for opened in discovery.datasets for source in opened.sources),
        failed={opened.path: opened.error for opened in discovery.datasets if opened.error is not None},
        plan=plan,
        faults=tuple(discovery.faults.values()),
        paths=tuple(tree.file or str(tree.root) for tree in discovery.trees) if format == "auto" else (),
        stored=tuple(stored),
    )


def _sampled(planned: Sequence[PlannedDataset], discovery: Discovery) -> tuple[PlannedDataset, ...]:
    """The datasets with the rate and cameras of their first record, where these are not known."""
    by_dataset = {
        (source.format, source.folder or opened.path, source.dataset): (opened, source)
        for opened in discovery.datasets
        for source in opened.sources
    }
    sampled = []
    for dataset in planned:
        pair = by_dataset.get((dataset.format, dataset.path, dataset.dataset))
        if pair is None or dataset.rate_hz is not None:
            sampled.append(dataset)
        else:
            sampled.append(_with_first_record(dataset, *pair))
    return tuple(sampled)


def _with_first_record(dataset: PlannedDataset, opened: OpenedDataset, source: Source) -> PlannedDataset:
    item = next(iter(GuardedItems(source)), None)
    if item is None:
        return dataset
    load = guarded_item(item, opened.format, source.folder, source.follow_links).load
    if source.fragile:
        with closing(LocalEngine()) as engine:
            pool = engine.pool(
                summarise_records,
                max_workers=1,
                on_worker_death=SourceError,
                start_after_seconds=0.0,
                limits=record_limits(),
            )
            (summary,) = pool.map([load])
    else:
        (summary,) = summarise_records([load])
    if isinstance(summary, AresError):
        return replace(
            dataset, not_understood=(*dataset.not_understood, f"the first record fails: {summary}")
        )
    return replace(dataset, rate_hz=summary.rate_hz, cameras=dataset.cameras or summary.cameras)
