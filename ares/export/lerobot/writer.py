"""Writes one LeRobot v3.0 dataset episode by episode, with the videos of many episodes in one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ares.clock import time_tolerance
from ares.episode import Camera, MediaRef
from ares.errors import AresError, MediaError
from ares.export.base import MASK_SIGNALS
from ares.export.layout_groups import (
    DatasetCounts,
    DatasetGroup,
    DepthVideo,
    ExportItem,
    read_depth_videos,
)
from ares.export.lerobot.language import arrange_language, language_columns, text_features
from ares.export.lerobot.segment_file import SegmentFileWriter
from ares.export.lerobot.tables import (
    MAX_SAMPLED_FRAMES,
    VIDEO_FILE_MB,
    FeatureStats,
    FileNumber,
    RollingParquetWriter,
    RunningStats,
    ares_schema,
    column_stats,
    data_features,
    data_schema,
    depth_feature,
    episode_schema,
    image_stats,
    make_episode_data_table,
    signal_columns,
    stats_to_lists,
    video_feature,
    write_info,
    write_json,
    write_numbered_texts,
    write_subtasks,
)
from ares.export.retime import RetimedEpisode, step_frames
from ares.export.signal_columns import SignalColumn
from ares.formats import (
    ACTION_KEY,
    ARES_PREFIX,
    DATA_FILE_COLUMNS,
    EPISODES_FILE_COLUMNS,
    REWARD_KEY,
    ROW_RANGE_COLUMNS,
    ROWS_HASH_COLUMN,
    STATE_KEY,
    STATS_PATH,
    SUBTASK_INDEX,
    TASK_TEXT_COLUMN,
    TASKS_PATH,
    V3_DATA_PATH,
    V3_EPISODES_PATH,
    V3_VIDEO_PATH,
    camera_key,
    hash_written_episode,
    video_columns,
)
from ares.media import NotCopyable, PacketJoiner, PacketSpan, StreamFormat, cut_packets, encode_mp4, frames_at

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store import Stores


# LeRobot compares times as float32 with a tolerance of 1e-4 s: beyond 1024 s a float32 is coarser than that.
MAX_FILE_SECONDS = 1000.0
# See docs/why/004-lerobot-export.md.
EXPORT_CODEC: Literal["h264"] = "h264"
_NO_VIDEO = "the source has images, not a video file"


@dataclass(frozen=True, slots=True, eq=False)
class PreparedVideo:
    """The video of one camera of one episode, ready to be joined with others.

    Attributes:
        span: Its packets.
        stats: Image statistics of sampled frames.
        is_encoded: Whether it had to be encoded.
        encoding_reason: Why it had to be encoded, which changes its pixels, or "".
        scratch_file: The file it was encoded to, or None.
    """

    span: PacketSpan
    stats: FeatureStats
    is_encoded: bool = False
    encoding_reason: str = ""
    scratch_file: Path | None = None

    def close(self) -> None:
        """Close the source, and delete the file it was encoded to."""
        self.span.close()
        if self.scratch_file:
            self.scratch_file.unlink(missing_ok=True)


def prepare_video(
    camera: Camera, retimed: RetimedEpisode, rate_hz: float, scratch_file: Path, can_point: bool = False
) -> PreparedVideo:
    """Cut the packets out of an mp4, or encode the frames to the scratch file.

    Args:
        camera: The camera.
        retimed: Its episode, which has a frame for each written step.
        rate_hz: Frames per second to write.
        scratch_file: File to encode to.
        can_point: Whether an episode may begin in the middle of a video, so that a span is copied from the keyframe
            before it.

    Raises MediaError or SourceError when the frames cannot be read.
    """
    seconds = retimed.camera_seconds(camera)
    if camera.media.kind != "mp4":
        return _encode_video(camera, retimed, seconds, rate_hz, scratch_file, _NO_VIDEO)
    try:
        span = cut_steps(camera, retimed, rate_hz, can_point)
    except NotCopyable as error:
        return _encode_video(camera, retimed, seconds, rate_hz, scratch_file, error.reason)
    try:
        sample_seconds = [seconds[number] for number in _sample_numbers(len(seconds), span)]
        return PreparedVideo(span, image_stats(frames_at(camera.media, sample_seconds)))
    except BaseException:
        span.close()
        raise


def cut_steps(camera: Camera, retimed: RetimedEpisode, rate_hz: float, can_point: bool) -> PacketSpan:
    """The packets of a camera, one for each step. Raises NotCopyable where frames are not those of the steps."""
    if not retimed.keeps_rate:
        size = " and another size of pictures" if camera.media.fit else ""
        raise NotCopyable(f"the export has another rate{size}", f"{camera.media.uri}: {rate_hz:g} Hz")
    count, media = retimed.episode.num_steps, camera.media
    if retimed.is_cut:
        return _cut_part(media, retimed, rate_hz, can_point)
    if retimed.source.frame_pairing == "index":
        return cut_packets(media, count, media.rate_hz)
    # Steps have to be as even as the packets that are copied.
    if retimed.shift_seconds > time_tolerance(rate_hz):
        raise NotCopyable("steps are not at a constant rate", f"{media.uri}: {retimed.shift_seconds:.3f} s")
    return cut_packets(media, count, rate_hz)


def _cut_part(media: MediaRef, retimed: RetimedEpisode, rate_hz: float, can_point: bool) -> PacketSpan:
    """The packets of the steps of a part of an episode. Raises NotCopyable."""
    first, count, is_indexed = retimed.kept.start, len(retimed.kept), retimed.source.frame_pairing == "index"
    if not is_indexed and retimed.shift_seconds > time_tolerance(rate_hz):
        raise NotCopyable("steps are not at a constant rate", f"{media.uri}: {retimed.shift_seconds:.3f} s")
    rate_hz = media.rate_hz if is_indexed else rate_hz
    stored_frames = (media.stop_seconds - media.start_seconds) * media.rate_hz
    if stored_frames > 0 and abs(stored_frames - media.num_frames) > 1:
        raise NotCopyable("the video plays at another rate than its episode", media.uri)
    seconds = first / rate_hz if is_indexed else float(retimed.stamps[first])
    start = media.start_seconds + seconds
    part = replace(media, start_seconds=start, stop_seconds=start + count / media.rate_hz, num_frames=count)
    try:
        return cut_packets(part, count, rate_hz, with_neighbours=can_point)
    except NotCopyable as error:
        if can_point:
            raise
        detail = f"{error.reason}; {error.detail}"
        raise NotCopyable("a span of a video, which the format cannot point into", detail) from None


def _sample_numbers(num_frames: int, span: PacketSpan | None = None) -> list[int]:
    """Numbers of at most MAX_SAMPLED_FRAMES frames, evenly spaced, the first and the last among them.

    Of a copied span a keyframe stands for the samples near it: any other frame costs all since its keyframe.
    """
    import numpy as np

    count = min(MAX_SAMPLED_FRAMES, num_frames)
    numbers = np.linspace(0, num_frames - 1, count).round().astype(int)
    pairs = zip(span.packets, span.positions, strict=True) if span else ()
    keys = np.array([position - span.lead for packet, position in pairs if packet.is_keyframe and span])
    if len(keys := keys[(keys >= 0) & (keys < num_frames)]):
        nearest = keys[np.abs(numbers[:, None] - keys).argmin(axis=1)]
        numbers = np.where(np.abs(nearest - numbers) * (count - 1) < num_frames, nearest, numbers)
    return sorted(set(numbers.tolist()))


def _encode_video(
    camera: Camera,
    retimed: RetimedEpisode,
    seconds: Sequence[float],
    rate_hz: float,
    scratch_file: Path,
    reason: str,
) -> PreparedVideo:
    import numpy as np

    num_frames = len(seconds)
    sample_numbers = set(_sample_numbers(num_frames))
    samples: list[NDArray[np.uint8]] = []

    def frames() -> Iterator[NDArray[np.uint8]]:
        for number, frame in enumerate(step_frames(camera, retimed, seconds)):
            if number in sample_numbers:
                samples.append(frame)
            yield frame

    scratch_file.parent.mkdir(parents=True, exist_ok=True)
    written = encode_mp4(frames(), scratch_file, float(rate_hz), EXPORT_CODEC)
    if written != num_frames:
        raise MediaError(
            "the source has fewer frames than it had", f"{camera.media.uri}: {written}, not {num_frames}"
        )
    stats = image_stats(np.stack(samples))
    return PreparedVideo(
        span=cut_encoded(scratch_file, num_frames, rate_hz),
        stats=stats,
        is_encoded=True,
        encoding_reason=reason,
        scratch_file=scratch_file,
    )


def cut_encoded(path: Path, num_frames: int, rate_hz: float) -> PacketSpan:
    """The packets of a file that a video was encoded to."""
    encoded = MediaRef(
        kind="mp4",
        uri=str(path),
        start_seconds=0.0,
        stop_seconds=num_frames / rate_hz,
        num_frames=num_frames,
        rate_hz=float(rate_hz),
    )
    return cut_packets(encoded, num_frames, rate_hz)


_RATE_TOLERANCE = 1e-3


def find_copyable_depth(group: DatasetGroup) -> tuple[str, ...]:
    """Names of the cameras whose depth every episode has as a video that can be copied exactly, with equal facts."""
    return tuple(name for name, videos in sorted(group.depth_videos.items()) if _is_copyable(group, videos))


def _is_copyable(group: DatasetGroup, videos: list[DepthVideo]) -> bool:
    if len(videos) != group.episodes or any(video.facts != videos[0].facts for video in videos):
        return False
    try:
        for video in videos:
            if abs(video.rate_hz - group.rate_hz) > _RATE_TOLERANCE:
                return False
            _cut_packets(video).close()
    except AresError:
        return False
    return True


def _cut_packets(video: DepthVideo) -> PacketSpan:
    media = MediaRef(
        kind="mp4",
        uri=video.path,
        start_seconds=video.start_seconds,
        stop_seconds=video.start_seconds + video.num_frames / video.rate_hz,
        num_frames=video.num_frames,
        rate_hz=video.rate_hz,
    )
    return cut_packets(media, video.num_frames, video.rate_hz)


def prepare_depth(camera: str, retimed: RetimedEpisode) -> PreparedVideo:
    """The packets of the depth of an episode. Raises MediaError where they are no longer those of its steps."""
    video = read_depth_videos(retimed.source).get(camera)
    if video is None or not retimed.keeps_steps or video.num_frames != retimed.episode.num_steps:
        raise MediaError("depth is not at the steps of the export", retimed.episode.source)
    try:
        return PreparedVideo(_cut_packets(video), {})
    except NotCopyable as error:
        raise MediaError(f"depth cannot be copied: {error.reason}", error.detail) from None


def count_written_video(counts: DatasetCounts, video: PreparedVideo) -> None:
    """Count the frames of a video that is written, and why it was encoded."""
    if video.is_encoded:
        counts.encoded_frames += video.span.num_frames
    else:
        counts.copied_packets += len(video.span.packets)
    if video.encoding_reason:
        counts.reencoded[video.encoding_reason] += 1


class VideoLocation(NamedTuple):
    """File of an episode's video, and its span in seconds of that file, half open."""

    file_number: FileNumber
    from_seconds: float
    to_seconds: float


