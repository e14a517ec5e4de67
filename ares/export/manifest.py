"""Manifest: what an export holds and what made it, written last, so that a folder that has one is whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from ares.annotation import Annotation, Maker, canonical
from ares.curate.sets import CurationSet
from ares.episode import Episode, Json
from ares.export.failures import NAME as FAILED

if TYPE_CHECKING:
    from ares.workspace import Workspace

NAME = "manifest.json"
EPISODES = "manifest.episodes.jsonl"


class Manifest:
    """Collects what goes into an export, one episode after the other.

    Two files: EPISODES has a line per episode (identity, content hash, where it went), NAME the rest. Which episodes
    of the set are left out stands in a third, see `ares.export.failures`.

    Args:
        folder: Where to write.
        ws: The workspace that the set belongs to.
        chosen: The set.
        format: What is exported ("lerobot v3.0").
    """

    def __init__(self, folder: Path, ws: Workspace, chosen: CurationSet, format: str) -> None:
        self._folder, self._ws, self._chosen, self._format = folder, ws, chosen, format
        self._lines = (folder / EPISODES).open("w", encoding="utf-8")
        self._digest = hashlib.sha256()
        self._makers: set[str] = set()
        self.episodes = 0

    def __enter__(self) -> Manifest:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()

    def add(self, episode: Episode, path: str, index: int) -> None:
        """Note an episode that was written.

        Args:
            episode: The episode.
            path: Dataset folder inside the export, "." for the export itself.
            index: Its number there.
        """
        line = canonical(
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

    def used(self, annotations: list[Annotation]) -> None:
        """Note what made the annotations of exported episodes."""
        self._makers.update(annotation.maker_id for annotation in annotations)

    def close(self, counts: Mapping[str, Json]) -> None:
        """Write NAME, last of all files."""
        self._lines.close()
        makers = self._ws.annotations.makers()
        failed: dict[str, Json] = {"failed": {"file": FAILED, "count": counts["failed"]}}
        used = {id: makers[id] for id in sorted(self._makers & makers.keys())}
        document: dict[str, Json] = {
            "ares": version("ares-curation"),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "format": self._format,
            "set": self._chosen.to_json(),
            "counts": dict(counts),
            "episodes": {"file": EPISODES, "count": self.episodes, "sha256": self._digest.hexdigest()},
            **(failed if counts["failed"] else {}),
            "makers": {id: _maker(maker) for id, maker in used.items()},
            "rubrics": {id: maker.prompt_hash for id, maker in used.items() if maker.annotator == "grade"},
        }
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
        partial = self._folder / f"{NAME}.tmp"
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(self._folder / NAME)


def _maker(maker: Maker) -> dict[str, Json]:
    fields = asdict(maker)
    del fields["columns"]
    return fields
