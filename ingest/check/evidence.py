"""Draws the evidence of findings: a plot of each, frames of its cameras, and a page of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ares.clock import settle_measured_clock
from ares.episode import Episode, Record
from ares.errors import AresError, MediaError, RequestError
from ares.io import describe_os_error
from ares.jobs import LocalEngine
from ares.registry import plugin_fault
from ares.reports import (
    CheckReport,
    EvidenceFile,
    evidence_files,
    frame_strip,
    plot_finding,
    write_evidence_page,
)
from ares.signals import episode_signals
from ingest.base import GuardedItems, Source, guard_item_loading
from ingest.check.tasks import open_check_pool


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidencePlotTask:
    """The evidence of one episode.

    Attributes:
        load: Reads the record.
        folder: Folder to write to.
        files: What to draw.
    """

    load: Callable[[], Record]
    folder: str
    files: tuple[EvidenceFile, ...]


def make_empty_folder(folder: str) -> None:
    """Make the folder. Raises RequestError when it holds files already, or cannot be made."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        if any(Path(folder).iterdir()):
            raise RequestError(
                "the folder for evidence is not empty", f"{folder}: give a new or empty folder"
            )
    except OSError as error:
        raise RequestError(
            "the folder for evidence cannot be written", f"{folder}: {describe_os_error(error)}"
        ) from None


def write_evidence_plots(report: CheckReport, sources: Sequence[Source], folder: str) -> tuple[str, ...]:
    """Write a plot, and frames where there are cameras, for every finding that a report lists; and a page of them.

    Args:
        report: The report.
        sources: The datasets of the report, opened again.
        folder: Empty folder to write to.

    Returns:
        Why parts of it could not be drawn, one line each.
    """
    files = tuple(evidence_files(report))
    by_episode: dict[str, list[EvidenceFile]] = defaultdict(list)
    for file in files:
        by_episode[file.listed.episode_id].append(file)
    problems: list[str] = []
    with closing(LocalEngine()) as engine:
        pool = open_check_pool(engine, draw_evidence_plots, any(source.fragile for source in sources))
        for task in _evidence_tasks(sources, folder, by_episode):
            for result in pool.map([task]):
                problems += [str(result)] if isinstance(result, AresError) else result
    write_evidence_page(folder, files)
    return tuple(problems)


def _evidence_tasks(
    sources: Sequence[Source], folder: str, by_episode: dict[str, list[EvidenceFile]]
) -> Iterator[EvidencePlotTask]:
    """Episodes with findings; the search ends with the last of them."""
    for source in sources:
        for item in GuardedItems(source):
            files = by_episode.pop(item.episode_id, None)
            if files:
                load = guard_item_loading(item, source.format, source.folder, source.follow_links).load
                yield EvidencePlotTask(load=load, folder=folder, files=tuple(files))
            if not by_episode:
                return


def draw_evidence_plots(tasks: Sequence[EvidencePlotTask]) -> list[tuple[str, ...] | AresError]:
    """Draw the evidence of some episodes; what cannot be drawn gives a line, or the error of the episode."""
    return [_draw_evidence(task) for task in tasks]


def _draw_evidence(task: EvidencePlotTask) -> tuple[str, ...] | AresError:
    try:
        record = settle_measured_clock(task.load())
        signals = episode_signals(record.episode, record.trajectory)
        problems: list[str] = []
        for file in task.files:
            stem = Path(task.folder) / file.stem
            stem.parent.mkdir(parents=True, exist_ok=True)
            svg = plot_finding(signals, file.listed.finding, file.listed.key)
            stem.with_name(stem.name + ".svg").write_text(svg, encoding="utf-8")
            problems += _write_frames(record.episode, file, stem)
        return tuple(problems)
    except AresError as error:
        return error
    except Exception as error:
        return plugin_fault("the evidence of an episode", error)


def _write_frames(episode: Episode, file: EvidenceFile, stem: Path) -> Iterator[str]:
    try:
        strip = frame_strip(episode, file.listed.finding)
    except MediaError as error:
        yield f"{file.stem}.jpg: {error}"
        return
    if strip:
        stem.with_name(stem.name + ".jpg").write_bytes(strip)
