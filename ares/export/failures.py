"""Failures: episodes of a set that are not in its export, each with its reason, counted and listed beside it."""

from __future__ import annotations

from pathlib import Path

from ares.annotation import canonical
from ares.episode import Json
from ares.errors import AresError, MediaError
from ares.jobs.report import Report

NAME = "manifest.failed.jsonl"
_SHOWN = 10


class Failures:
    """Episodes that cannot be exported; with `strict` all of them are looked for before the export is given up.

    Args:
        folder: The export, where a line per episode goes into NAME.
        strict: Whether one failure is one too many.
    """

    def __init__(self, folder: Path, strict: bool) -> None:
        self._file, self._strict = folder / NAME, strict
        self._episodes: set[str] = set()
        self._said: list[str] = []
        self._report = Report()

    def __len__(self) -> int:
        return len(self._episodes)

    @property
    def fatal(self) -> bool:
        """Whether there will be no export, so that nothing more need be written."""
        return self._strict and bool(self._episodes)

    def add(self, episode_id: str, error: AresError) -> None:
        """Leave an episode out; of several things that are wrong with it the first counts."""
        if episode_id in self._episodes:
            return
        self._episodes.add(episode_id)
        self._report.fail(error, episode_id)
        if len(self._said) < _SHOWN:
            self._said.append(f"{episode_id}: {error}")
        line = canonical({"episode_id": episode_id, "reason": error.reason, "detail": error.detail})
        with self._file.open("a", encoding="utf-8", errors="replace") as file:
            file.write(line + "\n")

    def check(self, total: int) -> None:
        """Raises MediaError when a failure is one too many, or every episode failed, with the first ones.

        Args:
            total: Episodes of the set.
        """
        count = len(self._episodes)
        if not self.fatal and count < max(total, 1):
            return
        shown = "; ".join(self._said)
        rest = f"; and more like these, {count} in all" if count > len(self._said) else ""
        reason = "the set cannot be exported whole" if self._strict else "no episode can be exported"
        raise MediaError(reason, f"{count} of {total} episodes fail: {shown}{rest}")

    def tallies(self) -> list[Json]:
        """Reason, count and example of each kind of failure, the most frequent first."""
        found = self._report.to_json()["failures"]
        assert isinstance(found, list)
        return found
