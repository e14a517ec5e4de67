"""Ingest a folder of video files, with or without a metadata.jsonl that says what they show."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

from ares.episode import Record, episode_id
from ares.errors import SourceError
from ingest.base import Ingester, Item, Options, Source
from ingest.video_files import METADATA, SUFFIXES, Clip, clips_of_folder, count_lines, rows, video_files
from ingest.video_record import FORMAT, load_clip


def recognises(path: str) -> bool:
    """Whether a folder holds videos (and is not a LeRobot dataset, which does too), or a file is one."""
    folder = Path(path)
    if folder.is_file():
        return folder.suffix.lower() in SUFFIXES
    if (folder / "meta" / "info.json").exists():
        return False
    return (folder / METADATA).is_file() or next(video_files(folder), None) is not None


def open_video(path: str, options: Options) -> list[Source]:
    """The folder (or the one file) as a dataset. Raises SourceError when there is no video."""
    asked = Path(os.path.normpath(Path(path).absolute()))
    folder = asked.parent if asked.is_file() else asked
    dataset = options.dataset or folder.name
    listed = asked.is_dir() and (folder / METADATA).is_file()
    if listed:
        total, items = count_lines(folder), _listed(folder, dataset, options)
    else:
        clips = clips_of_folder(folder, [asked] if asked.is_file() else list(video_files(folder)))
        total, items = len(clips), (_item(clip, dataset, options, str(folder / clip.key)) for clip in clips)
    if not total:
        raise SourceError(
            "folder holds no video", f"{path}: no {METADATA} and no {', '.join(sorted(SUFFIXES))}"
        )
    return [Source(format=FORMAT, dataset=dataset, version="", total=total, items=items)]


def _listed(folder: Path, dataset: str, options: Options) -> Iterator[Item]:
    """One item for each line of metadata.jsonl; a line that is no episode is one whose load raises."""
    seen: set[str] = set()
    for number, row in rows(folder):
        where = f"{folder / METADATA}, line {number}"
        if isinstance(row, Clip) and row.key in seen:
            row = SourceError("episode is listed twice", f"{where}: {row.key!r}")
        if isinstance(row, SourceError):
            identity = episode_id(format=FORMAT, dataset=dataset, version="", split="", key=f"line {number}")
            yield Item(
                episode_id=identity, where=where, load=functools.partial(_fail, row.reason, row.detail)
            )
            continue
        seen.add(row.key)
        yield _item(row, dataset, options, f"{where}: {row.key}")


def _item(clip: Clip, dataset: str, options: Options, where: str) -> Item:
    identity = episode_id(format=FORMAT, dataset=dataset, version="", split=clip.split, key=clip.key)
    return Item(
        episode_id=identity,
        where=where,
        load=functools.partial(load_clip, clip, dataset, identity, options.rate_hz),
    )


def _fail(reason: str, detail: str) -> Record:
    raise SourceError(reason, detail)


video = Ingester(name=FORMAT, recognises=recognises, open=open_video)
