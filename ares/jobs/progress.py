"""How a job shows its progress, on a terminal and elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, TextIO

from ares.console import is_quiet, showing_progress, visible

if TYPE_CHECKING:
    import rich.progress


ProgressWatcher = Callable[[str, int, int | None], None]
_watchers: list[ProgressWatcher] = []


def watch_progress(watcher: ProgressWatcher) -> None:
    """Let a function hear, from any thread, what every `Progress` of this process counts: label, done and total."""
    _watchers.append(watcher)


# As after any silence, see `ares.console`.
LINE_SECONDS = 10.0
_BAR_SECONDS = 0.1
# A job that takes longer than this gets a bar, also before its first item.
_BAR_START_SECONDS = 1.0
# Columns of a terminal from which there is room for the bar itself, and for rate and time left beside the counts.
_WIDE, _MEDIUM = 80, 50
_REFRESHES_PER_SECOND = 4


class Progress:
    """Counts items towards a total and shows count, rate and time left. Safe to update from threads.

    On a terminal it draws a bar; elsewhere it writes a line every ten seconds, also while one item takes longer. A
    total that is passed was wrong, and is shown no more.

    Args:
        label: What is being done.
        total: Items planned, or None when not known.
        stream: Where to write; None for nowhere.
    """

    def __init__(self, label: str, total: int | None, stream: TextIO | None = sys.stderr) -> None:
        self._label, self._total = visible(label), total
        self._stream = None if is_quiet() else stream
        self._started_at = self._shown_at = time.monotonic()
        self._done = 0
        self._is_terminal = bool(self._stream and self._stream.isatty())
        self._bar: _Bar | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._stack = ExitStack()
        if self._stream:
            self._stack.enter_context(showing_progress())
            threading.Thread(target=self._keep_showing, name="progress", daemon=True).start()

    def advance(self, items: int = 1) -> None:
        """Count items that ended, whether they succeeded or failed."""
        with self._lock:
            self._done += items
            for watcher in _watchers:
                watcher(self._label, self._done, self._known_total())
            self._show_if_due(_BAR_SECONDS if self._is_terminal else LINE_SECONDS)

    def close(self) -> None:
        """Show the last state, if anything was shown before or the job took a second."""
        self._closed.set()
        self._stack.close()
        with self._lock:
            if time.monotonic() - self._started_at >= 1.0 or self._shown_at != self._started_at:
                self._show()
            if self._bar:
                self._bar.close()
                self._bar = None

    def line(self) -> str:
        """For example "embed 120/400, 35.2/s, 8 s left"."""
        rate, total = self._rate(), self._known_total()
        text = f"{self._label} {self._done}" + (f"/{total}" if total is not None else "")
        remaining = "" if not total or not rate else f", {(total - self._done) / rate:.0f} s left"
        return f"{text}, {rate:.1f}/s{remaining}"

    def _known_total(self) -> int | None:
        return None if self._total is None or self._done > self._total else self._total

    def _keep_showing(self) -> None:
        """Show a job again in which nothing was counted for long."""
        seconds = _BAR_START_SECONDS if self._is_terminal else LINE_SECONDS
        while not self._closed.wait(max(0.0, self._shown_at + seconds - time.monotonic())):
            with self._lock:
                if not self._closed.is_set():
                    self._show_if_due(seconds)

    def _show_if_due(self, seconds: float) -> None:
        now = time.monotonic()
        if now - self._shown_at >= seconds:
            self._shown_at = now
            self._show()

    def _rate(self) -> float:
        return self._done / max(time.monotonic() - self._started_at, 1e-9)

    def _show(self) -> None:
        if not self._stream:
            return
        # A full disk or a closed terminal must not end a job: its answer says what was done.
        with suppress(OSError, ValueError):
            if self._is_terminal:
                self._bar = self._bar or _Bar(self._label, self._total, self._stream)
                self._bar.update(self._done, self._known_total(), self._rate())
            else:
                self._stream.write(f"{self.line()}\n")
                self._stream.flush()


class _Bar:
    """A progress bar of rich, which is imported only here: label, bar, count, rate, time left."""

    def __init__(self, label: str, total: int | None, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import Progress

        # Warnings on standard error appear above the bar; standard output belongs to the command's answer.
        console = Console(file=stream)
        self._progress = Progress(
            *_bar_columns(console.width),
            console=console,
            redirect_stdout=False,
            refresh_per_second=_REFRESHES_PER_SECOND,
        )
        self._task = self._progress.add_task(label, total=total, rate=0.0)
        self._progress.start()

    def update(self, done: int, total: int | None, rate: float) -> None:
        self._progress.update(self._task, completed=done, rate=rate)
        self._progress.tasks[0].total = total  # the update takes None for no change

    def close(self) -> None:
        self._progress.stop()


def _bar_columns(width: int) -> list[rich.progress.ProgressColumn]:
    """Columns of a bar for a terminal of that width: a narrow one has no bar, a very narrow one only the counts."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    label = TextColumn("{task.description}", markup=False)
    timing = [
        TextColumn("{task.fields[rate]:.1f}/s"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    ]
    if width < _MEDIUM:
        return [label, MofNCompleteColumn()]
    if width < _WIDE:
        return [label, MofNCompleteColumn(), *timing]
    return [label, BarColumn(), MofNCompleteColumn(), *timing, TimeElapsedColumn()]
