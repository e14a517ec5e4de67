"""Builds the record of a recording: the cameras and signals of its topics on one step clock."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.episode import (
    ArrayUse,
    Camera,
    Json,
    Kind,
    MediaRef,
    Record,
    Signal,
    SourceArray,
    Trajectory,
)
from ares.errors import SourceError
from ares.formats import recording_files
from ares.io import FileState, describe_os_error, file_state
from ares.media import (
    PUBLISHED,
    FrameSpans,
    TopicImages,
    find_inactive_spans,
    first_image_at,
    frozen_camera_flags,
)
from ares_ingest.base import EpisodeEntry, make_episode
from ares_ingest.depth import add_depth
from ares_ingest.files import describe_camera, hash_media_files
from ares_ingest.recordings.clocks import (
    RATE_TOLERANCE,
    StepClock,
    check_topic_times,
    check_topics_meet_steps,
    compute_recording_steps,
    read_image_times,
    select_times_in_span,
    settle_topic_clocks,
)
from ares_ingest.recordings.recorded_spans import RecordedSpan, read_session_row
from ares_ingest.recordings.signal_tracks import SIGNAL_FIELDS, SignalTrack, build_signal_track
from ares_ingest.recordings.spec_topics import NO_TOPICS, TopicsOfSpec
from ares_ingest.recordings.topics import RecordingContents, read_recording_messages
from ares_ingest.source_words import VideoRow, distinct_texts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def source_arrays(
    contents: RecordingContents,
    tracks: Mapping[str, Mapping[str, SignalTrack]],
    steps_topic: str = "",
) -> Iterator[SourceArray]:
    """The topics of each signal in the order of its dimensions, then that of the steps, then those that are not used.

    The key of a topic's main field is the topic; that of another field ends with its name: "/joint_states.velocity".
    """
    states = [topic for topic in tracks if contents.uses[topic] == "joints"]
    for field_name in ("position", "velocity", "effort"):
        for topic in states:
            if field_name in tracks[topic]:
                is_main = field_name == "position"
                use: ArrayUse = "state" if is_main else "extra"
                name = "" if is_main else field_name
                key = topic if is_main else f"{topic}.{field_name}"
                yield _topic_array(contents, topic, key, use, name, tracks[topic][field_name])
    for topic in tracks:
        if contents.uses[topic] == "spec":
            yield _topic_array(contents, topic, topic, "extra", topic, next(iter(tracks[topic].values())))
        elif topic not in states:
            yield _topic_array(contents, topic, topic, "action", "", next(iter(tracks[topic].values())))
    if steps_topic:
        yield SourceArray(key=steps_topic, use="time", dtype=str(contents.summaries[steps_topic]))
    for topic in sorted(contents.unused):
        summary = contents.summaries[topic]
        yield SourceArray(key=topic, use="unused", dtype=str(summary), note=contents.reasons[topic])


def _topic_array(
    contents: RecordingContents, topic: str, key: str, use: ArrayUse, name: str, track: SignalTrack
) -> SourceArray:
    note = str(contents.summaries[topic])
    return SourceArray(
        key=key, use=use, name=name, shape=track.signal.values.shape, dtype="float64", note=note
    )


MCAP_FORMAT = "mcap"

_TOPIC_KEYS = (("state_topics", ("joints",)), ("action_topics", ("action", "array")))
ROUNDED_WARNING = "float64 numbers are stored as float32"
# Parts of topic names that say nothing about the camera.
_COMMON_PARTS = frozenset(
    {"camera", "cameras", "image", "images", "compressed", "image_raw", "image_rect", "image_color", "video"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEpisode(EpisodeEntry):
    """A recording, or the span of it that is an episode.

    Attributes:
        uri: Where the recording is.
        span: The part that is the episode; None for all of it.
        topics: What a spec says of its topics.
    """

    uri: str
    span: RecordedSpan | None = None
    topics: TopicsOfSpec = NO_TOPICS


def load_recording(recorded: RecordedEpisode) -> Record:
    """Read a recording, or the span of it that is an episode: signals as numbers, images by reference.

    The steps are the images of the first camera, by name, that has more than one. Without such a camera they are the
    messages of the first signal. At a rate set by the user they are evenly spaced over the same time. Every other
    topic gives each step its latest message at or before the step. A spec may choose further topics, and the one
    whose messages are the steps.

    Raises SourceError when a file is missing or is not an MCAP file, or holds neither camera nor signal.
    """
    uri, span = recorded.uri, recorded.span
    files = recording_files(uri)
    row = span.row if span else read_session_row(files) if recorded.format == MCAP_FORMAT else VideoRow()
    contents = (_read_contents_once if span else read_recording_messages)(files, recorded.topics)
    contents = settle_topic_clocks(contents)
    tracks = _build_tracks(contents, uri)
    clock = compute_recording_steps(contents, tracks, span, recorded.rate_hz, uri, recorded.topics.steps)
    if span is None:
        check_topics_meet_steps(contents, tracks, clock.times, uri, recorded.topics.numbers)
    trajectory = _make_trajectory(contents, tracks, clock.times)
    episode = make_episode(
        recorded,
        trajectory,
        _instruction_texts(contents, span, row.instruction),
        source=uri,
        content_hash=_content_hash(files, span),
        rate_hz=clock.rate_hz,
        rate_source=clock.rate_source,
        cameras=tuple(_make_cameras(contents, uri, clock, recorded.format)),
        metadata={**_make_metadata(contents, tracks, clock), **_spec_texts(contents, span), **row.metadata},
        robot=row.robot,
        success=row.success,
        success_source=row.success_source,
    )
    _add_time_warnings(contents, tracks, clock.times, span)
    arrays = tuple(source_arrays(contents, tracks, recorded.topics.steps))
    record = Record(episode=episode, trajectory=trajectory, arrays=arrays, has_stamps=clock.has_stamps)
    return replace(record, warnings=tuple(contents.warnings))


def _content_hash(files: list[str], span: RecordedSpan | None) -> str:
    try:
        file_hash = hash_media_files(files)
    except OSError as error:
        raise SourceError("file cannot be read", f"{error.filename}: {describe_os_error(error)}") from None
    if span is None:
        return file_hash
    return hashlib.blake2b(f"{file_hash} {span.start} {span.stop}".encode(), digest_size=16).hexdigest()


def _read_contents_once(files: list[str], spec_topics: TopicsOfSpec) -> RecordingContents:
    """Read a recording that holds several episodes, once for all of them."""
    states = tuple((path, *_file_state(path)) for path in files)
    contents = _cached_contents(states, spec_topics)
    return replace(contents, warnings=dict(contents.warnings))


def _file_state(path: str) -> FileState:
    try:
        return file_state(path)
    except OSError as error:
        raise SourceError("file cannot be read", f"{path}: {describe_os_error(error)}") from None


@functools.lru_cache(maxsize=2)
def _cached_contents(files: tuple[tuple[str, int, str], ...], spec_topics: TopicsOfSpec) -> RecordingContents:
    return read_recording_messages([path for path, _, _ in files], spec_topics)


def _spec_texts(contents: RecordingContents, span: RecordedSpan | None) -> dict[str, Json]:
    """The texts of each topic that a spec names as language, within the episode, as fields of the metadata."""
    return {
        topic: list(distinct_texts(_texts_in_span(texts, span)))
        for topic, texts in contents.spec_texts.items()
    }


def _instruction_texts(contents: RecordingContents, span: RecordedSpan | None, declared: str) -> list[str]:
    """Instructions: the declared one and those published in the span, else the last one before it."""
    is_earlier = span is not None and not _is_inside(contents.texts, span)
    return [declared, *([] if declared and is_earlier else _texts_in_span(contents.texts, span))]


def _is_inside(texts: list[tuple[int, str]], span: RecordedSpan) -> bool:
    return any(span.start <= time < span.stop for time, _ in texts)


def _texts_in_span(texts: list[tuple[int, str]], span: RecordedSpan | None) -> list[str]:
    """The texts of a span in the order of their times, else the last one before it; all of them without a span."""
    ordered = sorted(texts, key=lambda entry: entry[0])
    if span is None:
        return [text for _, text in ordered]
    inside = [text for time, text in ordered if span.start <= time < span.stop]
    return inside or [text for time, text in ordered if time < span.start][-1:]


def _no_content_error(contents: RecordingContents, uri: str) -> SourceError:
    """The error for a recording without camera and signal, with its topics and why they are not used."""
    parts = [f"{topic} ({schema})" for topic, schema in contents.unused.items()]
    parts += [f"{topic} ({error})" for topic, error in contents.skipped.items()]
    parts += [text for text in contents.warnings if not text.startswith("topic ")]
    is_unreadable = contents.skipped and not contents.unused
    reason = "no topic can be read" if is_unreadable else "holds no camera and no signal"
    topics = "; ".join(parts[:12]) or "no topic"
    return SourceError(reason, f"{uri}: {count_of(contents.num_messages, 'message')}; {topics}")


def _build_tracks(contents: RecordingContents, uri: str) -> dict[str, Mapping[str, SignalTrack]]:
    """Tracks by topic and field, for the fields that have values; the first field is the main one.

    Raises SourceError when there is neither a track nor an image.
    """
    tracks: dict[str, Mapping[str, SignalTrack]] = {
        topic: {
            name: build_signal_track(contents.signals[topic], name)
            for name in contents.signals[topic].fields()
        }
        for topic in sorted(contents.signals)
    }
    tracks = {topic: fields for topic, fields in tracks.items() if fields}
    if not contents.images and not tracks:
        raise _no_content_error(contents, uri)
    return tracks


def _main_track(fields: Mapping[str, SignalTrack]) -> SignalTrack:
    return next(iter(fields.values()))


def _make_trajectory(
    contents: RecordingContents,
    tracks: Mapping[str, Mapping[str, SignalTrack]],
    step_times: NDArray[np.int64],
) -> Trajectory:
    states = {topic: fields for topic, fields in tracks.items() if contents.uses[topic] == "joints"}
    extra = {topic: fields for topic, fields in tracks.items() if contents.uses[topic] == "spec"}
    actions = {topic: fields for topic, fields in tracks.items() if topic not in {**states, **extra}}
    for topic, fields in actions.items():
        if "position" not in fields:
            contents.warn(f"action topic {topic} holds {next(iter(fields))}, not position")
    signals = {
        name: _join_tracks(
            {topic: fields[name] for topic, fields in states.items() if name in fields}, step_times
        )
        for name in SIGNAL_FIELDS
    }
    state = signals.pop("position")
    signals |= {
        topic: _join_tracks({topic: _main_track(fields)}, step_times) for topic, fields in extra.items()
    }
    return Trajectory(
        timestamps=(step_times - step_times[0]) / 1e9,
        state=state,
        action=_join_tracks({topic: _main_track(fields) for topic, fields in actions.items()}, step_times),
        extra={name: signal for name, signal in signals.items() if signal is not None},
    )


def _join_tracks(tracks: Mapping[str, SignalTrack], step_times: NDArray[np.int64]) -> Signal | None:
    """Join topics side by side on the step clock; where names repeat, all get their topic as prefix."""
    import numpy as np

    if not tracks:
        return None
    columns = [(topic, name) for topic, track in tracks.items() for name in track.signal.names]
    names = tuple(name for _, name in columns)
    if len(set(names)) < len(names):
        names = tuple(f"{topic}/{name}" for topic, name in columns)
    values = [
        track.signal.values[np.maximum(np.searchsorted(track.times, step_times, side="right") - 1, 0)]
        for track in tracks.values()
    ]
    return Signal(np.concatenate(values, axis=1), names)


def _camera_names(topics: list[str]) -> dict[str, str]:
    """Name of each camera by topic: the topic without common parts such as "image_raw", where that is unique."""
    short = {
        topic: "_".join(part for part in topic.split("/") if part and part not in _COMMON_PARTS)
        for topic in topics
    }
    names = list(short.values())
    return {topic: name or "camera" if names.count(name) == 1 else topic for topic, name in short.items()}


def _make_cameras(contents: RecordingContents, uri: str, clock: StepClock, format: str) -> Iterator[Camera]:
    kind: Kind = "mcap" if format == MCAP_FORMAT else "bag"
    for topic, name in _camera_names(sorted(contents.images)).items():
        yield _make_camera(contents, uri, topic, name, clock, kind)


def _make_camera(
    contents: RecordingContents, uri: str, topic: str, name: str, clock: StepClock, kind: Kind
) -> Camera:
    images, info = contents.images[topic], contents.image_infos[topic]
    start, stop = (float(clock.times[step] - images.start) / 1e9 for step in (0, -1))
    first = first_image_at(images.seconds, start)
    last = max(first_image_at(images.seconds, stop), first)
    num_frames, duration = last - first + 1, float(clock.times[-1] - clock.times[0]) / 1e9 + 1 / clock.rate_hz
    image_seconds = images.seconds[last] - images.seconds[first]
    rate_hz = (num_frames - 1) / image_seconds if image_seconds > 0 else num_frames / duration
    is_step_rate = abs(rate_hz - clock.rate_hz) <= RATE_TOLERANCE * clock.rate_hz
    if num_frames == len(clock.times) and is_step_rate:
        rate_hz = clock.rate_hz  # the images are the steps
    media = MediaRef(
        kind=kind,
        uri=uri,
        start_seconds=start,
        stop_seconds=start + duration,
        num_frames=num_frames,
        rate_hz=rate_hz,
        key=topic + PUBLISHED if topic in contents.published else topic,
    )
    flags = frozen_camera_flags(media, _inactive_spans(images, info.width * info.height), first)
    return describe_camera(name, info, media, flags=flags)


def _inactive_spans(images: TopicImages, pixels: int) -> FrameSpans:
    """Spans in which the images of a topic seem not to change."""
    if images.kind == "video":
        keyframes = set(images.keyframes)
        is_key = [number in keyframes for number in range(len(images.sizes))]
        return find_inactive_spans(images.sizes, is_key, pixels)
    return ((0, len(images.sizes)),) if images.identical and len(images.sizes) > 2 else ()


def _make_metadata(
    contents: RecordingContents,
    tracks: Mapping[str, Mapping[str, SignalTrack]],
    clock: StepClock,
) -> dict[str, Json]:
    """Start time, and which topics are used and which are not."""
    metadata: dict[str, Json] = {"start_stamp_seconds": float(clock.times[0]) / 1e9}
    for key, uses in _TOPIC_KEYS:
        topics: list[Json] = [topic for topic in tracks if contents.uses[topic] in uses]
        if topics:
            metadata[key] = topics
    if contents.unused:
        metadata["unused_topics"] = dict(sorted(contents.unused.items()))
    return add_depth(metadata, _depth_topics(contents))


def _depth_topics(contents: RecordingContents) -> dict[str, Json]:
    """The depth of the recording by camera; the range is that of the first picture of a topic."""
    names = _camera_names(sorted(contents.depth))
    return {
        name: {**contents.depth[topic], "frames": contents.num_depth_frames[topic]}
        for topic, name in names.items()
    }


def _add_time_warnings(
    contents: RecordingContents,
    tracks: Mapping[str, Mapping[str, SignalTrack]],
    step_times: NDArray[np.int64],
    span: RecordedSpan | None,
) -> None:
    """Add warnings about the times and the values of every topic that is used."""
    for topic in sorted(contents.images):
        images = contents.images[topic]
        for text in check_topic_times(
            select_times_in_span(read_image_times(images), span),
            step_times,
            has_header_times=images.has_header_times or topic in contents.published,
            in_time_order=images.in_time_order,
        ):
            contents.warn(f"topic {topic} {text}")
    for topic, fields in tracks.items():
        track = _main_track(fields)
        for text in check_topic_times(
            select_times_in_span(track.times, span),
            step_times,
            has_header_times=track.has_header_times or topic in contents.published,
            in_time_order=track.in_time_order,
        ):
            contents.warn(f"topic {topic} {text}")
        if any(track.is_rounded for track in fields.values()):
            contents.warn(ROUNDED_WARNING)
        if any(track.overflows for track in fields.values()):
            contents.warn(f"topic {topic} has values beyond float32; they are infinite")
        if not track.is_complete:
            contents.warn(f"topic {topic} lacks some joints in some messages; they keep their last value")
