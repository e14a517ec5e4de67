"""The plan of an ingestion as lines of text, printed before anything is read."""

from __future__ import annotations

from collections.abc import Iterator

from ares.jobs import IngestPlan, PlannedDataset
from ares.messages import print_message
from ingest.discovery import left_lines

_SHOWN_DATASETS = 40
_SHOWN_KINDS = 8


def print_plan(plan: IngestPlan) -> None:
    """Write the plan on standard error, unless only errors are to be written."""
    print_message("\n".join(plan_lines(plan)))


def plan_lines(plan: IngestPlan) -> Iterator[str]:
    """One line for each dataset, then the files by use, and the first of those that are not read."""
    for dataset in plan.datasets[:_SHOWN_DATASETS]:
        yield _dataset_line(dataset)
        yield from (f"    {remark}" for remark in dataset.not_understood)
        if dataset.error:
            yield f"    cannot be opened: {dataset.error}"
    if len(plan.datasets) > _SHOWN_DATASETS:
        yield f"... and {len(plan.datasets) - _SHOWN_DATASETS} more datasets"
    episodes = sum(dataset.episodes for dataset in plan.datasets)
    counts = ", ".join(f"{count} {use.replace('_', ' ')}" for use, count in plan.file_counts.items() if count)
    yield f"{len(plan.datasets)} datasets, {episodes} episodes; files: {counts}"
    yield from unread_lines(plan)


def unread_lines(plan: IngestPlan) -> Iterator[str]:
    """The files that hold or stand for data and are not read, by kind and reason."""
    unread = (file for file in plan.left_files if file.use != "not_data")
    yield from (f"    {line}" for line in left_lines(unread, _SHOWN_KINDS))


def _dataset_line(dataset: PlannedDataset) -> str:
    facts = [dataset.format, f"{dataset.episodes} episodes"]
    if dataset.rate_hz is not None:
        facts.append(f"{dataset.rate_hz:g} Hz")
    if dataset.cameras:
        facts.append(f"cameras {', '.join(dataset.cameras)}")
    facts.append(f"{dataset.bytes / 1e6:.1f} MB")
    return f"{dataset.dataset or '(not opened)'}: {', '.join(facts)}, {dataset.path}"
