"""Plug-ins by kind and name; built-in and third-party ones are entry points, imported when they are used."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ares.errors import RequestError

Plugin = Callable[..., Any]


class Registry:
    """The plug-ins of one kind, by name.

    Args:
        kind: Singular noun for messages ("ingester"); the entry-point group is "ares.<kind>s".
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._added: dict[str, Plugin] = {}
        self._loaded: dict[str, Plugin] = {}

    def add(self, name: str, plugin: Plugin) -> None:
        """Add a plug-in without an entry point (tests, notebooks). Raises RequestError when the name exists."""
        if name in self.names():
            raise RequestError(f"{self.kind} {name!r} exists already", "choose another name")
        self._added[name] = plugin

    def remove(self, name: str) -> None:
        """Remove a plug-in that `add` added; a name that does not exist is ignored."""
        self._added.pop(name, None)

    def names(self) -> list[str]:
        """Return all names, sorted, without importing any plug-in."""
        return sorted({*self._added, *(entry.name for entry in self._entries())})

    def get(self, name: str) -> Plugin:
        """Return the plug-in of that name. Raises RequestError for an unknown or ambiguous name."""
        if name in self._added:
            return self._added[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> Plugin:
        entries = [entry for entry in self._entries() if entry.name == name]
        if len({entry.value for entry in entries}) > 1:
            raise RequestError(
                f"several packages declare the {self.kind} {name!r}",
                ", ".join(entry.value for entry in entries),
            )
        if not entries:
            raise RequestError(f"no {self.kind} {name!r}", f"there are: {', '.join(self.names())}")
        plugin: Plugin = entries[0].load()
        return plugin

    def _entries(self) -> tuple[EntryPoint, ...]:
        return _installed_entry_points(f"ares.{self.kind}s")


@cache
def _installed_entry_points(group: str) -> tuple[EntryPoint, ...]:
    # Reading the metadata of all installed packages takes 10 to 20 ms, too long for every search.
    return tuple(entry_points(group=group))


ingesters = Registry("ingester")
annotators = Registry("annotator")
exporters = Registry("exporter")
encoders = Registry("encoder")
rankers = Registry("ranker")
