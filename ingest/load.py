"""Load: every episode of some sources into a workspace, each planned one kept, already there or failed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from ares.episode import Json
from ares.errors import AresError, RequestError, SourceError
from ares.jobs.engine import Engine, Hired, at_work
from ares.jobs.flow import Stage, flow
from ares.jobs.ledger import enter_job
from ares.jobs.pace import Pace
from ares.jobs.process import usable_cores
from ares.jobs.progress import Progress
from ares.jobs.report import Report
from ingest.base import Item, Options, Source
from ingest.batch import Load, Row, read_all, reader
from ingest.checked import mend_checks
from ingest.copied import Media, copying
from ingest.detect import open_sources
from ingest.write import Reading, Writer

if TYPE_CHECKING:
    from ares.workspace import Workspace

# A reader's batch takes about this long, so that there is work for all until the end, yet few messages.
_SECONDS_PER_BATCH = 0.2
_MOST_PER_BATCH = 512
# Processes are worth their start only for what takes longer; see `Source.fragile` for those that always are.
_PATIENCE_SECONDS = 0.25
_MOST_READERS = 16
_BATCHES_PER_SINK = 4

_Readers = Hired[Load, Row]


@dataclass(slots=True)
class Loaded:
    """What an ingestion did.

    Attributes:
        report: Every planned record, counted once.
        duplicates: Records in the workspace whose content stands there under an earlier identity too.
        copied_bytes: Bytes of the videos written into the workspace.
    """

    report: Report = field(default_factory=Report)
    duplicates: int = 0
    copied_bytes: int = 0

    def to_json(self) -> dict[str, Json]:
        """The document of `ares ingest --json`."""
        return {
            **self.report.to_json(),
            "duplicates": self.duplicates,
            "copied_bytes": self.copied_bytes,
        }


def load(
    ws: Workspace,
    paths: Sequence[str],
    options: Options | None = None,
    *,
    format: str = "auto",
    limit: int | None = None,
    strict: bool = False,
    media: Media = "reference",
    workers: int | None = None,
    quiet: bool = False,
    engine: Engine | None = None,
) -> Loaded:
    """Ingest every dataset found at the paths.

    Args:
        ws: Where to.
        paths: Folders or files.
        options: Dataset name and rate given by the user.
        format: Ingester name, or "auto".
        limit: Most records to plan, over all paths.
        strict: Stop at the first record that fails.
        media: "reference" leaves pixels where they are; "copy" makes videos of them in the workspace.
        workers: Processes that read on this machine; as many as there are cores by default.
        quiet: Show no progress.
        engine: Where records are read; here by default.

    Raises:
        RequestError: A path is no dataset, or the format is unknown; nothing was read.
        SourceError: A record failed and `strict` was asked.
        DiskFull: There is no room left for the copies; what is written is kept.
    """
    started = time.monotonic()
    if media == "copy" and ws.remote:
        raise RequestError(
            "videos cannot be copied to an object store", "ingest by reference, or into a folder"
        )
    sources = open_sources(paths, options or Options(), format)
    loaded = Loaded()
    with ws.writing("ares ingest"), at_work(engine) as engine:
        ws.sync()
        ws.tables.episodes.drop_orphans()
        mend_checks(ws)
        left = limit
        readers = _hire(engine, workers, any(source.fragile for source in sources))
        for source in sources:
            writer = Writer(ws, loaded.report, strict, media)
            left = _load_source(ws, source, writer, left, readers, quiet)
            loaded.copied_bytes += writer.copied_bytes
        loaded.duplicates = ws.tables.episodes.mark_duplicates()
        ws.sync()
        if loaded.report.kept:
            ws.tables.optimize()
        loaded.report.seconds = time.monotonic() - started
        enter_job(ws.annotations, "ingest", loaded.to_json())
    return loaded


def _hire(engine: Engine, workers: int | None, fragile: bool) -> _Readers:
    cores = min(usable_cores(), _MOST_READERS)
    patience = 0.0 if fragile else _PATIENCE_SECONDS if (workers or cores) > 1 else None
    return engine.hire(
        read_all, workers=workers or cores, lost=SourceError, build=reader, patience_seconds=patience
    )


def _load_source(
    ws: Workspace, source: Source, writer: Writer, left: int | None, readers: _Readers, quiet: bool
) -> int | None:
    for warning in source.warnings:
        writer.report.warn(warning, source.dataset)
    total = source.total if left is None else min(source.total, left)
    progress = Progress(f"ingest {source.dataset}", total, None if quiet else sys.stderr)
    before = writer.report.planned
    # Counted as they come: a source may hold more records than it says.
    items = _planned(writer.report, islice(source.items, left))
    pace = Pace(_SECONDS_PER_BATCH, _MOST_PER_BATCH)

    def sink(batches: list[list[Reading]]) -> None:
        for batch in batches:
            progress.advance(len(batch))
            writer.take(batch)

    try:
        missing = _missing(ws, source, writer, progress, items)
        reading = Stage("read", partial(_read, readers, pace), workers=readers.workers)
        flow(pace.batches(missing), [reading], sink, sink_batch=_BATCHES_PER_SINK)
    finally:
        writer.flush()
        progress.close()
    return None if left is None else left - (writer.report.planned - before)


def _planned(report: Report, items: Iterator[Item]) -> Iterator[Item]:
    for item in items:
        report.plan(1)
        yield item


def _read(readers: _Readers, pace: Pace, batches: list[list[Reading]]) -> None:
    for batch in batches:
        due = [reading for reading in batch if reading.error is None]
        started = time.monotonic()
        found = readers.run([reading.item.load for reading in due]) if due else ()
        pace.took(len(due), time.monotonic() - started)
        for reading, one in zip(due, found, strict=True):
            if isinstance(one, AresError):
                reading.error = one
            else:
                reading.row = one


def _missing(
    ws: Workspace, source: Source, writer: Writer, progress: Progress, items: Iterator[Item]
) -> Iterator[Reading]:
    """Items that the workspace lacks; the others are counted as already there, if they are the same records."""
    clauses = {"format": source.format, "dataset": source.dataset, "version": source.version}
    known = ws.tables.episodes.ids(
        " AND ".join(f"{name} = {_quoted(value)}" for name, value in clauses.items())
    )
    folder, same_place = ws.folder, None
    seen: set[str] = set()
    for item in items:
        if item.episode_id in seen:
            yield Reading(item, error=SourceError("this identity stands twice in the source", item.where))
            continue
        seen.add(item.episode_id)
        if item.episode_id not in known:
            yield Reading(copying(item, writer.media, folder))
            continue
        if same_place is None:
            same_place = _same_place(ws, item)
        clash = None if same_place else _clash(ws, item)
        if clash:
            yield Reading(item, error=clash)
        else:
            writer.report.already += 1
            progress.advance()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _same_place(ws: Workspace, item: Item) -> bool:
    """Whether the stored episode was read from the very file that the item is in now, unchanged."""
    return _clash(ws, item) is None and ws.episode(item.episode_id).source == _source_of(item)


def _source_of(item: Item) -> str:
    try:
        return item.load().episode.source
    except AresError:
        return ""


def _clash(ws: Workspace, item: Item) -> AresError | None:
    """Why the item is not the stored episode of the same identity, or None when it is (or cannot be read)."""
    try:
        record = item.load()
    except AresError:
        return None
    stored = ws.episode(item.episode_id)
    if stored.content_hash == record.episode.content_hash:
        return None
    return SourceError(
        "another record has this identity already",
        f"{item.where} differs from {stored.source}; give it a name of its own with --dataset NAME",
    )
