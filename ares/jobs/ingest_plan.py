"""What an ingestion finds before it reads: the datasets below the paths, and the use of every file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ares.episode import Json

# Uses of files that were data, or stand for data, and were not read.
_UNREAD = ("unused", "pointer", "unreadable")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDataset:
    """A dataset that was found.

    Attributes:
        path: Its folder or file, absolute, or its URL.
        format: Name of the format.
        dataset: Name that its episodes are stored under.
        version: Its version, or "".
        episodes: Episodes that it should have.
        rate_hz: Recording rate, or None where it is not known before reading, or differs.
        cameras: Names of its cameras; () where they are not known before reading.
        files: Number of its files.
        bytes: Their size.
        not_understood: What the ingester did not understand, or found strange.
        error: Why it cannot be opened, or "".
    """

    path: str
    format: str
    dataset: str
    version: str = ""
    episodes: int = 0
    rate_hz: float | None = None
    cameras: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    not_understood: tuple[str, ...] = ()
    error: str = ""

    def to_json(self) -> dict[str, Json]:
        """One element of `datasets`."""
        return {
            "path": self.path,
            "format": self.format,
            "dataset": self.dataset,
            "version": self.version,
            "episodes": self.episodes,
            "rate_hz": self.rate_hz,
            "cameras": list(self.cameras),
            "files": self.files,
            "bytes": self.bytes,
            "not_understood": list(self.not_understood),
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftFile:
    """A file, or a folder that was not entered, of which no episode was made.

    Attributes:
        path: Absolute path or URL.
        use: "unused", "pointer", "unreadable" or "not_data".
        detail: Why, and what to do.
    """

    path: str
    use: str
    detail: str

    def to_json(self) -> dict[str, Json]:
        """One element of `left_files`."""
        return {"path": self.path, "use": self.use, "detail": self.detail}


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPlan:
    """What an ingestion of some paths would read.

    Attributes:
        datasets: Every dataset at or below the paths, by path.
        file_counts: Number of files by use: "data", "metadata", "pointer", "unreadable", "unused", "not_data".
        left_files: Every file that is neither data nor metadata of a dataset.
    """

    datasets: tuple[PlannedDataset, ...] = ()
    file_counts: Mapping[str, int] = field(default_factory=dict)
    left_files: tuple[LeftFile, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every dataset can be opened and every data file is read."""
        return not self.num_unread and not any(dataset.error for dataset in self.datasets)

    @property
    def num_unread(self) -> int:
        """Files that hold data, or stand for it, and are not read."""
        return sum(self.file_counts.get(use, 0) for use in _UNREAD)

    def to_json(self) -> dict[str, Json]:
        """The document of `ares ingest --dry-run --json`."""
        return {
            "datasets": [dataset.to_json() for dataset in self.datasets],
            "files": dict(self.file_counts),
            "left_files": [file.to_json() for file in self.left_files],
        }
