"""Items and lists of ingesters, loaded so that a fault of theirs costs one item."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from ares.episode import Record
from ares.errors import AresError, PluginError, SourceError
from ares.input import (
    call_with_file_time_limit,
    call_with_time_limit,
    input_budgets,
    limited_memory,
    refuse_outside_links,
)
from ares.io import (
    describe_os_error,
)
from ares.registry import ingesters, plugin_fault, plugin_faults
from ares_ingest.base import Item, Source, T, failing_item
from ares_ingest.path_outcome import add_outcome_of_path

# What `make_episode_id` returns.
_EPISODE_ID = re.compile("[0-9a-f]{16}")

# Items that are listed under one deadline: so many, or as many as come in this time.
_MOST_LISTED, _SECONDS_TO_LIST = 64, 0.05


def guard_item_loading(item: Item, ingester: str, folder: str = "") -> Item:
    """The item; loading it raises only errors of ARES, and opens no file that a link leads out of `folder`.

    An item whose location is not UTF-8 fails when it is loaded: no table can store the path.
    """
    location = item.location.encode("utf-8", "backslashreplace").decode()
    if location != item.location:
        return failing_item(item.episode_id, location, SourceError("file name is not UTF-8", location))
    load = partial(load_item_safely, item.load, ingester, item.episode_id, folder)
    return replace(item, location=location, load=load)


def load_item_safely(load: Callable[[], Record], ingester: str, episode_id: str, folder: str = "") -> Record:
    """Read a record.

    Args:
        load: Reads it.
        ingester: Name of the ingester that it belongs to.
        episode_id: Id that its item announced.
        folder: Folder of the dataset, or "" where its ingester does not tell.

    Raises:
        SourceError: It cannot be read, or takes longer than allowed.
        PluginError: The ingester raised something else, or returned no record or that of another episode.
    """
    read = partial(call_with_time_limit, input_budgets().record_seconds, load)
    record = _call_guarded(ingester, read, folder)
    if not isinstance(record, Record):
        raise PluginError(f"{ingesters.label(ingester)} returned no Record", f"got a {type(record).__name__}")
    if record.episode.episode_id != episode_id:
        raise PluginError(
            f"{ingesters.label(ingester)} returned a record of another episode",
            f"{record.episode.episode_id} in place of {episode_id}",
        )
    return add_outcome_of_path(record)


def call_or_error(call: Callable[[], T], label: str) -> T | AresError:
    """What a call returns, or its error; a disk or a server that fails costs only what was read from it.

    Args:
        call: The call.
        label: What it does, for the message of a fault.
    """
    try:
        return call()
    except AresError as error:
        return error
    except OSError as error:
        return SourceError("file cannot be read", f"{error.filename or ''}: {describe_os_error(error)}")
    except Exception as error:
        return plugin_fault(label, error)


def call_ingester_safely(ingester: str, call: Callable[[], T], folder: str = "") -> T:
    """What an ingester returns. Raises its AresError as it is; SourceError or PluginError for anything else.

    The call may add no more memory to the process than the budget, and take as long as a record from one file to the
    next. Links must not lead out of `folder`.
    """
    listing = partial(call_with_file_time_limit, input_budgets().record_seconds, call)
    return _call_guarded(ingester, listing, folder)


def _call_guarded(ingester: str, call: Callable[[], T], folder: str, *, limits_memory: bool = True) -> T:
    with (
        plugin_faults(ingesters.label(ingester)),
        limited_memory() if limits_memory else nullcontext(),
        refuse_outside_links(folder),
    ):
        try:
            return call()
        except OSError as error:  # a disk or a server that fails is no fault of the ingester
            raise SourceError(
                "file cannot be read", f"{error.filename or ''}: {describe_os_error(error)}"
            ) from error


def append_items_safely(source: Source, items: Iterator[Any], listed: list[Any]) -> None:
    """Append the next items of a source, none at its end. Raises as `call_ingester_safely`, without its limit.

    What was listed before an error is in `listed`.
    """
    listing = partial(_list_available_items, items, listed)
    limited = partial(call_with_file_time_limit, input_budgets().record_seconds, listing)
    _call_guarded(source.format, limited, source.folder, limits_memory=False)


def _list_available_items(items: Iterator[Any], listed: list[Any]) -> None:
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
                if isinstance(fault, AresError):
                    self.error = fault
                    return
                count += 1
                yield fault or item
            if error or not listed:
                self.error, self.is_exhausted = error, not error
                return

    def _list(self, items: Iterator[Any], listed: list[Any]) -> AresError | None:
        try:
            append_items_safely(self._source, items, listed)
        except (PluginError, SourceError) as error:
            return error
        return None

    def _fault(self, item: Any, count: int) -> AresError | Item | None:
        """Why the list ends before an item, or what stands for an item without an id: one that fails. Else None."""
        if count == input_budgets().members:
            folder = self._source.folder
            return SourceError("dataset lists more episodes than allowed", f"{folder}: more than {count}")
        is_item = isinstance(item, Item)
        if is_item and isinstance(item.episode_id, str) and _EPISODE_ID.fullmatch(item.episode_id):
            return None
        label = ingesters.label(self._source.format)
        if not is_item:
            return PluginError(f"{label} listed something that is no Item", f"got a {type(item).__name__}")
        error = PluginError(
            f"{label} listed an Item without an id",
            f"{item.location}: got {item.episode_id!r}; use make_episode_id, or make it a FileIngester",
        )
        return failing_item("", f"{item.location}", error)
