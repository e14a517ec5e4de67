"""Finds and names the datasets to ingest, and the stored episodes that their sources lost."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, cast

from ares.clock import LEAST_RATE_SPREAD
from ares.errors import AresError, SourceError
from ares.input import input_budgets, read_yaml
from ares.io import list_folder, parse_path
from ares.jobs import (
    COVERAGE,
    IngestPlan,
    LocalEngine,
    MediaMode,
    PlannedDataset,
    PoolRequest,
    Report,
)
from ares.store import quote_literal
from ares_ingest.base import Item, Source, known_error
from ares_ingest.discovery import (
    DiscoveredData,
    OpenedDataset,
    StoredDataset,
    discover,
    make_ingest_plan,
    stored_datasets,
)
from ares_ingest.guarded_loading import GuardedItems, call_or_error, guard_item_loading
from ares_ingest.pipeline.plan import read_identity, read_stored_identities, stored_ids
from ares_ingest.pipeline.read import (
    FirstRecordSummary,
    RecordIdentity,
    make_record_limits,
    read_records,
    start_record_reader,
    summarise_records,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ares.episode import Json, Record
    from ares.jobs import IngestRequest, WorkerPool
    from ares.store import Stores

    Summarisers = WorkerPool[Callable[[], Record], FirstRecordSummary]


DatasetIdentity = tuple[str, str, str]
# Records of two datasets of one name that are compared; one that is equal proves that they are copies.
_COMPARED_RECORDS = 3
# Items among which records with the same identity are looked for, where two datasets come in one command.
_LISTED_ITEMS = 200
_SUFFIX_DIGITS = 6
# Records of a dataset that a dry run reads; of the others it tells what their listing knows.
_TRIED_RECORDS = 16
_RECORDS_GONE = "episodes stay stored whose records are no longer in the source"
DATASETS_GONE = "episodes stay stored whose dataset is no longer below the path"
# Files by whose name a folder may say what its licence is; beside `features.json` of TensorFlow Datasets it
# may lie in the folder above.
_STATING_FILES = re.compile(
    r"(licen[sc]e|copying|readme|features\.json|.*info\.json|dataset_description\.json).*", re.IGNORECASE
)


@dataclass(slots=True)
class DatasetNamer:
    """Gives datasets different names.

    A dataset that was read from the same folder before keeps its name. Where another dataset has its format, name and
    version already and no compared record is equal, its name gets a suffix: six hex digits of the content of its first
    record. Of several that come together, the one with the smallest suffix keeps the plain name. So neither paths nor
    their order matter.

    Attributes:
        stores: The workspace, or None where there is none yet.
        stored: Its datasets.
    """

    stores: Stores | None
    stored: Sequence[StoredDataset]

    def name_all(self, datasets: Iterable[OpenedDataset]) -> None:
        """Reopen the datasets that need another name."""
        contested: dict[DatasetIdentity, list[OpenedDataset]] = {}
        nameable = [opened for opened in datasets if len(opened.sources) == 1 and opened.sources[0].folder]
        for opened in nameable:
            if opened.options.dataset:
                continue
            name = self._name_before(opened, nameable)
            if name is None:
                contested.setdefault(_dataset_identity(opened.sources[0]), []).append(opened)
            elif name != opened.sources[0].dataset:
                _rename_dataset(opened, name)
        for identity, rivals in contested.items():
            self._settle(identity, rivals)

    def _name_before(self, opened: OpenedDataset, datasets: Sequence[OpenedDataset]) -> str | None:
        """The name under which its folder was read before, or None."""
        source = opened.sources[0]
        names = [
            stored.dataset
            for stored in self.stored
            if (stored.format, stored.version) == (source.format, source.version)
            and (opened.declared or stored.folder in ("", source.folder))
            and _folder_holds(source.folder, stored.source)
            and not any(
                other.format == opened.format
                and len(other.sources[0].folder) > len(source.folder)
                and _folder_holds(other.sources[0].folder, stored.source)
                for other in datasets
                if other is not opened
            )
        ]
        return source.dataset if source.dataset in names else min(names, default=None)

    def _settle(self, identity: DatasetIdentity, rivals: list[OpenedDataset]) -> None:
        known = any((s.format, s.dataset, s.version) == identity for s in self.stored)
        if len(rivals) == 1 and not known:
            return
        suffixes = {id(opened): _content_suffix(opened) for opened in rivals}
        rivals.sort(key=lambda opened: (suffixes[id(opened)], opened.path))
        owner = rivals[0]
        names: dict[int, str] = {}
        for opened in rivals:
            is_same = self._equals_stored(opened) if known else opened is owner or _are_equal(owner, opened)
            names[id(opened)] = identity[1] if is_same else f"{identity[1]}-{suffixes[id(opened)]}"
        for opened in rivals:  # at the end, as comparing used up their items
            name = names[id(opened)]
            _rename_dataset(opened, name)
            if name != identity[1]:
                says = f"other data have the name {identity[1]}: stored as {name}; --dataset NAME names it otherwise"
                opened.sources = [
                    replace(source, warnings=(says, *source.warnings)) for source in opened.sources
                ]

    def _equals_stored(self, opened: OpenedDataset) -> bool:
        """Whether a dataset is a copy of the stored one of its name; also where no record of it can be read."""
        assert self.stores is not None
        source = _fresh_source(opened)
        ids = stored_ids(self.stores, source)
        items = list(
            islice((item for item in GuardedItems(source) if item.episode_id in ids), _COMPARED_RECORDS)
        )
        if not items:
            return False
        identities = [result for result in _read_identities(opened, items) if result is not None]
        if not identities:
            return True
        stored = read_stored_identities(self.stores, [item.episode_id for item in items])
        hashes = {identity.content_hash for identity in stored.values()}
        return any(identity.has_hash(hash) for identity in identities for hash in hashes)


def _dataset_identity(source: Source) -> DatasetIdentity:
    return source.format, source.dataset, source.version


def _folder_holds(folder: str, path: str) -> bool:
    return bool(folder) and path.startswith(folder.rstrip("/") + "/")


def _rename_dataset(opened: OpenedDataset, name: str) -> None:
    opened.reopen(replace(opened.options, dataset=name))


def _fresh_source(opened: OpenedDataset) -> Source:
    return opened.reopen(opened.options)[0]


def _first_items(opened: OpenedDataset, count: int) -> list[Item]:
    return list(islice(GuardedItems(_fresh_source(opened)), count))


def _read_identities(opened: OpenedDataset, items: Sequence[Item]) -> list[RecordIdentity | None]:
    """Identities of records, None for one that cannot be read; fragile files are read by another process."""
    folder = opened.sources[0].folder if opened.sources else ""
    guarded = (guard_item_loading(item, opened.format, folder) for item in items)
    loads = [partial(read_identity, item.load) for item in guarded]
    if not any(source.fragile for source in opened.sources):
        results: Sequence[object] = read_records(loads)
    else:
        with closing(LocalEngine()) as engine:
            readers = engine.pool(
                PoolRequest(
                    read_records,
                    max_workers=1,
                    on_worker_death=SourceError,
                    build=start_record_reader,
                    start_after_seconds=0.0,
                    limits=make_record_limits(),
                )
            )
            results = readers.map(loads)
    return [result if isinstance(result, RecordIdentity) else None for result in results]


def _are_equal(first: OpenedDataset, second: OpenedDataset) -> bool:
    """Whether records of two datasets with the same identity have the same content."""
    by_id = {item.episode_id: item for item in _first_items(first, _LISTED_ITEMS)}
    common = [item for item in _first_items(second, _LISTED_ITEMS) if item.episode_id in by_id]
    common = common[:_COMPARED_RECORDS]
    pairs = zip(
        _read_identities(first, [by_id[item.episode_id] for item in common]),
        _read_identities(second, common),
        strict=True,
    )
    return any(
        identity is not None and other is not None and identity.content_hash == other.content_hash
        for identity, other in pairs
    )


def _content_suffix(opened: OpenedDataset) -> str:
    """Six hex digits of the content of its first record that can be read, else of its file names and sizes."""
    for item in _first_items(opened, _COMPARED_RECORDS):
        (identity,) = _read_identities(opened, [item])
        if identity is not None:
            return identity.content_hash[:_SUFFIX_DIGITS]
    prefix = len(opened.path)
    files = sorted(
        (path[prefix:], name, size)
        for path, entries in opened.listings.items()
        for name, size in entries.files.items()
    )
    return hashlib.blake2b(repr(files).encode(), digest_size=8).hexdigest()[:_SUFFIX_DIGITS]


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


def find_datasets(stores: Stores | None, request: IngestRequest, *, sample: bool = False) -> IngestSources:
    """Find, open and name the datasets at and below the paths of a request.

    Args:
        stores: The workspace, whose datasets keep their names; None where there is none yet.
        request: The paths, and what the user says of the datasets there.
        sample: Whether the first records of each dataset are tried, for what only they tell, and for what fails.

    Raises RequestError, SourceError and PluginError as `ares_ingest.discovery.discover`.
    """
    stored = stored_datasets(stores) if stores else ()
    discovery = discover(request, stored)
    namer = DatasetNamer(stores, stored)
    namer.name_all(discovery.datasets)
    plan = make_ingest_plan(discovery.trees, discovery.datasets, discovery.skipped)
    plan = replace(plan, limit=request.limit)
    if sample:
        plan = replace(plan, datasets=_try_records(plan.datasets, discovery, request.media))
    return IngestSources(
        sources=tuple(source for opened in discovery.datasets for source in opened.sources),
        failed={opened.path: opened.error for opened in discovery.datasets if opened.error is not None},
        plan=plan,
        faults=tuple(discovery.faults.values()),
        paths=tuple(tree.file or str(tree.root) for tree in discovery.trees)
        if request.format == "auto"
        else (),
        stored=tuple(stored),
    )


def _try_records(
    planned: Sequence[PlannedDataset], discovery: DiscoveredData, media: MediaMode
) -> tuple[PlannedDataset, ...]:
    """The datasets with the rate and cameras of their first record, and with the episodes that will fail."""
    by_dataset = {
        (source.format, source.folder or opened.path, source.dataset): source
        for opened in discovery.datasets
        for source in opened.sources
    }
    sources = (by_dataset.get((dataset.format, dataset.path, dataset.dataset)) for dataset in planned)
    with closing(LocalEngine()) as engine:
        # One process for the fragile ones of all datasets: to start it takes longer than to read a few records.
        readers = {is_fragile: _open_summarisers(engine, is_fragile) for is_fragile in (False, True)}
        return tuple(
            dataset
            if source is None
            else _with_tried_records(dataset, source, readers[source.fragile], media)
            for dataset, source in zip(planned, sources, strict=True)
        )


def _open_summarisers(engine: LocalEngine, is_fragile: bool) -> Summarisers:
    return engine.pool(
        PoolRequest(
            summarise_records,
            max_workers=1,
            on_worker_death=SourceError,
            start_after_seconds=0.0 if is_fragile else None,
            limits=make_record_limits(),
        )
    )


def _unread_of_first(results: Sequence[FirstRecordSummary | AresError]) -> tuple[str, ...]:
    """What the source of the first record holds and was not read."""
    return results[0].unread if results and isinstance(results[0], FirstRecordSummary) else ()


def _with_tried_records(
    dataset: PlannedDataset, source: Source, readers: Summarisers, media: MediaMode
) -> PlannedDataset:
    report, listed = Report(), GuardedItems(source)
    tried, others = _choose_tried(islice(listed, max(source.total, _TRIED_RECORDS)))
    results = _summarise_items(source, tried, readers)
    for item, result in zip(tried, results, strict=False):
        if isinstance(result, AresError):
            report.add_failure(result, item.location)
        elif media != "none":
            for camera in result.missing:
                report.add_warning(f"camera {camera} has no pictures", item.location)
    for item in (*tried[len(results) :], *others):
        if (error := known_error(item)) is not None:
            report.add_failure(error, item.location)
    if listed.error is not None:
        report.add_failure(listed.error, f"the rest of {dataset.dataset}")
    fields = report.fields()
    remarks = (*dataset.not_understood, *_unread_of_first(results))
    dataset = replace(
        dataset,
        failures=fields["failures"],
        lost=fields["warnings"],
        not_understood=remarks,
        tables=_describe_tables(source),
    )
    if dataset.rate_hz is not None or not results:
        return dataset
    first = results[0]
    if isinstance(first, AresError):
        return replace(dataset, not_understood=(*dataset.not_understood, f"the first record fails: {first}"))
    rates = _count_rates(read.rate_hz for read in results if not isinstance(read, AresError))
    rate_hz, rates = (first.rate_hz, ()) if len(rates) == 1 else (None, rates)
    return replace(dataset, rate_hz=rate_hz, rates=rates, cameras=dataset.cameras or first.cameras)


def _describe_tables(source: Source) -> tuple[str, ...]:
    lines = call_or_error(lambda: tuple(source.describe_tables()), f"the tables of {source.dataset}")
    return (str(lines),) if isinstance(lines, AresError) else lines


def _count_rates(rates: Iterable[float]) -> tuple[tuple[float, int], ...]:
    """Rates with how many records have them, the most frequent first; the middle one stands for those that are near."""
    groups = list[list[float]]()
    for rate in sorted(rates):
        if groups and rate <= groups[-1][0] * (1 + LEAST_RATE_SPREAD):
            groups[-1].append(rate)
        else:
            groups.append([rate])
    groups.sort(key=len, reverse=True)
    return tuple((group[len(group) // 2], len(group)) for group in groups)


def _choose_tried(items: Iterator[Item]) -> tuple[list[Item], list[Item]]:
    """The items to try, the first ones and others from all of the dataset, and those of the rest known to fail."""
    first = list(islice(items, _TRIED_RECORDS // 2))
    spread, left, step = list[Item](), list[Item](), 1
    for number, item in enumerate(items):
        if number % step:
            left += [item] if known_error(item) is not None else ()
            continue
        spread.append(item)
        if len(spread) > _TRIED_RECORDS // 2:
            left += [other for other in spread[1::2] if known_error(other) is not None]
            spread, step = spread[::2], step * 2
    return [*first, *spread], left


def _summarise_items(
    source: Source, items: Sequence[Item], readers: Summarisers
) -> list[FirstRecordSummary | AresError]:
    """What records say, or their errors; the last ones are left out where all together take as long as one may."""
    started, results = time.monotonic(), list[FirstRecordSummary | AresError]()
    for item in items:
        load = guard_item_loading(item, source.format, source.folder).load
        results += readers.map([load])
        if time.monotonic() - started >= input_budgets().record_seconds:
            break
    return results


def warn_of_missing_records(
    stores: Stores, source: Source, missing_ids: Collection[str], counts: Report
) -> None:
    """Warn of stored episodes that were read from the folder of a source and are no longer listed by it.

    Args:
        stores: The workspace.
        source: The source; all of it was listed.
        missing_ids: Stored episodes of its dataset that it did not list.
        counts: Where the warning is counted.
    """
    if not missing_ids or not source.folder:
        return
    where = f"format = {quote_literal(source.format)} AND dataset = {quote_literal(source.dataset)}"
    ids = set(missing_ids)
    for batch in stores.tables.episodes.scan(["episode_id", "source"], where):
        for episode_id, path in zip(
            batch["episode_id"].to_pylist(), batch["source"].to_pylist(), strict=True
        ):
            if episode_id in ids and _lies_at(path, source.folder):
                counts.add_warning(_RECORDS_GONE, f"{episode_id}, read from {path}")


def warn_of_missing_datasets(
    stores: Stores,
    stored: Sequence[StoredDataset],
    sources: Sequence[Source],
    paths: Sequence[str],
    counts: Report,
) -> None:
    """Warn of stored datasets that were read from below the paths and of which nothing was there this time.

    How much of them is covered says so too.
    """
    present = {(source.format, source.dataset, source.version) for source in sources}
    for dataset in stored:
        identity = (dataset.format, dataset.dataset, dataset.version)
        if identity in present or not any(_lies_at(dataset.source, path) for path in paths):
            continue
        columns = dict(zip(("format", "dataset", "version"), identity, strict=True))
        where = " AND ".join(f"{name} = {quote_literal(value)}" for name, value in columns.items())
        coverage = cast(
            "dict[str, Json]", stores.annotations.get_document(COVERAGE, "/".join(identity)) or {}
        )
        nothing: dict[str, Json] = {**coverage, **columns, "listed": 0, "failed": 0}
        stores.annotations.put_documents(COVERAGE, {"/".join(identity): nothing})
        counts.add_warning(
            DATASETS_GONE,
            f"{dataset.dataset}, read from {dataset.source}",
            stores.tables.episodes.count(where),
        )


def _lies_at(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def describe_source(source: Source, earlier: Mapping[str, Json]) -> dict[str, Json]:
    """Where a dataset lies, what it was read with, and what it states of licence and consent; for its document.

    Args:
        source: The dataset; without a folder nothing is known of it.
        earlier: What an earlier ingestion stored; its options stay where this one was told none.
    """
    if not source.folder:
        return dict(earlier)
    facts: dict[str, Json] = {"folder": source.folder}
    if source.stated:
        options = source.options
        spec: Json = read_yaml(options.spec) if options.spec else {}
        facts["options"] = {"rate_hz": options.rate_hz, "cameras": options.cameras, "spec": spec}
    elif "options" in earlier:
        facts["options"] = earlier["options"]
    spec = cast("dict[str, Json]", facts.get("options", {})).get("spec")
    entries = list_folder(parse_path(source.folder))
    may_state = "meta" in entries.folders or any(map(_STATING_FILES.fullmatch, entries.files))
    if spec or may_state or entries.error:  # a single file cannot be listed
        from ares_ingest.licences import read_stated_facts

        facts |= read_stated_facts(source.folder, cast("Mapping[str, Json]", spec or {}))
    return facts
