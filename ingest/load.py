"""Load: every episode of some sources into a workspace, each planned one kept, already there or failed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from ares.episode import Json, Record
from ares.errors import AresError, DiskFull, RequestError, SourceError
from ares.files import words
from ares.jobs.engine import Engine, Hired, at_work
from ares.jobs.flow import Stage, flow
from ares.jobs.ledger import Ledger, enter_job
from ares.jobs.progress import Progress
from ares.jobs.report import Report
from ares.media.stamp import stamped
from ingest.base import Item, Options, Source
from ingest.check import Finding
from ingest.checked import enter_checks, mend_checks
from ingest.copied import Media, copied_bytes, copying
from ingest.detect import open_sources

if TYPE_CHECKING:
    from ares.workspace import Workspace

# One write of the tables per this many steps: few and large, yet a killed run loses little.
_STEPS_PER_WRITE = 200_000
_EPISODES_PER_WRITE = 2_000
_SECONDS_PER_WRITE = 30.0
# Python parses one record at a time; a second thread reads ahead, more only wait for each other (measured).
_READERS = 2

_Load = Callable[[], Record]
_Readers = Hired[_Load, Record]


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


@dataclass(slots=True)
class _Reading:
    """An item on its way in."""

    item: Item
    record: Record | None = None
    error: AresError | None = None


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
        workers: Threads that read on this machine; when left out, two, or one per core to copy.
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
        workers = workers or (_READERS if media == "reference" else os.cpu_count() or 1)
        readers: _Readers = engine.hire(_load_all, workers=workers, lost=SourceError)
        for source in sources:
            writer = _Writer(ws, loaded, strict, media)
            left = _load_source(ws, source, writer, left, readers, quiet)
        loaded.duplicates = ws.tables.episodes.mark_duplicates()
        ws.sync()
        if loaded.report.kept:
            ws.tables.optimize()
        loaded.report.seconds = time.monotonic() - started
        enter_job(ws.annotations, "ingest", loaded.to_json())
    return loaded


def _load_source(
    ws: Workspace, source: Source, writer: _Writer, left: int | None, readers: _Readers, quiet: bool
) -> int | None:
    for warning in source.warnings:
        writer.report.warn(warning, source.dataset)
    total = source.total if left is None else min(source.total, left)
    progress = Progress(f"ingest {source.dataset}", total, None if quiet else sys.stderr)
    before = writer.report.planned
    # Counted as they come: a source may hold more records than it says.
    items = _planned(writer.report, islice(source.items, left))

    def sink(batch: list[_Reading]) -> None:
        progress.advance(len(batch))
        writer.take(batch)

    try:
        reading = Stage("read", partial(_read, readers), batch=8, workers=readers.workers)
        flow(_missing(ws, source, writer, progress, items), [reading], sink)
    finally:
        writer.flush()
        progress.close()
    return None if left is None else left - (writer.report.planned - before)


def _planned(report: Report, items: Iterator[Item]) -> Iterator[Item]:
    for item in items:
        report.plan(1)
        yield item


def _read(readers: _Readers, batch: list[_Reading]) -> None:
    due = [reading for reading in batch if reading.error is None]
    found = readers.run([reading.item.load for reading in due]) if due else ()
    for reading, one in zip(due, found, strict=True):
        if isinstance(one, AresError):
            reading.error = one
        else:
            reading.record = one


def _load_all(loads: Sequence[_Load]) -> list[Record | AresError]:
    return [_load(load) for load in loads]


def _load(load: _Load) -> Record | AresError:
    try:
        return stamped(load())
    except AresError as error:
        return error
    except OSError as error:  # a disk or a server that fails in the middle costs what it was asked for
        return SourceError("file cannot be read", f"{error.filename or ''}: {words(error)}")


def _missing(
    ws: Workspace, source: Source, writer: _Writer, progress: Progress, items: Iterator[Item]
) -> Iterator[_Reading]:
    """Items that the workspace lacks; the others are counted as already there, if they are the same records."""
    clauses = {"format": source.format, "dataset": source.dataset, "version": source.version}
    known = ws.tables.episodes.ids(
        " AND ".join(f"{name} = {_quoted(value)}" for name, value in clauses.items())
    )
    same_place: bool | None = None
    seen: set[str] = set()
    for item in items:
        if item.episode_id in seen:
            yield _Reading(item, error=SourceError("this identity stands twice in the source", item.where))
            continue
        seen.add(item.episode_id)
        if item.episode_id not in known:
            yield _Reading(copying(item, writer.media, ws.folder))
            continue
        if same_place is None:
            same_place = _same_place(ws, item)
        clash = None if same_place else _clash(ws, item)
        if clash:
            yield _Reading(item, error=clash)
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


class _Writer:
    """Collects records and writes them in few large batches, counting what became of each."""

    def __init__(self, ws: Workspace, loaded: Loaded, strict: bool, media: Media) -> None:
        self.report = loaded.report
        self.media = media
        self._loaded = loaded
        self._ws = ws
        self._strict = strict
        self._ledger = Ledger(ws.annotations, "ingest")
        self._readings: list[_Reading] = []
        self._failed: dict[str, AresError] = {}
        self._steps = 0
        self._written = time.monotonic()

    def take(self, batch: list[_Reading]) -> None:
        """Accept what was read. Raises the first failure when strict."""
        for reading in batch:
            if reading.record is not None:
                self._readings.append(reading)
                self._steps += reading.record.episode.num_steps
            elif reading.error is not None:
                self._fail(reading.item, reading.error)
        waited = time.monotonic() - self._written > _SECONDS_PER_WRITE
        if waited or self._steps > _STEPS_PER_WRITE or len(self._readings) >= _EPISODES_PER_WRITE:
            self.flush()

    def flush(self) -> None:
        """Write what was collected: signals, episodes, then what was found suspicious about them."""
        readings, self._readings, self._steps = self._readings, [], 0
        records = [reading.record for reading in readings if reading.record]
        if records:
            self._ws.tables.episodes.add(records)
            for reading, record, found in zip(
                readings, records, enter_checks(self._ws, records), strict=True
            ):
                self._count(reading.item, record, found)
        self._ledger.record(self._failed, [reading.item.episode_id for reading in readings])
        self._failed = {}
        self._written = time.monotonic()

    def _count(self, item: Item, record: Record, found: tuple[Finding, ...]) -> None:
        self.report.keep()
        self._loaded.copied_bytes += copied_bytes(record.episode.cameras)
        for reason in dict.fromkeys((*record.warnings, *(finding.reason for finding in found))):
            self.report.warn(reason, item.where)

    def _fail(self, item: Item, error: AresError) -> None:
        self.report.fail(error, item.where)
        self._failed[item.episode_id] = error
        if self._strict or isinstance(error, DiskFull):
            raise error
