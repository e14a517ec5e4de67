"""Manifest of an export: its episodes, counts and makers, written last, so that a folder with one is complete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from ares.annotation import Annotation, Maker, canonical_json
from ares.curation import CurationSet
from ares.episode import Episode, Json
from ares.export.left_out import FAILURES_FILE
from ares.rubric import read_judge_trust

if TYPE_CHECKING:
    from ares.store import Stores

MANIFEST_FILE = "manifest.json"
EPISODES_FILE = "manifest.episodes.jsonl"


class ExportManifest:
    """Collects the content of an export, episode by episode.

    EPISODES_FILE has a line per episode (identity, content hash, location in the export), MANIFEST_FILE the rest.
    `ares.export.left_out` writes the episodes that were left out to a third file.

    Args:
        folder: The export.
        stores: Stores of the workspace that the set belongs to.
        selection: The set.
        format: Name and version of the format ("lerobot v3.0").
    """

    def __init__(self, folder: Path, stores: Stores, selection: CurationSet, format: str) -> None:
        self._folder, self._stores, self._selection, self._format = folder, stores, selection, format
        self._lines = (folder / EPISODES_FILE).open("w", encoding="utf-8")
        self._digest = hashlib.sha256()
        self._maker_ids: set[str] = set()
        self.episodes = 0

    def __enter__(self) -> ExportManifest:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()

    def add(self, episode: Episode, path: str, index: int) -> None:
        """Add an episode that was written.

        Args:
            episode: The episode.
            path: Dataset folder inside the export, "." for the export itself.
            index: Number of the episode in that folder.
        """
        line = canonical_json(
            {
                "episode_id": episode.episode_id,
                "content_hash": episode.content_hash,
                "dataset": episode.dataset,
                "version": episode.version,
                "split": episode.split,
                "key": episode.key,
                "path": path,
                "index": index,
            }
        )
        self._lines.write(line + "\n")
        self._digest.update(f"{line}\n".encode())
        self.episodes += 1

    def add_makers(self, annotations: list[Annotation]) -> None:
        """Add the makers of annotations of exported episodes."""
        self._maker_ids.update(annotation.maker_id for annotation in annotations)

    def write(self, counts: Mapping[str, Json]) -> None:
        """Write MANIFEST_FILE, last of all files."""
        self._lines.close()
        makers = self._stores.annotations.makers()
        left_out: dict[str, Json] = {"failed": {"file": FAILURES_FILE, "count": counts["failed"]}}
        trust = read_judge_trust(self._stores.annotations)
        used_makers = {id: makers[id] for id in sorted(self._maker_ids & makers.keys())}
        document: dict[str, Json] = {
            "ares": version("ares-curation"),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "format": self._format,
            "set": self._selection.to_json(),
            "counts": dict(counts),
            "episodes": {"file": EPISODES_FILE, "count": self.episodes, "sha256": self._digest.hexdigest()},
            **(left_out if counts["failed"] else {}),
            "makers": {id: _maker_document(maker) for id, maker in used_makers.items()},
            # What the controls of the judges of captions say, by dataset.
            "judge_trust": {id: dict(trust[id]) for id in used_makers if id in trust},
            # A judge by a rubric names it in its settings.
            "rubrics": {
                id: maker.prompt_hash for id, maker in used_makers.items() if "rubric" in maker.settings
            },
        }
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
        partial = self._folder / f"{MANIFEST_FILE}.tmp"
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(self._folder / MANIFEST_FILE)


def _maker_document(maker: Maker) -> dict[str, Json]:
    fields = asdict(maker)
    del fields["columns"]
    return fields
