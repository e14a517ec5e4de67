"""Episode, Camera, Signal, Trajectory, SourceSegment, Record: shapes, units and identity of one recorded episode."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from typing_extensions import TypeAliasType

from ares.process_tuning import fast_slots_pickling

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray


Kind = Literal["mp4", "tfrecord", "hdf5", "mcap", "bag", "parquet", "zarr", "npy", "images"]
Channels = Literal["rgb", "bgr"]
# What makes stored pictures stand upright: degrees by which they are turned clockwise, or a flip.
Turn = Literal["90", "180", "270", "vertical flip", "horizontal flip"]
# Topics of a recording: their images have separate clocks.
TOPIC_KINDS = frozenset({"mcap", "bag"})
# Field of the metadata: names of the cameras that the source names and of which it has no pictures.
MISSING_CAMERAS = "missing_cameras"
# Field of the metadata: what else the source promises and could not be read, each in words.
UNREAD = "unread"
# Flag of a camera whose video is cut within the episode: the rest may be on its way.
CUT_CAMERA = "cut"
# Field of the metadata: where the depth of each camera is, which is no camera of colours, and its range and unit.
DEPTH_CAMERAS = "depth_cameras"
# Field of the metadata: key, dtype and shape of a step of each further signal in the source, where these are others.
SIGNAL_TYPES = "signal_types"
# Style of the segments, and name of the signal, that say where a person acted in place of the policy.
INTERVENTION = "intervention"
# Field of the metadata, and column: the share of the steps at which a person did.
INTERVENTION_SHARE = "intervention_share"
# Used when the source states no rate; always shown with rate_source="assumed".
ASSUMED_RATE_HZ = 10.0
# In place of the annotation of a span: the span is what a trim left of its episode.
TRIMMED = "trim"


def format_duration(seconds: float) -> str:
    """A length of time: seconds below two minutes ("5.2 s"), then minutes ("3.5 min"), from two hours on hours."""
    units = ((7200.0, 3600.0, "h"), (120.0, 60.0, "min"), (0.0, 1.0, "s"))
    size, unit = next(((size, unit) for least, size, unit in units if seconds >= least), (1.0, "s"))
    number = seconds / size
    text = f"{number:.2g}" if abs(number) < 1 else f"{number:,.1f}".removesuffix(".0")
    return f"{text} {unit}"


def describe_seconds(seconds: float) -> str:
    """An estimated time in words, with two digits: "about 40 s", "about 3 min", "about 2.2 h"."""
    return f"about {format_duration(float(f'{max(1.0, seconds):.2g}'))}"


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRef:
    """A pointer to frames in a source file.

    Attributes:
        kind: Container format; one reader in ares/media/readers per kind.
        uri: Absolute path or URL of the file; of a folder of images its path with "/" at the end.
        start_seconds: First second of the episode inside the file (a span of a shared mp4), or its first row /
            rate_hz (parquet, zarr, npy), or its start on the clock of the images' names (images); 0.0 otherwise.
        stop_seconds: End of the span in the file, half open; start_seconds + duration for image sequences.
        num_frames: Frames in the span.
        rate_hz: Frames per second of the span.
        byte_offset: First byte of the record (tfrecord payload), or its number in an ArrayRecord file; 0 otherwise.
        byte_size: Bytes of the record, or of a file copied into the workspace; 0 for a whole source file.
        key: Stream inside the file: feature key (tfrecord), dataset (hdf5), topic (mcap, bag), column
            (parquet), array (zarr, npy), text before the numbers or column of a table (images); "" for mp4.
        channels: Stored order of the colours; "bgr" where the source swapped red and blue by mistake. Decoded frames
            are always upright RGB. Earlier versions wrote the turn behind it ("rgb 180"); that is read as `turn`.
        stamp: Fingerprint of the file when it was ingested, see `ares.media.fingerprint`; "" when not known.
        turn: What makes the stored pictures stand upright; "" where they do.
        fit: Width and height that decoded frames are made to fit, as the plan of a merge says; None for their size.
    """

    kind: Kind
    uri: str
    start_seconds: float
    stop_seconds: float
    num_frames: int
    rate_hz: float
    byte_offset: int = 0
    byte_size: int = 0
    key: str = ""
    channels: str = "rgb"
    stamp: str = ""
    turn: Turn | Literal[""] = ""
    fit: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        channels, _, turn = self.channels.partition(" ")
        if turn:
            object.__setattr__(self, "channels", channels)
            object.__setattr__(self, "turn", turn)

    @property
    def pixel_order(self) -> str:
        """Colours and turn in one text, as a workspace stores them: "rgb", "bgr 90"."""
        return f"{self.channels} {self.turn}".rstrip()

    @property
    def is_as_stored(self) -> bool:
        """Whether decoded frames are the stored ones: RGB, upright and not resized."""
        return self.channels == "rgb" and not self.turn and self.fit is None


Json = TypeAliasType("Json", "bool | int | float | str | list[Json] | Mapping[str, Json] | None")
RateSource = Literal["source", "spec", "user", "format", "assumed", "measured"]
FramePairing = Literal["index", "stamp"]
Role = Literal["front", "side", "top", "wrist", "other"]


def make_episode_id(*, format: str, dataset: str, version: str, split: str, key: str) -> str:
    """Return the id of an episode: 16 hex digits, independent of the folder that holds the dataset."""
    text = "\x1f".join((format, dataset, version, split, key))
    # A file name that is not UTF-8 has an id too: by it the record fails alone.
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True)
class Camera:
    """One camera of an episode.

    Attributes:
        name: The source's name ("image_0", "front").
        role: Viewpoint, as far as the source states it.
        width: Pixels.
        height: Pixels.
        codec: "h264", "av1", "jpeg", "png" and the like.
        media: Location of its frames.
        flags: Defects ("black", "frozen", "cut": its file ends before it says); empty for a good camera.
    """

    name: str
    role: Role
    width: int
    height: int
    codec: str
    media: MediaRef
    flags: tuple[str, ...] = ()


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One recorded episode without its signals, small enough to keep thousands in memory.

    All times are float64 seconds from the start of the episode; spans are half open.

    Attributes:
        episode_id: 16 hex digits, see `make_episode_id`.
        content_hash: Hash of the source bytes; equal for the same record in two splits.
        source: Absolute path or URL of the file that the episode was read from.
        instruction: First nonempty instruction, or "".
        instructions: Every different instruction, in order of appearance.
        num_steps: Steps; for raw video the frames of its first camera.
        rate_hz: Steps per second.
        rate_source: Origin of the rate; "assumed" is a guess and shown as such, "measured" is by the stamps, "format"
            is the rate at which the format's publishers record all of its data.
        cameras: In source order.
        success: Outcome from a field that states it, or None when the source has none.
        success_source: That field's name, or "".
        state_names: Names of the state's dimensions, length S (empty without state).
        action_names: Names of the action's dimensions, length A (empty without action).
        metadata: Other information of the source about the episode, small JSON.
        source_stamp: Fingerprint of the source file when it was ingested, see `ares.media.fingerprint`; "" when not
            known.
        label_stamp: Hash of what files beside the record said of it when it was ingested, "" for nothing or not known,
            "unread" where one of them could not be read.
        frame_pairing: "index" where the format promises a frame per step, and frame i belongs to step i; "stamp" where
            a step has the frame that is shown at its second.
        claimed_rate_hz: Rate that the source, its spec or the user states; None where none does.
        measured_rate_hz: Rate by the stamps, see `ares.clock.measure_clock`; None without stamps.
        rate_spread: Interquartile range of the periods over the median period; None without stamps.
        clock_shift_seconds: Largest difference between the stamp of a step and step / rate_hz; 0 for an even clock.
        stamped_duration_seconds: Duration by the stamps where the clock is not even; None for num_steps / rate_hz.
        recorded: What the source says where people say something else: "instruction" and "success", as far as so.
    """

    episode_id: str
    format: str
    dataset: str
    version: str
    split: str
    key: str
    source: str
    content_hash: str
    instruction: str
    instructions: tuple[str, ...]
    robot: str
    num_steps: int
    rate_hz: float
    rate_source: RateSource
    cameras: tuple[Camera, ...]
    success: bool | None = None
    success_source: str = ""
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    metadata: Mapping[str, Json] = field(default_factory=dict)
    source_stamp: str = ""
    label_stamp: str = ""
    frame_pairing: FramePairing = "stamp"
    claimed_rate_hz: float | None = None
    measured_rate_hz: float | None = None
    rate_spread: float | None = None
    clock_shift_seconds: float = 0.0
    stamped_duration_seconds: float | None = None
    recorded: Mapping[str, Json] = field(default_factory=dict)

    @property
    def duration_seconds(self) -> float:
        """Length of the time span [0, duration) that the steps cover."""
        return self.stamped_duration_seconds or self.num_steps / self.rate_hz

    @property
    def good_cameras(self) -> tuple[Camera, ...]:
        """Cameras without a flag, best view for a captioner first; all of them when none is good."""
        good = [camera for camera in self.cameras if not camera.flags] or list(self.cameras)
        order = ("front", "side", "top", "other", "wrist")
        return tuple(sorted(good, key=lambda camera: order.index(camera.role)))

    @property
    def depth_texts(self) -> tuple[str, ...]:
        """The depth of each camera in words: size, range, unit and where it is."""
        depth = self.metadata.get(DEPTH_CAMERAS)
        if not depth or not _is_object(depth):
            return ()
        return tuple(_describe_depth(name, facts) for name, facts in depth.items())

    def camera(self, name: str) -> Camera:
        """Return the camera of that name. Raises RequestError that lists the existing names."""
        from ares.errors import RequestError
        from ares.registry import did_you_mean

        for camera in self.cameras:
            if camera.name == name:
                return camera
        names = [camera.name for camera in self.cameras]
        raise RequestError(
            f"no camera {name!r} in episode {self.episode_id}",
            f"{did_you_mean(name, names)}there are: {', '.join(names)}",
        )