class CameraVideoWriter:
    """The growing video files of one camera.

    Args:
        root: Dataset folder.
        camera: Camera name.
        rate_hz: Frames per second.
    """

    def __init__(self, root: Path, camera: str, rate_hz: float) -> None:
        self._root, self._key, self._rate_hz = root, camera_key(camera), rate_hz
        self.file_number = FileNumber()
        self._file: PacketJoiner | None = None
        self.format: StreamFormat | None = None

    def append(self, video: PreparedVideo) -> VideoLocation:
        """Append a video, in a new file when the current one is full or has another format."""
        span = video.span
        if self._file and not self._has_room(self._file, span):
            self.close()
            self.file_number = self.file_number.next()
        if self._file is None:
            path = self._root / V3_VIDEO_PATH.format(
                video_key=self._key, chunk_index=self.file_number.chunk, file_index=self.file_number.file
            )
            self._file = PacketJoiner(path, self._rate_hz, span)
            self.format = self.format or span.format
        first = self._file.append(span) + span.lead
        stop = first + span.num_frames
        return VideoLocation(self.file_number, first / self._rate_hz, stop / self._rate_hz)

    def close(self) -> None:
        """Close the current file."""
        if self._file:
            self._file.close()
            self._file = None

    def _has_room(self, file: PacketJoiner, span: PacketSpan) -> bool:
        fits_size = file.num_bytes + span.num_bytes < VIDEO_FILE_MB * 2**20
        fits_duration = (file.num_frames + len(span.packets)) / self._rate_hz <= MAX_FILE_SECONDS
        return fits_size and fits_duration and file.fits(span)


