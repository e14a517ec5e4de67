"""One MCAP recording made into a record: cameras and signals on one step clock, by the stamps of the messages."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ares.episode import Camera, Episode, Json, Record, Signal, Trajectory
from ares.errors import SourceError
from ares.files import State, state, words
from ares.media.mcap import first_shown
from ares.media.mcap_file import files_of
from ares.media.mcap_index import Images
from ares.media.quiet import Spans, quiet_spans
from ares.media.ref import MediaRef
from ares.media.still import still_flags
from ingest.mcap_clock import NEAR_WHOLE, at_of, inside_of, odd, steps_of
from ingest.mcap_spans import Span
from ingest.mcap_topics import Heardings, Track, listen, track
from ingest.roles import camera_role, distinct
from ingest.video_record import content_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = "mcap"

_USES = (("state_topics", ("joints",)), ("action_topics", ("action", "array")))
ROUNDED = "float64 numbers are stored as float32"
_PLAIN = frozenset(
    {"camera", "cameras", "image", "images", "compressed", "image_raw", "image_rect", "image_color", "video"}
)


def load_recording(
    uri: str, key: str, dataset: str, episode_id: str, user_rate_hz: float | None, span: Span | None = None
) -> Record:
    """Read a recording, or the part of it in a span: signals as they are, of the images where they stand.

    The steps are the images of the first camera, by name, that has more than one, else the messages of the first
    signal, or, at a rate given by the user, evenly spaced over the same time; every other topic gives each step
    its latest message at or before it.

    Raises SourceError when a file is missing or no MCAP, or there is neither camera nor signal in it.
    """
    files = files_of(uri)
    found = _heard(files) if span else listen(files)
    tracks = {name: fields for name in sorted(found.signals) if (fields := _tracks(found, name))}
    if not found.images and not tracks:
        nothing = (
            "no topic can be read" if found.skipped and not found.unused else "holds no camera and no signal"
        )
        raise SourceError(nothing, f"{uri}: {_contents(found)}")
    clock, rate_hz, rate_source, measured = steps_of(found, tracks, span, user_rate_hz, uri)
    trajectory = _trajectory(found, tracks, clock)
    names = _camera_names(sorted(found.images))
    instructions = distinct(_texts(found, span))
    cameras = tuple(_camera(found, uri, topic, name, clock, rate_hz) for topic, name in names.items())
    episode = Episode(
        episode_id=episode_id,
        format=FORMAT,
        dataset=dataset,
        version="",
        split="",
        key=key,
        source=uri,
        content_hash=_hash(files, span),
        instruction=instructions[0] if instructions else "",
        instructions=instructions,
        robot=span.robot if span else "",
        num_steps=len(clock),
        rate_hz=rate_hz,
        rate_source=rate_source,
        cameras=cameras,
        success=span.success if span else None,
        success_source="success" if span and span.success is not None else "",
        state_names=trajectory.state.names if trajectory.state else (),
        action_names=trajectory.action.names if trajectory.action else (),
        metadata={**_metadata(found, tracks, clock), **measured, **(span.metadata if span else {})},
    )
    _check(found, tracks, clock, span)
    return Record(episode=episode, trajectory=trajectory, warnings=tuple(found.warnings))


def _hash(files: list[str], span: Span | None) -> str:
    try:
        whole = content_hash(files)
    except OSError as error:
        raise SourceError("file cannot be read", f"{error.filename}: {words(error)}") from None
    if span is None:
        return whole
    return hashlib.blake2b(f"{whole} {span.start} {span.stop}".encode(), digest_size=16).hexdigest()


def _heard(files: list[str]) -> Heardings:
    """A recording that holds several episodes, listened to once for all of them."""
    states = tuple((path, *_state(path)) for path in files)
    found = _listened(states)
    return replace(found, warnings=dict(found.warnings))


def _state(path: str) -> State:
    try:
        return state(path)
    except OSError as error:
        raise SourceError("file cannot be read", f"{path}: {words(error)}") from None


@functools.lru_cache(maxsize=2)
def _listened(files: tuple[tuple[str, int, str], ...]) -> Heardings:
    return listen([path for path, _, _ in files])


def _texts(found: Heardings, span: Span | None) -> list[str]:
    """What was to be done: what the span says, and what was said in it (or last before it)."""
    texts = sorted(found.texts, key=lambda each: each[0])
    if span is None:
        return [text for _, text in texts]
    before = [text for at, text in texts if at < span.start][-1:]
    inside = [text for at, text in texts if span.start <= at < span.stop]
    return [span.instruction, *(inside or ([] if span.instruction else before))]


def _contents(found: Heardings) -> str:
    """What stands in a recording that is of no use."""
    told = [f"{topic} ({schema})" for topic, schema in found.unused.items()]
    told += [f"{topic} ({error})" for topic, error in found.skipped.items()]
    told += [text for text in found.warnings if not text.startswith("topic ")]
    return f"{found.messages} messages; " + ("; ".join(told[:12]) or "no topic")


def _tracks(found: Heardings, topic: str) -> dict[str, Track]:
    """The fields of a signal topic that hold values, the first one being what it is about."""
    return {name: track(found.signals[topic], name) for name in found.signals[topic].fields()}


def _trajectory(
    found: Heardings, tracks: Mapping[str, Mapping[str, Track]], clock: NDArray[np.int64]
) -> Trajectory:
    states = [topic for topic in tracks if found.uses[topic] == "joints"]
    actions = {topic: tracks[topic] for topic in tracks if topic not in states}
    fields = {
        name: _joined({topic: tracks[topic][name] for topic in states if name in tracks[topic]}, clock)
        for name in ("position", "velocity", "effort")
    }
    for topic, held in actions.items():
        if "position" not in held:
            found.warn(f"action topic {topic} holds {next(iter(held))}, not position")
    extra = {name: fields[name] for name in ("velocity", "effort")}
    return Trajectory(
        timestamps=(clock - clock[0]) / 1e9,
        state=fields["position"],
        action=_joined({topic: next(iter(held.values())) for topic, held in actions.items()}, clock),
        extra={name: signal for name, signal in extra.items() if signal is not None},
    )


def _joined(tracks: Mapping[str, Track], clock: NDArray[np.int64]) -> Signal | None:
    """Topics side by side on the step clock; names that two of them share get the topic's before them."""
    import numpy as np

    if not tracks:
        return None
    names = [(topic, name) for topic, each in tracks.items() for name in each.signal.names]
    plain = [name for _, name in names]
    unique = len(set(plain)) == len(plain)
    rows = [
        each.signal.values[np.maximum(np.searchsorted(each.at, clock, side="right") - 1, 0)]
        for each in tracks.values()
    ]
    whole = tuple(plain) if unique else tuple(f"{topic}/{name}" for topic, name in names)
    return Signal(np.concatenate(rows, axis=1), whole)