def _is_object(value: Json) -> TypeGuard[Mapping[str, Json]]:
    return isinstance(value, Mapping)


def _describe_depth(name: str, facts: Json) -> str:
    """For example "top: 40 pictures of 48 x 64, 0.2 to 5.9 m, in /data/top/"."""
    if not _is_object(facts):
        return name
    low, high, unit = (facts.get(f"depth_{part}") for part in ("min", "max", "unit"))
    parts = [
        f"{facts['frames']} pictures of {facts['height']} x {facts['width']}" if facts.get("frames") else "",
        f"{low:.4g} to {high:.4g} {unit or 'of unknown unit'}"
        if isinstance(low, int | float) and isinstance(high, int | float)
        else "",
        f"in {location}" if (location := facts.get("path") or facts.get("topic")) else "",
    ]
    return f"{name}: {', '.join(filter(None, parts))}"


@fast_slots_pickling
@dataclass(frozen=True, slots=True, eq=False)
class Signal:
    """A signal over the steps of an episode.

    Attributes:
        values: (T, D) float32.
        names: Names of the D dimensions.
    """

    values: NDArray[np.float32]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.names):
            raise ValueError(f"values must be (T, {len(self.names)}), but got {self.values.shape}")

    def __repr__(self) -> str:
        return f"Signal{self.values.shape}"


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trajectory:
    """The signals of an episode, one row per step.

    Attributes:
        timestamps: (T,) float64 seconds from the start of the episode.
        state: (T, S), or None where the source has none.
        action: (T, A), or None where the source has none.
        reward: (T,) float32 or None.
        extra: Further signals by name ("discount", "is_terminal", "language_embedding").
    """

    timestamps: NDArray[np.float64]
    state: Signal | None = None
    action: Signal | None = None
    reward: NDArray[np.float32] | None = None
    extra: Mapping[str, Signal] = field(default_factory=dict)

    def to_pandas(self) -> pd.DataFrame:
        """The signals as a pandas DataFrame, a row per step: seconds, reward, state.x, ..., action.x, ..., others.

            >>> episode.trajectory.to_pandas().plot(x="seconds")

        Raises:
            RequestError: pandas is not installed.
        """
        from ares.imports import import_optional

        named = [("state", self.state), ("action", self.action), *self.extra.items()]
        columns: dict[str, NDArray[Any]] = {"seconds": self.timestamps}
        if self.reward is not None:
            columns["reward"] = self.reward
        for name, signal in ((name, signal) for name, signal in named if signal is not None):
            for number, dimension in enumerate(signal.names):
                columns[_column_name(name, dimension, columns)] = signal.values[:, number]
        return import_optional("pandas").DataFrame(columns)

    def __repr__(self) -> str:
        return f"Trajectory(steps={len(self.timestamps)}, state={self.state}, action={self.action})"


