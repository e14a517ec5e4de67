"""Episodes that were left out of an export, with their reasons: counted, and listed in a file of the export."""

from __future__ import annotations

from pathlib import Path

from ares.annotation import canonical_json
from ares.episode import Json
from ares.errors import AresError, MediaError
from ares.jobs import Report

FAILURES_FILE = "manifest.failed.jsonl"
_MAX_LISTED = 10


class ExportFailures:
    """Episodes that cannot be exported; with `strict` the export fails, after all of them have been collected.

    Args:
        folder: The export, where FAILURES_FILE gets a line per episode.
        strict: Whether any failure ends the export.
    """

    def __init__(self, folder: Path, strict: bool) -> None:
        self._file, self._strict = folder / FAILURES_FILE, strict
        self._episode_ids: set[str] = set()
        self._messages: list[str] = []
        self._report = Report()

    def __len__(self) -> int:
        return len(self._episode_ids)

    @property
    def fatal(self) -> bool:
        """Whether the export will fail, so that nothing more has to be written."""
        return self._strict and bool(self._episode_ids)

    def add(self, episode_id: str, error: AresError) -> None:
        """Leave an episode out; of several errors of one episode the first counts."""
        if episode_id in self._episode_ids:
            return
        self._episode_ids.add(episode_id)
        self._report.add_failure(error, episode_id)
        if len(self._messages) < _MAX_LISTED:
            self._messages.append(f"{episode_id}: {error}")
        line = canonical_json({"episode_id": episode_id, "reason": error.reason, "detail": error.detail})
        with self._file.open("a", encoding="utf-8", errors="replace") as file:
            file.write(line + "\n")

    def check(self, total: int) -> None:
        """Raise MediaError, with the first failures, when every episode failed or with `strict` any.

        Args:
            total: Episodes of the set.
        """
        count = len(self._episode_ids)
        if not self.fatal and count < max(total, 1):
            return
        listed = "; ".join(self._messages)
        rest = f"; and more, {count} in all" if count > len(self._messages) else ""
        reason = (
            "not every episode of the set can be exported" if self._strict else "no episode can be exported"
        )
        raise MediaError(reason, f"{count} of {total} episodes fail: {listed}{rest}")

    def tallies(self) -> list[Json]:
        """Reason, count and example of each kind of failure, the most frequent first."""
        failures = self._report.to_json()["failures"]
        assert isinstance(failures, list)
        return failures
