"""Progress: items, rate and time left on standard error, a line at a time where it is no terminal."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Counts towards a total and says so, at most ten times a second on a terminal and every ten seconds elsewhere.

    Args:
        label: What is being done.
        total: Items planned, or None when not known.
        stream: Where to write; None for nowhere.
    """

    def __init__(self, label: str, total: int | None, stream: TextIO | None = sys.stderr) -> None:
        self._label, self._total, self._stream = label, total, stream
        self._start = self._shown = time.monotonic()
        self._done = 0
        self._live = bool(stream and stream.isatty())

    def advance(self, items: int = 1) -> None:
        """Count items that ended, however they ended."""
        self._done += items
        now = time.monotonic()
        if now - self._shown >= (0.1 if self._live else 10.0):
            self._shown = now
            self._write("\r" if self._live else "", "" if self._live else "\n")

    def close(self) -> None:
        """Write the last state, if anything was shown before or it took a second."""
        if time.monotonic() - self._start >= 1.0 or self._shown != self._start:
            self._write("\r" if self._live else "", "\n")

    def line(self) -> str:
        """For example "embed 120/400, 35.2/s, 8 s left"."""
        rate = self._done / max(time.monotonic() - self._start, 1e-9)
        text = f"{self._label} {self._done}" + (f"/{self._total}" if self._total is not None else "")
        left = "" if not self._total or not rate else f", {(self._total - self._done) / rate:.0f} s left"
        return f"{text}, {rate:.1f}/s{left}"

    def _write(self, before: str, after: str) -> None:
        if self._stream:
            clear = "\x1b[K" if self._live else ""
            self._stream.write(f"{before}{self.line()}{clear}{after}")
            self._stream.flush()
