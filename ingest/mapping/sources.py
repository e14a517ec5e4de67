"""Opens the dataset of any ingester with the spec of the user."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ares.episode import Record
from ares.errors import AresError, PluginError, SourceError
from ingest.base import MISSING, Ingester, IngestOptions, Item, Source
from ingest.guard import guarded_call
from ingest.mapping.apply import apply_spec, check_spec
from ingest.stated_contract import stated_contract, stated_kinematics

if TYPE_CHECKING:
    from ingest.dataset_spec import DatasetSpec

# Records that are tried, until one can be read and tells what the dataset holds.
TRIED_RECORDS = 5


def open_with_spec(ingester: Ingester, path: str, options: IngestOptions) -> list[Source]:
    """What an ingester opens at a path, read as the spec of the user says.

    An ingester with a `show_spec` of its own applies the spec itself.

    Raises SourceError where the spec does not fit the first record that can be read.
    """
    if not options.spec or ingester.show_spec is not None:
        return ingester.open(path, options)
    from ingest.dataset_spec import read_spec

    spec = read_spec(Path(options.spec))
    sets_rate = options.rate_hz is None and spec.rate_hz is not None
    sources = ingester.open(path, replace(options, rate_hz=spec.rate_hz if sets_rate else options.rate_hz))
    if len(sources) > 1:
        raise SourceError("one spec for several datasets", f"{options.spec} for {len(sources)} under {path}")
    return [_map_source(source, spec, sets_rate, options.follow_links) for source in sources]


def _map_source(source: Source, spec: DatasetSpec, sets_rate: bool, follow_links: bool) -> Source:
    items = iter(source.items)
    first_items = list(itertools.islice(items, TRIED_RECORDS))
    record, errors = first_record(source.format, first_items, source.folder, follow_links)
    if record is not None:
        check_spec(record, spec)
    for error in errors if record is None else ():
        if isinstance(error, SourceError) and error.reason == MISSING:
            raise error
    return replace(
        source,
        contract=stated_contract(spec),
        kinematics=stated_kinematics(spec),
        items=_map_items(itertools.chain(first_items, items), spec, sets_rate),
        warnings=(*source.warnings, *(fault for fault in spec.faults if fault not in source.warnings)),
    )


def _map_items(items: Iterator[Item], spec: DatasetSpec, sets_rate: bool) -> Iterator[Item]:
    for item in items:
        yield replace(item, load=functools.partial(load_with_spec, item.load, spec, sets_rate))


def load_with_spec(load: Callable[[], Record], spec: DatasetSpec, sets_rate: bool) -> Record:
    """Read a record and apply the spec. Raises SourceError as both do."""
    return apply_spec(load(), spec, sets_rate=sets_rate)


def first_record(
    ingester: str, items: list[Item], folder: str, follow_links: bool = False
) -> tuple[Record | None, list[AresError]]:
    """The first record that can be read, None where none of the first few can; and the errors of those before it."""
    errors: list[AresError] = []
    for item in items[:TRIED_RECORDS]:
        try:
            return guarded_call(ingester, item.load, folder, follow_links), errors
        except (SourceError, PluginError) as error:
            errors.append(error)  # the ingestion reports it
    return None, errors
