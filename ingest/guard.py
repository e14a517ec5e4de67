"""Calls into ingesters: an exception of one costs the record at hand, and its error names the ingester."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from ares.episode import Record
from ares.errors import AresError, PluginError, SourceError
from ares.input import (
    call_within,
    call_within_per_file,
    input_budgets,
    limited_memory,
    reading_dataset,
)
from ares.io import describe_os_error
from ares.registry import ingesters, plugin_faults
from ingest.base import Item, Source, failing_item
from ingest.outcome_in_path import propose_outcome

T = TypeVar("T")

# Items that are listed under one deadline: so many, or as many as come in this time.
_MOST_LISTED, _SECONDS_TO_LIST = 64, 0.05


def guarded_item(item: Item, ingester: str, folder: str = "", follow_links: bool = False) -> Item:
    """The item; loading it raises only errors of ARES, and opens no file that a link leads out of `folder`.

    Links may do so where `follow_links` is set.

    An item whose location is not UTF-8 fails when it is loaded: no table can store the path.
    """
    location = item.location.encode("utf-8", "backslashreplace").decode()
    if location != item.location:
        return failing_item(item.episode_id, location, SourceError("file name is not UTF-8", location))
    load = partial(load_guarded, item.load, ingester, item.episode_id, folder, follow_links)
    return Item(episode_id=item.episode_id, location=location, load=load)


def load_guarded(
    load: Callable[[], Record], ingester: str, episode_id: str, folder: str = "", follow_links: bool = False
) -> Record:
    """Read a record.

    Args:
        load: Reads it.
        ingester: Name of the ingester that it belongs to.
        episode_id: Id that its item announced.
        folder: Folder of the dataset, or "" where its ingester does not tell.
        follow_links: Whether links may lead out of it.

    Raises:
        SourceError: It cannot be read, or takes longer than allowed.
        PluginError: The ingester raised something else, or returned no record or that of another episode.
    """
    read = partial(call_within, input_budgets().record_seconds, load)
    record = _guarded(ingester, read, folder, follow_links)
    if not isinstance(record, Record):
        raise PluginError(f"{ingesters.label(ingester)} returned no Record", f"got a {type(record).__name__}")
    if record.episode.episode_id != episode_id:
        raise PluginError(
            f"{ingesters.label(ingester)} returned a record of another episode",
            f"{record.episode.episode_id} in place of {episode_id}",
        )
    return propose_outcome(record)


def guarded_call(ingester: str, call: Callable[[], T], folder: str = "", follow_links: bool = False) -> T:
    """What an ingester returns. Raises its AresError as it is; SourceError or PluginError for anything else.

    The call may add no more memory to the process than the budget, and take as long as a record from one file to the
    next. Links must not lead out of `folder`, unless `follow_links` is set.
    """
    listing = partial(call_within_per_file, input_budgets().record_seconds, call)
    return _guarded(ingester, listing, folder, follow_links)


def _guarded(ingester: str, call: Callable[[], T], folder: str, follow_links: bool) -> T:
    with plugin_faults(ingesters.label(ingester)), limited_memory(), reading_dataset(folder, follow_links):
        try:
            return call()
        except OSError as error:  # a disk or a server that fails is no fault of the ingester
            raise SourceError(
                "file cannot be read", f"{error.filename or ''}: {describe_os_error(error)}"
            ) from error


def guarded_list(source: Source, items: Iterator[Any], listed: list[Any]) -> None:
    """Append the next items of a source, none at its end. Raises as `guarded_call`, without its limit of memory.

    What was listed before an error is in `listed`.
    """
    with plugin_faults(ingesters.label(source.format)), reading_dataset(source.folder, source.follow_links):
        try:
            call_within_per_file(input_budgets().record_seconds, partial(_list, items, listed))
        except OSError as error:
            raise SourceError(
                "file cannot be read", f"{error.filename or ''}: {describe_os_error(error)}"
            ) from error


def _list(items: Iterator[Any], listed: list[Any]) -> None:
    """Append at least one item, and as many as come at once: a deadline for each takes longer than to list it."""
    started = time.monotonic()
    for item in items:
        listed.append(item)
        if len(listed) == _MOST_LISTED or time.monotonic() - started > _SECONDS_TO_LIST:
            return


class GuardedItems:
    """The items of a source, up to the first exception that the ingester raises while it lists them.

    Args:
        source: The source.

    Attributes:
        error: What ended the list early, or None.
        is_exhausted: Whether all items were listed.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.error: AresError | None = None
        self.is_exhausted = False

    def __iter__(self) -> Iterator[Item]:
        items: Iterator[Any] = iter(self._source.items)
        count = 0
        while True:
            listed: list[Any] = []
            error = self._list(items, listed)
            for item in listed:
                fault = self._fault(item, count)
                if fault:
                    self.error = fault
                    return
                count += 1
                yield item
            if error or not listed:
                self.error, self.is_exhausted = error, not error
                return

    def _list(self, items: Iterator[Any], listed: list[Any]) -> AresError | None:
        try:
            guarded_list(self._source, items, listed)
        except (PluginError, SourceError) as error:
            return error
        return None

    def _fault(self, item: Any, count: int) -> AresError | None:
        """Why the list ends before an item, or None."""
        if count == input_budgets().members:
            folder = self._source.folder
            return SourceError("dataset lists more episodes than allowed", f"{folder}: more than {count}")
        if not isinstance(item, Item):
            return PluginError(
                f"{ingesters.label(self._source.format)} listed something that is no Item",
                f"got a {type(item).__name__}",
            )
        return None
