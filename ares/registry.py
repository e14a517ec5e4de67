"""Registry: names to plug-ins; ours and guests' enter by the same entry points and load only when asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ares.errors import RequestError

Plugin = Callable[..., Any]


class Registry:
    """The plug-ins of one kind, found by name.

    Args:
        kind: Singular noun for messages ("ingester"); the entry-point group is "ares.<kind>s".
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._added: dict[str, Plugin] = {}

    def add(self, name: str, plugin: Plugin) -> None:
        """Enter a plug-in by hand (tests, notebooks). Raises RequestError when the name is taken."""
        if name in self.names():
            raise RequestError(f"{self.kind} {name!r} is there already", "choose another name")
        self._added[name] = plugin

    def remove(self, name: str) -> None:
        """Take out a plug-in that `add` entered; a name that is not there is no error."""
        self._added.pop(name, None)

    def names(self) -> list[str]:
        """All names, sorted; nothing is imported for this."""
        return sorted({*self._added, *(entry.name for entry in self._entries())})

    def get(self, name: str) -> Plugin:
        """The plug-in of that name. Raises RequestError for an unknown name or one claimed twice."""
        if name in self._added:
            return self._added[name]
        found = [entry for entry in self._entries() if entry.name == name]
        if len({entry.value for entry in found}) > 1:
            raise RequestError(
                f"{self.kind} {name!r} is claimed twice", ", ".join(entry.value for entry in found)
            )
        if not found:
            raise RequestError(f"no {self.kind} {name!r}", f"there are: {', '.join(self.names())}")
        plugin: Plugin = found[0].load()
        return plugin

    def _entries(self) -> tuple[EntryPoint, ...]:
        return tuple(entry_points(group=f"ares.{self.kind}s"))


ingesters = Registry("ingester")
annotators = Registry("annotator")
exporters = Registry("exporter")
encoders = Registry("encoder")
