"""Records which files, programs and addresses this process opens, while a test watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_WATCHED = (
    "open",
    "os.",
    "shutil.",
    "glob.",
    "socket.connect",
    "socket.getaddrinfo",
    "subprocess.",
    "urllib.",
)
_HARMLESS = ("os.putenv", "os.unsetenv", "os.walk", "os.fwalk")
# Empty while no test watches: an audit hook cannot be removed.
_recordings: list[list[tuple[str, str]]] = []


def _record(event: str, arguments: tuple[object, ...]) -> None:
    if _recordings and event.startswith(_WATCHED) and event not in _HARMLESS:
        _recordings[-1].append((event, " ".join(map(str, arguments[:2]))))


sys.addaudithook(_record)


@contextmanager
def watch_files() -> Iterator[list[tuple[str, str]]]:
    """What happens inside: events of `sys.audit` with their first arguments."""
    events: list[tuple[str, str]] = []
    _recordings.append(events)
    try:
        yield events
    finally:
        _recordings.remove(events)


def outside(events: Sequence[tuple[str, str]], allowed: Sequence[Path]) -> list[tuple[str, str]]:
    """The opened files that are below none of the allowed folders."""
    folders = tuple(f"{folder}/" for folder in allowed)
    return [
        (event, text)
        for event, text in events
        if event == "open" and text.startswith("/") and not text.startswith(folders)
    ]
