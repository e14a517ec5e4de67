"""Ingest a folder of video files, with or without tables that say what they show."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ares import files
from ares.episode import Record, episode_id
from ares.errors import SourceError
from ingest.base import Ingester, Item, Options, Source
from ingest.video_files import SUFFIXES, holds_videos, is_video
from ingest.video_plan import Plan, Planned, plan
from ingest.video_record import FORMAT, load_clip


def recognises(path: str) -> bool:
    """Whether a folder holds videos (and is not a LeRobot dataset, which does too), or a file is one."""
    folder = files.absolute(path)
    if folder.is_file():
        return is_video(folder)
    if (folder / "meta" / "info.json").exists():
        return False
    return (folder / "metadata.jsonl").is_file() or holds_videos(folder)


def open_video(path: str, options: Options) -> list[Source]:
    """The folder (or the one file) as a dataset.

    Raises SourceError when there is no video or none matches the pattern, RequestError for a pattern that is none.
    """
    asked = files.absolute(path)
    folder = asked.parent if asked.is_file() else asked
    dataset = options.dataset or files.title(folder)
    found = plan(folder, options.cameras, asked.name if asked.is_file() else "")
    if not found.total:
        raise SourceError("folder holds no video", f"{path}: no {', '.join(sorted(SUFFIXES))}")
    if options.cameras and not found.cameras.groups:
        raise SourceError(
            "no file matches --cameras", f"{options.cameras!r}: {found.cameras.unmatched[0]!r} does not"
        )
    return [
        Source(
            format=FORMAT,
            dataset=dataset,
            version="",
            total=found.total,
            items=_items(found, dataset, options),
            warnings=tuple(found.warnings),
        )
    ]


def _items(found: Plan, dataset: str, options: Options) -> Iterator[Item]:
    return (_item(one, dataset, options) for one in found.planned())


def _item(one: Planned, dataset: str, options: Options) -> Item:
    clip = one.clip
    if not isinstance(clip, SourceError) and not _writable(clip.key):
        clip = SourceError("file name is not UTF-8", clip.key)
    split, key = ("", one.name) if isinstance(clip, SourceError) else (clip.split, clip.key)
    identity = episode_id(format=FORMAT, dataset=dataset, version="", split=split, key=_readable(key))
    return Item(
        episode_id=identity,
        where=_readable(one.where),
        load=functools.partial(_fail, clip.reason, _readable(clip.detail))
        if isinstance(clip, SourceError)
        else functools.partial(load_clip, clip, dataset, identity, options.rate_hz),
    )


def _writable(text: str) -> bool:
    return _readable(text) == text


def _readable(text: str) -> str:
    """The text with the bytes that are no UTF-8 spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


def _fail(reason: str, detail: str) -> Record:
    raise SourceError(reason, detail)


video = Ingester(name=FORMAT, recognises=recognises, open=open_video)