# Rows of the episodes file written at once (LeRobot: 10).
_BUFFERED_ROWS = 100


class LeRobotWriter:
    """Writes the episodes of a group as one dataset.

    Args:
        root: Dataset folder, created when needed.
        group: The episodes and their layout.
        stores: Stores of the workspace, for the columns that annotators filled.
    """

    can_point = True

    def __init__(self, root: Path, group: DatasetGroup, stores: Stores) -> None:
        self._root, self._group, self._signals = root, group, signal_columns(group)
        self._ares_schema = ares_schema(stores)
        has_texts = group.episodes_with_segments > 0
        self._features = data_features(group) | (text_features(group) if has_texts else {})
        self._data_schema = data_schema(self._features)
        self._episode_schema = episode_schema(
            self._features, group.cameras, self._ares_schema, group.copied_depth
        )
        self._data = RollingParquetWriter(root, V3_DATA_PATH, self._data_schema)
        self._episode_files = RollingParquetWriter(root, V3_EPISODES_PATH, self._episode_schema)
        names = (*group.cameras, *group.copied_depth)
        self._videos = {name: CameraVideoWriter(root, name, group.rate_hz) for name in names}
        self._running_stats: dict[str, RunningStats] = {}
        self._episode_rows: list[dict[str, Any]] = []
        self._segments = SegmentFileWriter(root) if has_texts else None
        self._subtasks: dict[str, int] = {}
        self.counts = DatasetCounts()

    def add(self, item: ExportItem, videos: Mapping[str, PreparedVideo]) -> None:
        """Append an episode.

        Args:
            item: The episode, its signals and its task.
            videos: By name, the videos of the group's cameras and of the depth that is copied.
        """
        number, first_row, episode = self.counts.episodes, self.counts.frames, item.retimed.episode
        tasks, task_index = self.counts.add(item)
        columns = make_episode_data_columns(self._group, self._signals, item, number, first_row, task_index)
        texts = self._add_texts(number, item, columns, self._segments) if self._segments else {}
        stats = column_stats(columns)
        stats |= {camera_key(name): video.stats for name, video in videos.items() if video.stats}
        table = make_episode_data_table(self._data_schema, columns | texts)
        file_number = self._data.next_file(table.nbytes)
        self._data.write(table)
        row = {
            "episode_index": number,
            "tasks": tasks,
            "length": episode.num_steps,
            **dict(zip(DATA_FILE_COLUMNS, file_number, strict=True)),
            **dict(zip(ROW_RANGE_COLUMNS, (first_row, self.counts.frames), strict=True)),
            **self._append_videos(videos),
            **{
                f"stats/{name}/{stat}": value
                for name, feature_stats in stats.items()
                for stat, value in stats_to_lists(feature_stats).items()
            },
            **ares_values(item, columns, videos, self._ares_schema),
        }
        for name, feature_stats in stats.items():
            self._running_stats.setdefault(name, RunningStats()).add(feature_stats)
        self._episode_rows.append(row)
        if len(self._episode_rows) == _BUFFERED_ROWS:
            self._flush()

    def finish(self) -> None:
        """Write the files that need all episodes: tasks, statistics and, last, info.json."""
        self._flush()
        self.close()
        write_numbered_texts(self._root / TASKS_PATH, list(self.counts.tasks), TASK_TEXT_COLUMN)
        if self._subtasks:
            write_subtasks(self._root, list(self._subtasks))
        stats = {name: stats_to_lists(running.stats()) for name, running in self._running_stats.items()}
        write_json(self._root / STATS_PATH, stats)
        features = dict(self._features)
        for name, video in self._videos.items():
            if video.format and name in self._group.copied_depth:
                facts = self._group.depth_videos[name][0].facts
                features[camera_key(name)] = depth_feature(video.format, facts, self._group.rate_hz)
            elif video.format:
                features[camera_key(name)] = video_feature(video.format, self._group.rate_hz)
        write_info(self._root, self._group, features, self.counts)

    def close(self) -> None:
        """Close all files; may be called twice."""
        self._data.close()
        self._episode_files.close()
        if self._segments:
            self._segments.close()
        for video in self._videos.values():
            video.close()

    def _add_texts(
        self, number: int, item: ExportItem, columns: dict[str, Any], segments: SegmentFileWriter
    ) -> dict[str, pa.Array]:
        """Note the segments of an episode; returns its columns of texts, and adds the one of subtasks to the columns.

        The subtask is a (T, 1) number; steps without one have that of the text "".
        """
        import numpy as np

        language = arrange_language(item, self._group.cameras)
        segments.add(number, item, language.lacks)
        self.counts.segments.lacks.update(language.lacks.values())
        if SUBTASK_INDEX in self._features:
            numbers = [self._subtasks.setdefault(text, len(self._subtasks)) for text in language.subtasks]
            columns[SUBTASK_INDEX] = np.array(numbers, np.int64).reshape(-1, 1)
        return language_columns(language, item.retimed.episode.num_steps)

    def _append_videos(self, videos: Mapping[str, PreparedVideo]) -> dict[str, Any]:
        """Append the videos of an episode and return their columns of the episodes file."""
        values: dict[str, Any] = {}
        for name, video in videos.items():
            location = self._videos[name].append(video)
            columns = video_columns(camera_key(name))
            values[columns.chunk_index] = location.file_number.chunk
            values[columns.file_index] = location.file_number.file
            values[columns.from_timestamp] = location.from_seconds
            values[columns.to_timestamp] = location.to_seconds
            count_written_video(self.counts, video)
        return values

    def _flush(self) -> None:
        """Write the buffered rows of the episodes file."""
        import pyarrow as pa

        if not self._episode_rows:
            return
        table = pa.Table.from_pylist(self._episode_rows, schema=self._episode_schema)
        file_number = self._episode_files.next_file(table.nbytes)
        for name, value in zip(EPISODES_FILE_COLUMNS, file_number, strict=True):
            position = self._episode_schema.get_field_index(name)
            column = pa.array([value] * table.num_rows, pa.int64())
            table = table.set_column(position, self._episode_schema.field(position), column)
        self._episode_files.write(table)
        self._episode_rows.clear()


