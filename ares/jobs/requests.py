"""What a user asks to be read: paths, and what the datasets there do not say of themselves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestRequest:
    """The datasets that an ingestion, its plan or a check reads.

    Attributes:
        sources: Folders, files or URLs; or names of prepared datasets, such as "tfds:NAME".
        format: Name of a format, or "auto".
        dataset: Name to store instead of the source's own, or "".
        rate_hz: Recording rate, or None where the source stores it.
        cameras: How names of video files tell episode and camera, or "".
        spec: YAML file with what the dataset does not say of itself, or "".
        options: YAML file with such options by the path of each dataset, or "".
        data_dir: Folder of the prepared datasets, or "".
        follow_links: Whether symbolic links may lead out of a dataset, or out of a source.
    """

    sources: tuple[str, ...]
    format: str = "auto"
    dataset: str = ""
    rate_hz: float | None = None
    cameras: str = ""
    spec: str = ""
    options: str = ""
    data_dir: str = ""
    follow_links: bool = False
