"""Opens a folder of video files, with or without tables about them, as a dataset."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from ares.episode import make_episode_id
from ares.errors import SourceError
from ares.formats import INFO_PATH
from ares.io import FolderEntries, absolute_path, folder_name
from ingest.base import (
    FolderClaim,
    Ingester,
    IngestOptions,
    Item,
    Source,
    SourceFile,
    failing_item,
)
from ingest.video.episode import FORMAT, load_clip
from ingest.video.grouping import group_by_names
from ingest.video.listing import VIDEO_SUFFIXES, holds_videos, is_video
from ingest.video.plan import PlannedClip, VideoFolderPlan, plan_folder


def recognises(path: str) -> bool:
    """Whether a folder holds videos and is not a LeRobot dataset, or a file is a video."""
    folder = absolute_path(path)
    if folder.is_file():
        return is_video(folder)
    if (folder / INFO_PATH).exists():
        return False
    return (folder / "metadata.jsonl").is_file() or holds_videos(folder)


def claims(folder: FolderEntries) -> FolderClaim | None:
    """Whether videos or a JSON lines table lie in a folder."""
    is_data = not VIDEO_SUFFIXES.isdisjoint(folder.suffixes) or "metadata.jsonl" in folder.files
    return "data" if is_data else None


def joins(paths: Sequence[str]) -> bool:
    """Whether an episode has its cameras in several subfolders: front/episode_1.mp4 and wrist/episode_1.mp4."""
    groups = group_by_names(path for path in paths if is_video(Path(path))).groups
    return any(len({path.partition("/")[0] for path in group.values()}) > 1 for group in groups.values())


def open_video(path: str, options: IngestOptions) -> list[Source]:
    """Open a folder, or a single file, as a dataset.

    Raises SourceError when there is no video or none matches the pattern, RequestError for an invalid pattern.
    """
    location = absolute_path(path)
    folder = location.parent if location.is_file() else location
    dataset = options.dataset or folder_name(folder)
    folder_plan = plan_folder(folder, options.cameras, location.name if location.is_file() else "")
    if not folder_plan.total:
        raise SourceError("folder holds no video", f"{path}: no {', '.join(sorted(VIDEO_SUFFIXES))}")
    if options.cameras and not folder_plan.cameras.groups:
        raise SourceError(
            "no file matches --cameras", f"{options.cameras!r}: {folder_plan.cameras.unmatched[0]!r} does not"
        )
    return [
        Source(
            format=FORMAT,
            dataset=dataset,
            version="",
            total=folder_plan.total,
            items=_list_items(folder_plan, dataset, options),
            warnings=tuple(folder_plan.warnings),
            folder=str(folder),
            files=functools.partial(_list_files, folder_plan),
        )
    ]


def _list_files(folder_plan: VideoFolderPlan) -> Iterator[SourceFile]:
    """The videos of the folder, those that no episode uses, and the tables and JSON files that describe them."""
    used: set[str] = set()
    unmatched = frozenset(folder_plan.cameras.unmatched)
    for planned in folder_plan.clips():
        if isinstance(planned.clip, SourceError):
            used.update(filter(None, [planned.file]))
            continue
        used.update(planned.clip.videos.values())
        if planned.clip.sidecar:
            yield SourceFile(path=planned.clip.sidecar, use="metadata")
    for name in folder_plan.files.videos:
        path = f"{folder_plan.files.folder}/{name}"
        if path in used:
            yield SourceFile(path=path, use="data")
        elif name in unmatched:
            yield SourceFile(path=path, use="unused", detail="its name does not match --cameras")
        else:
            yield SourceFile(path=path, use="unused", detail="no row of its table names this video")
    for table in folder_plan.tables:
        yield SourceFile(path=f"{folder_plan.files.folder}/{table}", use="metadata")


def _list_items(folder_plan: VideoFolderPlan, dataset: str, options: IngestOptions) -> Iterator[Item]:
    return (_build_item(planned, dataset, options) for planned in folder_plan.clips())


def _build_item(planned: PlannedClip, dataset: str, options: IngestOptions) -> Item:
    clip = planned.clip
    if not isinstance(clip, SourceError) and not _is_utf8(clip.key):
        clip = SourceError("file name is not UTF-8", clip.key)
    split, key = ("", planned.name) if isinstance(clip, SourceError) else (clip.split, clip.key)
    identity = make_episode_id(
        format=FORMAT, dataset=dataset, version="", split=split, key=_escape_non_utf8(key)
    )
    location = _escape_non_utf8(planned.location)
    if isinstance(clip, SourceError):
        return failing_item(identity, location, SourceError(clip.reason, _escape_non_utf8(clip.detail)))
    load = functools.partial(load_clip, clip, dataset, identity, options.rate_hz)
    return Item(episode_id=identity, location=location, load=load)


def _is_utf8(text: str) -> bool:
    return _escape_non_utf8(text) == text


def _escape_non_utf8(text: str) -> str:
    """The text with bytes that are not UTF-8 as escape sequences."""
    return text.encode("utf-8", "backslashreplace").decode()


video = Ingester(name=FORMAT, recognises=recognises, open=open_video, claims=claims, joins=joins)