def make_episode_data_columns(
    group: DatasetGroup,
    signals: Mapping[str, SignalColumn],
    item: ExportItem,
    number: int,
    first_row: int,
    task_index: int | list[int],
) -> dict[str, Any]:
    """The data columns of an episode, each (T, D).

    Args:
        group: The group of the episode.
        signals: Its further signals, see `signal_columns`.
        item: The episode.
        number: Its number in the dataset.
        first_row: Number of its first step in the dataset.
        task_index: Number of its task, of each step where these differ.
    """
    import numpy as np

    trajectory, count = item.retimed.trajectory, item.retimed.episode.num_steps
    steps = np.arange(count, dtype=np.int64)
    main = {STATE_KEY: trajectory.state, ACTION_KEY: trajectory.action}
    columns: dict[str, Any] = {
        name: signal.values for name, signal in main.items() if signal and signal.names
    }
    if group.has_reward and trajectory.reward is not None:
        columns[REWARD_KEY] = trajectory.reward
    for name, column in signals.items():
        columns[column.key] = trajectory.extra[name].values.astype(column.dtype)
    columns |= {
        "timestamp": (steps / group.rate_hz).astype(np.float32),
        "frame_index": steps,
        "episode_index": np.full(count, number, dtype=np.int64),
        "index": steps + first_row,
        "task_index": np.full(count, task_index, dtype=np.int64),
    }
    return {name: values.reshape(count, -1) for name, values in columns.items()}


def ares_values(
    item: ExportItem, columns: Mapping[str, Any], videos: Mapping[str, PreparedVideo], schema: pa.Schema
) -> dict[str, Any]:
    """The values of the columns of `ares_schema`, by column.

    Args:
        item: The episode.
        columns: Its data columns, (T, D) each.
        videos: Its videos by name.
        schema: The schema.
    """
    import numpy as np

    episode, rows_hash = item.retimed.episode, ""
    if item.retimed.keeps_steps and not item.reasons and episode.content_hash:
        sizes = {
            name: np.array([packet.size for packet in video.span.packets], np.int32)
            for name, video in videos.items()
            if video.stats  # depth has none
        }
        numbers = {key: values for key, values in columns.items() if key not in MASK_SIGNALS}
        rows_hash = hash_written_episode(numbers, sizes)
    values = item.values | {ROWS_HASH_COLUMN.removeprefix(ARES_PREFIX): rows_hash}
    names = [name.removeprefix(ARES_PREFIX) for name in schema.names]
    return {
        f"{ARES_PREFIX}{name}": values[name] if name in values else getattr(episode, name) for name in names
    }
