"""Opens a folder of video files as a dataset, and reads each of its episodes as a record."""

from __future__ import annotations

import functools
import hashlib
import math
import posixpath
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ares.episode import Camera, Json, MediaRef, Record, Trajectory
from ares.errors import SourceError
from ares.input import read_json
from ares.io import FolderEntries, absolute_path, describe_os_error, file_state, folder_name
from ares.media import VideoInfo, frozen_camera_flags
from ares_ingest.base import (
    EpisodeEntry,
    FolderClaim,
    FolderIngester,
    Item,
    Source,
    SourceFile,
    SourceOptions,
    failing_item,
    make_episode,
    stamp_labels,
)
from ares_ingest.files import (
    add_missing_cameras,
    describe_camera,
    hash_media_file,
    hash_media_files,
    local_files,
    probe_once,
)
from ares_ingest.source_words import (
    InvalidRowError,
    VideoRow,
    describe_table,
    names_a_video,
    parse_video_row,
    stated_end,
)
from ares_ingest.video.camera_names import group_by_names
from ares_ingest.video.listing import VIDEO_SUFFIXES, VideoClip, is_video
from ares_ingest.video.plan import PlannedClip, VideoFolderPlan, plan_video_folder, read_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


FORMAT = "video"

_ROUNDING_SECONDS = 2e-3


def load_clip(clip: VideoClip, entry: EpisodeEntry, promised: Collection[str] = ()) -> Record:
    """Read an episode from its video files, without decoding them. Raises SourceError for a file that cannot be used.

    At a rate of the user one second of the episode is not one second of the file. Cameras that most episodes have are
    promised: one that is not there has no pictures yet.
    """
    user_rate_hz = entry.rate_hz
    row = _read_row(clip)
    infos = {camera: probe_once(path) for camera, path in clip.videos.items()}
    spans = {camera: _find_span(info, row, clip.videos[camera]) for camera, info in infos.items()}
    (first_path, *_), (span, *_) = clip.videos.values(), spans.values()
    speed = 1.0 if user_rate_hz is None else user_rate_hz / span.rate_hz
    cameras = tuple(
        _build_camera(name, clip.videos[name], info, spans[name], speed) for name, info in infos.items()
    )
    trajectory = Trajectory(timestamps=span.seconds / speed)
    episode = make_episode(
        entry,
        trajectory,
        [row.instruction],
        split=row.split,
        source=first_path,
        content_hash=_hash_videos(clip.videos, row),
        robot=row.robot,
        rate_hz=user_rate_hz or span.rate_hz,
        rate_source="user" if user_rate_hz else "source" if span.is_even else "measured",
        cameras=cameras,
        success=row.success,
        success_source=row.success_source,
        metadata=add_missing_cameras(row.metadata, sorted(set(promised) - clip.videos.keys())),
    )
    warnings = (*row.warnings, *_row_warnings(row, cameras, infos, span))
    return Record(episode=episode, trajectory=trajectory, warnings=tuple(dict.fromkeys(warnings)))


class _VideoSpan(NamedTuple):
    """The span of a video that is an episode.

    Attributes:
        start: Time of its first frame, in seconds of the file.
        stop: End of its last frame, in seconds of the file, exclusive.
        rate_hz: Frames per second of the span.
        seconds: Time of each frame after the first one, (T,) float64.
        is_even: Whether the frames have the constant rate that the file states.
    """

    start: float
    stop: float
    rate_hz: float
    seconds: NDArray[np.float64]
    is_even: bool


def _find_span(info: VideoInfo, row: VideoRow, path: str) -> _VideoSpan:
    """The frames that start at most half a step before the span, so that adjacent spans share none."""
    import numpy as np

    count, rate = info.num_frames, info.rate_hz
    steps = np.arange(count, dtype=np.float64) / rate if info.seconds is None else info.seconds
    first, stop = 0, count
    if row.start is not None and row.stop is not None:
        limits = np.array([row.start, row.stop]) - 0.5 / rate
        first, stop = (int(number) for number in np.searchsorted(steps, limits))
    elif row.frames is not None:
        first, stop = row.frames[0], min(row.frames[1], count)
    if first >= stop:
        description = (
            f"frames {row.frames[0]} to {row.frames[1]} of {count}"
            if row.frames is not None
            else f"{row.start:g} to {row.stop:g} s of {info.duration_seconds:g} s"
        )
        raise SourceError("span is not in the video", f"{path}: {description}")
    seconds = steps[first:stop] - steps[first]
    if info.seconds is None:
        return _VideoSpan(first / rate, stop / rate, rate, seconds, True)
    if seconds[-1] > 0:
        rate = (len(seconds) - 1) / float(seconds[-1])
    start = float(steps[first])
    next_start = float(steps[stop]) if stop < count else math.inf
    return _VideoSpan(start, min(next_start, start + len(seconds) / rate), rate, seconds, False)