def _column_name(signal: str, dimension: str, columns: Mapping[str, object]) -> str:
    """For example "state.x"; a number follows where two dimensions have one name."""
    name = dimension if dimension.startswith(signal) else f"{signal}.{dimension}"
    number = 2
    while name in columns:
        name, number = f"{signal}.{dimension}.{number}", number + 1
    return name


ArrayUse = Literal["state", "action", "reward", "time", "ends", "extra", "kept", "unused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceArray:
    """An array, column or topic of a source, and what a record uses it as.

    Attributes:
        key: Its name in the source.
        use: Its role; "kept" where it is elsewhere in the record, "unused" where it is not stored.
        name: Name of the extra signal that it is, or is a part of; "" for another use.
        shape: Its shape, (T, ...).
        dtype: Its type in the source, such as "float64"; "" where it is not known.
        note: Why it is unused, or "".
        names_vary: Whether the names of the dimensions differ from record to record.
    """

    key: str
    use: ArrayUse
    name: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    note: str = ""
    names_vary: bool = False

    @property
    def width(self) -> int:
        """Numbers per step."""
        return math.prod(self.shape[1:])


class NotRead(str):
    """A warning that a part of the source was not read.

    Args:
        text: The warning.
        key: The array, column or topic that it names, "" for anything else.
    """

    def __new__(cls, text: str, key: str = "") -> NotRead:
        """A text that knows its key."""
        warning = super().__new__(cls, text)
        warning.key = key
        return warning

    key: str


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSegment:
    """A span of an episode that its source names, and what it says of it.

    Attributes:
        style: What kind of text it is ("subtask", "plan", "vqa"), as the source calls it.
        text: What the source says of it; "" for a span alone.
        start_seconds: Start of the span [start, stop), float64 seconds from the start of the episode.
        stop_seconds: End of the span; the start again for an instant, `math.inf` for the end of the episode.
        author: "person", the name of a model, or "" where the source does not say.
        role: Who speaks ("user", "assistant"), or "".
        camera: The camera that it is about, or "".
        fields: What else the source says of it, small JSON ("tool_calls", "skill").
    """

    style: str
    text: str
    start_seconds: float
    stop_seconds: float
    author: str = ""
    role: str = ""
    camera: str = ""
    fields: Mapping[str, Json] = field(default_factory=dict)


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part [start, stop) of an episode, and the text of the segment that it was made from.

    Attributes:
        episode_id: The episode.
        start_seconds: Start, seconds from the start of the episode; a set keeps whole microseconds.
        stop_seconds: End, half open.
        annotation_id: The segment that it was made from, or ""; TRIMMED for the one part that an export kept.
        text: The text of that segment at the time, or "".
    """

    episode_id: str
    start_seconds: float
    stop_seconds: float
    annotation_id: str = ""
    text: str = ""

    @property
    def stands_for_episode(self) -> bool:
        """Whether it is what a trim left of its episode, so that what is said of the episode holds for it."""
        return self.annotation_id == TRIMMED

    @property
    def line(self) -> str:
        """The span as one text, which `parse` reads; texts sort by episode, then by start and end."""
        seconds = f"{self.start_seconds:014.6f} {self.stop_seconds:014.6f}"
        return f"{self.episode_id} {seconds} {self.annotation_id} {self.text}"

    @classmethod
    def parse(cls, line: str) -> Span:
        """The span of a `line`. Raises ValueError for another text."""
        episode_id, start, stop, annotation_id, text = line.split(" ", 4)
        return cls(
            episode_id=episode_id,
            start_seconds=float(start),
            stop_seconds=float(stop),
            annotation_id=annotation_id,
            text=text,
        )

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        return f"{self.episode_id}, {self.start_seconds:g} to {self.stop_seconds:g} s"


@fast_slots_pickling
@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a source, as an ingester returns it.

    Attributes:
        episode: Everything but the signals.
        trajectory: The signals.
        warnings: Problems, with the same text for every case of one ("camera image_3 is black").
        arrays: What the signals were made of; those of one signal in the order of its dimensions.
        has_stamps: Whether the timestamps are the source's, and not computed from the rate.
        earlier_hash: The content hash that earlier versions of ARES stored for it, "" where that is the same.
        segments: What the source says of spans of the episode.
        revision: 0, or for one that was stored before a number that grows, see `ares.annotation.Annotation`.
    """

    episode: Episode
    trajectory: Trajectory
    warnings: tuple[str, ...] = ()
    arrays: tuple[SourceArray, ...] = ()
    has_stamps: bool = True
    earlier_hash: str = ""
    segments: tuple[SourceSegment, ...] = ()
    revision: int = 0
