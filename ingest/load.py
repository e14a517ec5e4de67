"""Load: every episode of some sources into a workspace, each planned one kept, already there or failed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ares.episode import Json
from ares.errors import AresError, RequestError, SourceError
from ares.jobs.calm import calmly
from ares.jobs.engine import Engine, Hired, at_work
from ares.jobs.flow import Stage, flow
from ares.jobs.ledger import enter_job
from ares.jobs.pace import Pace
from ares.jobs.process import usable_cores
from ares.jobs.progress import Progress
from ares.jobs.report import Report
from ingest.base import Item, Options, Source
from ingest.batch import Batch, Identity, Load, read_all, reader
from ingest.checked import Checks, mend_checks
from ingest.copied import Media, copying
from ingest.detect import open_sources
from ingest.known import Taken, clash, identify, known_ids, stored
from ingest.write import Told, Writer

if TYPE_CHECKING:
    from ares.workspace import Workspace

# A reader's batch takes about this long, so that there is work for all until the end, yet few messages.
_SECONDS_PER_BATCH = 0.2
_MOST_PER_BATCH = 512
# Processes are worth their start only for what takes longer; see `Source.fragile` for those that always are.
_PATIENCE_SECONDS = 0.25
# So many records take longer in any case.
_MANY = 1_024
_MOST_READERS = 16
_BATCHES_PER_SINK = 4

_Readers = Hired[Load, Batch | Identity]


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
    sources = open_sources(paths, options or Options(), format)
    return load_sources(
        ws, sources, limit=limit, strict=strict, media=media, workers=workers, quiet=quiet, engine=engine
    )


def load_sources(
    ws: Workspace,
    sources: Sequence[Source],
    *,
    limit: int | None = None,
    strict: bool = False,
    media: Media = "reference",
    workers: int | None = None,
    quiet: bool = False,
    engine: Engine | None = None,
) -> Loaded:
    """Ingest datasets that were opened; see `load`, also for what is raised."""
    if media == "copy" and ws.remote:
        raise RequestError(
            "videos cannot be copied to an object store", "ingest by reference, or into a folder"
        )
    started = time.monotonic()
    loaded = Loaded()
    with ws.writing("ares ingest"), at_work(engine) as engine:
        readers = _hire(engine, workers, sources, limit)
        ws.sync()
        ws.tables.episodes.drop_orphans()
        mend_checks(ws)
        checks, left = Checks(ws), limit
        with calmly():
            for source in sources:
                writer = Writer(ws, loaded.report, checks, strict, media)
                left = _load_source(ws, source, writer, left, readers, quiet)
                loaded.copied_bytes += writer.copied_bytes
        checks.close()
        loaded.duplicates = ws.tables.episodes.mark_duplicates()
        ws.sync()
        if loaded.report.kept:
            ws.tables.optimize()
        loaded.report.seconds = time.monotonic() - started
        enter_job(ws.annotations, "ingest", loaded.to_json())
    return loaded


def _hire(engine: Engine, workers: int | None, sources: Sequence[Source], limit: int | None) -> _Readers:
    cores = workers or min(usable_cores(), _MOST_READERS)
    fragile = any(source.fragile for source in sources)
    patience = 0.0 if fragile else _PATIENCE_SECONDS if cores > 1 else None
    readers: _Readers = engine.hire(
        read_all, workers=cores, lost=SourceError, build=reader, patience_seconds=patience
    )
    total = sum(source.total for source in sources)
    if (total if limit is None else min(total, limit)) >= _MANY:
        readers.begin()
    return readers


class _Wanted(NamedTuple):
    """An item that is to be read.

    Attributes:
        item: The item.
        known: Whether it is only to be compared with what is there.
        found: What reading it gave, where that is known already.
    """

    item: Item
    known: bool = False
    found: Batch | Identity | AresError | None = None

    @property
    def load(self) -> Load:
        return partial(identify, self.item.load) if self.known else self.item.load


@dataclass(slots=True)
class _Reading:
    """Items on their way in together, and in the end what became of them."""

    wanted: Sequence[_Wanted]
    told: Sequence[Told] = ()


def _load_source(
    ws: Workspace, source: Source, writer: Writer, left: int | None, readers: _Readers, quiet: bool
) -> int | None:
    for warning in source.warnings:
        writer.report.warn(warning, source.dataset)
    total = source.total if left is None else min(source.total, left)
    progress = Progress(f"ingest {source.dataset}", total, None if quiet else sys.stderr)
    before = writer.report.planned
    pace = Pace(_SECONDS_PER_BATCH, _MOST_PER_BATCH)

    def sink(readings: list[_Reading]) -> None:
        for reading in readings:
            progress.advance(len(reading.told))
            writer.take(reading.told)

    try:
        missing = _missing(ws, source, writer, progress, islice(source.items, left), readers)
        readings = (_Reading(wanted) for wanted in pace.batches(missing))
        reading = Stage("read", partial(_read, ws, readers, pace), workers=readers.workers)
        flow(readings, [reading], sink, sink_batch=_BATCHES_PER_SINK)
    finally:
        writer.close()
        progress.close()
    return None if left is None else left - (writer.report.planned - before)


def _read(ws: Workspace, readers: _Readers, pace: Pace, readings: list[_Reading]) -> None:
    for reading in readings:
        due = [one for one in reading.wanted if one.found is None]
        started = time.monotonic()
        found = iter(readers.run([one.load for one in due]) if due else ())
        pace.took(len(due), time.monotonic() - started)
        there = stored(ws, [one.item.episode_id for one in reading.wanted if one.known])
        reading.told = [_told(one, one.found or next(found), there) for one in reading.wanted]


def _told(wanted: _Wanted, found: Batch | Identity | AresError, there: Mapping[str, Identity]) -> Told:
    if not wanted.known:
        assert not isinstance(found, Identity)
        return Told(wanted.item, found)
    if isinstance(found, Identity):
        return Told(wanted.item, clash(wanted.item, there[wanted.item.episode_id], found))
    return Told(wanted.item, None, "it is there already, but cannot be read here: not compared")


def _missing(
    ws: Workspace,
    source: Source,
    writer: Writer,
    progress: Progress,
    items: Iterator[Item],
    readers: _Readers,
) -> Iterator[_Wanted]:
    """Items to be read; those that are there, in the very file that they came from, are counted as such.

    They are counted as they come: a source may hold more records than it says.
    """
    known, folder, same_place = known_ids(ws, source), ws.folder, None
    seen: set[str] = set()
    while some := list(islice(items, _MOST_PER_BATCH)):
        writer.report.plan(len(some))
        already = 0
        for item in some:
            if item.episode_id in seen:
                twice = Taken("this identity stands twice in the source", item.where)
                yield _Wanted(item, found=twice)
            elif item.episode_id not in known:
                yield _Wanted(copying(item, writer.media, folder))
            elif same_place is None:
                (found,) = readers.run([partial(identify, item.load)])
                same_place = found == stored(ws, [item.episode_id])[item.episode_id]
                already += same_place
                yield from () if same_place else (_Wanted(item, known=True, found=found),)
            elif same_place:
                already += 1
            else:
                yield _Wanted(item, known=True)
            seen.add(item.episode_id)
        writer.report.pass_over(already)
        progress.advance(already)