def _camera_names(topics: list[str]) -> dict[str, str]:
    """A camera's name: its topic without the parts that only say how images are sent, where that stays unique."""
    short = {
        topic: "_".join(part for part in topic.split("/") if part and part not in _PLAIN) for topic in topics
    }
    names = list(short.values())
    return {topic: name or "camera" if names.count(name) == 1 else topic for topic, name in short.items()}


def _camera(
    found: Heardings, uri: str, topic: str, name: str, clock: NDArray[np.int64], rate_hz: float
) -> Camera:
    images, info = found.images[topic], found.infos[topic]
    start = float(clock[0] - images.start) / 1e9
    first = first_shown(images.seconds, start)
    last = max(first_shown(images.seconds, float(clock[-1] - images.start) / 1e9), first)
    span = images.seconds[last] - images.seconds[first]
    count, duration = last - first + 1, len(clock) / rate_hz
    own = (count - 1) / span if span > 0 else count / duration
    media = MediaRef(
        kind="mcap",
        uri=uri,
        start_seconds=start,
        stop_seconds=start + duration,
        num_frames=count,
        # Of images that are the steps, the rate is that of the steps.
        rate_hz=rate_hz if count == len(clock) and abs(own - rate_hz) <= NEAR_WHOLE * rate_hz else own,
        key=topic,
    )
    return Camera(
        name=name,
        role=camera_role(name),
        width=info.width,
        height=info.height,
        codec=info.codec,
        media=media,
        flags=still_flags(media, _quiet(images, info.width * info.height), first),
    )


def _quiet(images: Images, pixels: int) -> Spans:
    """Where the images of a topic seem not to change."""
    if images.kind == "video":
        keys = set(images.keys)
        return quiet_spans(images.sizes, [number in keys for number in range(len(images.sizes))], pixels)
    return ((0, len(images.sizes)),) if images.same and len(images.sizes) > 2 else ()


def _metadata(
    found: Heardings, tracks: Mapping[str, Mapping[str, Track]], clock: NDArray[np.int64]
) -> dict[str, Json]:
    """When it was recorded, and what is used and what not."""
    made: dict[str, Json] = {"start_stamp_seconds": float(clock[0]) / 1e9}
    for use, kinds in _USES:
        topics: list[Json] = [topic for topic in tracks if found.uses[topic] in kinds]
        if topics:
            made[use] = topics
    if found.unused:
        made["unused_topics"] = dict(sorted(found.unused.items()))
    return made


def _check(
    found: Heardings, tracks: Mapping[str, Mapping[str, Track]], clock: NDArray[np.int64], span: Span | None
) -> None:
    """Say what is odd about the stamps of every topic that is used."""
    for topic in sorted(found.images):
        images = found.images[topic]
        for text in odd(inside_of(at_of(images), span), clock, images.stamped, images.sorted):
            found.warn(f"topic {topic} {text}")
    for topic, fields in tracks.items():
        held = next(iter(fields.values()))
        for text in odd(inside_of(held.at, span), clock, held.stamped, held.sorted):
            found.warn(f"topic {topic} {text}")
        if any(field.rounded for field in fields.values()):
            found.warn(ROUNDED)
        if any(field.too_large for field in fields.values()):
            found.warn(f"topic {topic} has values beyond float32; they are infinite")
        if not held.complete:
            found.warn(f"topic {topic} lacks some joints in some messages; they keep their last value")