def _read_video_json(path: str) -> tuple[VideoRow | None, dict[str, Json]]:
    """The JSON file of a video as a row; or (None, its content) when it is not an object.

    Raises SourceError for a file that is not JSON.
    """
    try:
        document = read_json(path, parse_constant=_refuse_constant)
    except OSError as error:
        raise SourceError(
            "JSON file of a video cannot be read", f"{path}: {describe_os_error(error)}"
        ) from None
    except ValueError as error:
        raise SourceError("JSON file of a video is not valid JSON", f"{path}: {error}") from None
    if not isinstance(document, dict):
        return None, {"note": document}
    try:
        return parse_video_row({"video": posixpath.basename(path), **_without_video_columns(document)}), {}
    except InvalidRowError as error:
        raise SourceError("JSON file of a video has a wrong form", f"{path}: {error}") from None


def _without_video_columns(document: Mapping[str, Json]) -> dict[str, Json]:
    """The document without the columns that name a video: its file name does."""
    return {name: value for name, value in document.items() if not names_a_video({name: value})}


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not a JSON number")


def _read_row(clip: VideoClip) -> VideoRow:
    """What a table says of an episode, completed by its JSON file. Raises SourceError."""
    if not clip.sidecar:
        return clip.row
    row, (described, document) = clip.row, _read_video_json(clip.sidecar)
    if described is None:
        return replace(row, metadata={**document, **row.metadata})
    outcome = described if row.success is None else row
    metadata = {**described.metadata, **row.metadata}
    return replace(
        row,
        split=row.split or described.split,
        instruction=row.instruction or described.instruction,
        success=outcome.success,
        success_source=outcome.success_source,
        robot=row.robot or described.robot,
        fps=row.fps or described.fps,
        metadata={**metadata, "episode": described.episode} if described.episode else metadata,
        warnings=(*row.warnings, *described.warnings),
    )


def _hash_videos(videos: Mapping[str, str], row: VideoRow) -> str:
    """Hash of the videos, and of the span, so that two spans of one video differ."""
    if row.frames is None and (row.start is None or row.stop is None):
        return hash_media_files(videos.values())
    file_hashes = [hash_media_file(path, file_state(path)) for path in videos.values()]
    start, stop = row.frames or (row.start, row.stop)
    text = f"{' '.join(file_hashes)} {start!r} {stop!r}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _build_camera(name: str, path: str, info: VideoInfo, span: _VideoSpan, speed: float) -> Camera:
    media = MediaRef(
        kind="mp4",
        uri=path,
        start_seconds=span.start,
        stop_seconds=span.stop,
        num_frames=len(span.seconds),
        rate_hz=span.rate_hz * speed,
    )
    return describe_camera(name, info, media, flags=frozen_camera_flags(media, info.inactive_spans, 0))


def _row_warnings(
    row: VideoRow, cameras: tuple[Camera, ...], infos: Mapping[str, VideoInfo], span: _VideoSpan
) -> Iterator[str]:
    first, *_ = infos.values()
    if row.fps is not None and abs(row.fps - first.rate_hz) > 0.01 * first.rate_hz:
        yield "stated fps differs from that of the video"
    lengths = [camera.media.num_frames / camera.media.rate_hz for camera in cameras]
    if max(lengths) - min(lengths) > 1.001 / min(camera.media.rate_hz for camera in cameras):
        yield "cameras differ in length"
    if first.seconds is not None and _has_variable_rate(span.seconds):
        yield "variable frame rate"
    if any(info.is_truncated for info in infos.values()):
        yield "video ends before its container says"
    if not all(info.square_pixels for info in infos.values()):
        yield "pixels are not square"
    shortest = min(info.duration_seconds + 1 / info.rate_hz for info in infos.values())
    is_past = row.frames is not None and row.frames[1] > first.num_frames
    if is_past or (row.stop is not None and row.stop > shortest):
        yield "span goes past the end of its video"


def _has_variable_rate(seconds: NDArray[np.float64]) -> bool:
    """Whether intervals differ by more than a tenth of the median, and by more than containers round."""
    import numpy as np

    if len(seconds) < 3:
        return False
    steps = np.diff(seconds)
    median = float(np.median(steps))
    return float(np.abs(steps - median).max()) > max(0.1 * median, _ROUNDING_SECONDS)


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


