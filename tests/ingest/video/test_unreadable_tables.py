"""A table of videos that cannot be opened is one failure; the videos of other tables are ingested."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import ares
from ares.input import read_lines


@pytest.mark.parametrize("name", ["metadata.jsonl", "labels.csv"])
def test_it_costs_its_own_videos_alone(
    tmp_path: Path, demo_samples: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    videos = sorted((demo_samples / "video").rglob("*.mp4"))[:2]
    for part, path in zip(("good", "bad"), videos, strict=True):
        folder = tmp_path / "lab" / part
        folder.mkdir(parents=True)
        shutil.copy(path, folder / "clip.mp4")
        is_json = name.endswith(".jsonl")
        (folder / name).write_text(json.dumps({"video": "clip.mp4"}) if is_json else "video\nclip.mp4\n")

    def fail(path: str) -> Iterator[bytes]:
        if "/bad/" in path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return read_lines(path)

    monkeypatch.setattr("ares.input.documents.read_lines", fail)
    ws = ares.open(tmp_path / "workspace", create=True)
    counts = ws.ingest(str(tmp_path / "lab"))
    assert (counts.planned, counts.kept, counts.failed) == (2, 1, 1)
    assert [failure.reason for failure in counts.failures] == [f"{name} cannot be read"]
