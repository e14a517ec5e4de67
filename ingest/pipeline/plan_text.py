"""What an ingestion will do, in lines: each dataset, and the files that are not read."""

from __future__ import annotations

from collections.abc import Iterator

from ares.console import count_of
from ares.jobs import IngestPlan, PlannedDataset
from ares_ingest.discovery import unread_file_lines

_SHOWN_DATASETS = 40
_SHOWN_KINDS = 8


def format_ingest_plan(plan: IngestPlan) -> Iterator[str]:
    """One line for each dataset, then the files by use, and the first of those that are not read."""
    for dataset in plan.datasets[:_SHOWN_DATASETS]:
        yield _dataset_line(dataset)
        yield from (f"    {line}" for line in (*dataset.tables, *dataset.not_understood))
        if dataset.error:
            yield f"    cannot be opened: {dataset.error}"
        for failure in dataset.failures:
            yield f"    would fail: {count_of(failure.count, 'episode')}: {failure.reason}; first: {failure.example}"
        for loss in dataset.lost:
            yield f"    would lose pictures: {count_of(loss.count, 'episode')}: {loss.reason}; first: {loss.example}"
    if len(plan.datasets) > _SHOWN_DATASETS:
        yield f"... and {count_of(len(plan.datasets) - _SHOWN_DATASETS, 'more dataset')}"
    total = sum(dataset.episodes for dataset in plan.datasets)
    episodes = (
        count_of(total, "episode")
        if plan.num_episodes == total
        else f"{plan.num_episodes} of {count_of(total, 'episode')}"
    )
    counts = ", ".join(f"{count} {use.replace('_', ' ')}" for use, count in plan.file_counts.items() if count)
    yield f"{count_of(len(plan.datasets), 'dataset')}, {episodes}; files: {counts}"
    yield from format_unread_files(plan)


def format_unread_files(plan: IngestPlan) -> Iterator[str]:
    """The files that hold or stand for data and are not read, by kind and reason."""
    unread = (file for file in plan.left_files if file.use != "not_data")
    yield from (f"    {line}" for line in unread_file_lines(unread, _SHOWN_KINDS))


def _dataset_line(dataset: PlannedDataset) -> str:
    facts = [dataset.format, count_of(dataset.episodes, "episode")]
    if dataset.rate_text:
        facts.append(dataset.rate_text)
    if dataset.cameras:
        facts.append(f"cameras {', '.join(dataset.cameras)}")
    facts.append(f"{dataset.bytes / 1e6:.1f} MB")
    return f"{dataset.dataset or '(not opened)'}: {', '.join(facts)}, {dataset.path}"