def _describe_tables(folder_plan: VideoFolderPlan) -> Iterator[str]:
    for table in folder_plan.tables:
        rows = (row for _, row in read_rows(folder_plan.files.folder / table) if isinstance(row, VideoRow))
        yield describe_table(table, ((bool(row.instruction), row.success, stated_end(row)) for row in rows))


def _list_items(folder_plan: VideoFolderPlan, dataset: str, options: SourceOptions) -> Iterator[Item]:
    promised = _find_promised_cameras(folder_plan)
    for planned in folder_plan.clips():
        yield _build_item(planned, dataset, options, promised)


def _find_promised_cameras(folder_plan: VideoFolderPlan) -> list[str]:
    """The cameras that more than half of the episodes have, by the names of files."""
    total, counts = 0, Counter[str]()
    for planned in folder_plan.clips():
        if isinstance(planned.clip, VideoClip):
            total += 1
            counts.update(planned.clip.videos.keys())
    return [name for name, count in counts.items() if 2 * count > total > 1]


def _build_item(
    planned: PlannedClip, dataset: str, options: SourceOptions, promised: Collection[str]
) -> Item:
    clip = planned.clip
    if not isinstance(clip, SourceError) and not _is_utf8(clip.key):
        clip = SourceError("file name is not UTF-8", clip.key)
    split, key = ("", planned.name) if isinstance(clip, SourceError) else (clip.row.split, clip.key)
    entry = EpisodeEntry(
        format=FORMAT, dataset=dataset, split=split, key=_escape_non_utf8(key), rate_hz=options.rate_hz
    )
    location = _escape_non_utf8(planned.location)
    if isinstance(clip, SourceError):
        return failing_item(
            entry.episode_id, location, SourceError(clip.reason, _escape_non_utf8(clip.detail))
        )
    row = clip.row
    values = (
        row.instruction,
        row.success,
        row.robot,
        row.metadata,
        *(row.split, row.fps, row.start, row.stop, row.frames, row.episode and row.videos),
    )
    return Item(
        episode_id=entry.episode_id,
        location=location,
        load=functools.partial(load_clip, clip, entry, promised),
        key=clip.key,
        videos=clip.videos,
        label_stamp=stamp_labels(*values),
        described_by=local_files(filter(None, [clip.sidecar])),
    )


def _is_utf8(text: str) -> bool:
    return _escape_non_utf8(text) == text


def _escape_non_utf8(text: str) -> str:
    """The text with bytes that are not UTF-8 as escape sequences."""
    return text.encode("utf-8", "backslashreplace").decode()


class VideoIngester(FolderIngester):
    """Opens datasets of the format `video`."""

    name = FORMAT
    opens_files = True

    def claims(self, folder: FolderEntries) -> FolderClaim | None:
        """Whether videos or a JSON lines table lie in a folder."""
        is_data = not VIDEO_SUFFIXES.isdisjoint(folder.suffixes) or "metadata.jsonl" in folder.files
        return "data" if is_data else None

    def joins(self, paths: Sequence[str]) -> bool:
        """Whether an episode has its cameras in several subfolders: front/episode_1.mp4 and wrist/episode_1.mp4."""
        groups = group_by_names(path for path in paths if is_video(Path(path))).groups
        return any(len({path.partition("/")[0] for path in group.values()}) > 1 for group in groups.values())

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        """Open a folder, or a single file, as a dataset.

        Raises SourceError when there is no video or none matches the pattern, RequestError for an invalid pattern.
        """
        location = absolute_path(path)
        folder = location.parent if location.is_file() else location
        dataset = options.dataset or folder_name(folder)
        folder_plan = plan_video_folder(folder, options.cameras, location.name if location.is_file() else "")
        if not folder_plan.total:
            raise SourceError("folder holds no video", f"{path}: no {', '.join(sorted(VIDEO_SUFFIXES))}")
        if options.cameras and not folder_plan.cameras.groups:
            raise SourceError(
                "no file matches --cameras",
                f"{options.cameras!r}: {folder_plan.cameras.unmatched[0]!r} does not",
            )
        return [
            Source(
                format=FORMAT,
                dataset=dataset,
                total=folder_plan.total,
                items=_list_items(folder_plan, dataset, options),
                warnings=tuple(folder_plan.warnings),
                folder=str(folder),
                files=functools.partial(_list_files, folder_plan),
                describe_tables=functools.partial(_describe_tables, folder_plan),
            )
        ]


video = VideoIngester()
