"""Applies a spec to the records of any ingester: which arrays and fields it reads as what."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ares.checks import missing_cameras
from ares.console import count_of
from ares.episode import (
    INTERVENTION,
    MISSING_CAMERAS,
    SIGNAL_TYPES,
    ArrayUse,
    Camera,
    Episode,
    Json,
    Record,
    Signal,
    SourceArray,
    Trajectory,
)
from ares.errors import AresError, PluginError, SourceError
from ares.registry import did_you_mean
from ares_ingest.base import MISSING, Ingester, Item, Source, SourceOptions
from ares_ingest.files import add_missing_cameras
from ares_ingest.guarded_loading import call_ingester_safely
from ares_ingest.labels import SUBTASKS, open_with_labels, segment_subtasks
from ares_ingest.outcomes import OUTCOME, OUTCOME_SHARE
from ares_ingest.path_outcome import names_that_state_outcome, outcome_in_path
from ares_ingest.signals import numbered_names, spread_names
from ares_ingest.source_words import distinct_texts, guess_camera_role, is_outcome_word, parse_outcome

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares_ingest.spec import CameraSpec, DatasetSpec, SliceSpec, TextSpec


# What a reader says of how the pictures of an episode are stored; a spec that states their `turn` answers it.
_AS_STORED = "and are shown upright; `turn: none` of a camera in a spec takes them as stored"
PICTURES_FLIPPED = f"pictures are stored with their bottom row first, as the source says, {_AS_STORED}"
PICTURES_TURNED = f"pictures are turned as the layout says, {_AS_STORED}"
PICTURES_UNKNOWN = (
    "whether its pictures stand upright is not known, they are taken as stored: look at one, and state `turn: vertical"
    " flip` or `turn: none` of each camera in a spec"
)
_PICTURE_REMARKS = (PICTURES_FLIPPED, PICTURES_TURNED, PICTURES_UNKNOWN)
_OTHER_FORMATS = "field of the spec is for other formats"


def signal_arrays(record: Record) -> tuple[SourceArray, ...]:
    """The arrays of the signals; a signal whose arrays the reader does not tell counts as one array."""
    return tuple(
        array
        for use, name, signal in _signals_of_record(record)
        for array in _arrays_of_signal(record, use, name, signal)
    )


def _signals_of_record(record: Record) -> Iterator[tuple[ArrayUse, str, Signal]]:
    """Use, name (of extra signals) and values of each signal."""
    trajectory = record.trajectory
    if trajectory.state is not None:
        yield "state", "", trajectory.state
    if trajectory.action is not None:
        yield "action", "", trajectory.action
    if trajectory.reward is not None:
        yield "reward", "", Signal(trajectory.reward[:, None], ("reward",))
    for name, signal in trajectory.extra.items():
        yield "extra", name, signal


def _arrays_of_signal(record: Record, use: ArrayUse, name: str, signal: Signal) -> list[SourceArray]:
    parts = [array for array in record.arrays if array.use == use and array.name == name]
    if sum(array.width for array in parts) == signal.values.shape[1]:
        return parts
    return [SourceArray(key=name or use, use=use, name=name, shape=signal.values.shape, dtype="float32")]


def add_signal_types(record: Record) -> Record:
    """The record with the key, dtype and shape that its source has for further signals, where a record has others."""
    described: dict[str, Json] = {}
    for name, signal in record.trajectory.extra.items():
        parts = _arrays_of_signal(record, "extra", name, signal)
        stored = (name, "float32", signal.values.shape[1:])
        # A signal of another name is what a reader or a spec made of the array.
        is_array = len(parts) == 1 and f".{parts[0].key}".replace("/", ".").endswith(
            f".{name}".replace("/", ".")
        )
        if is_array and (parts[0].key, parts[0].dtype, parts[0].shape[1:]) != stored:
            described[name] = {
                "key": parts[0].key,
                "dtype": parts[0].dtype,
                "shape": list(parts[0].shape[1:]),
            }
    if not described or SIGNAL_TYPES in record.episode.metadata:
        return record
    metadata = {**record.episode.metadata, SIGNAL_TYPES: described}
    return replace(record, episode=replace(record.episode, metadata=metadata))


def read_signals_by_key(record: Record) -> dict[str, Signal]:
    """(T, D) of each array of the signals, with the names of its numbers."""
    signals: dict[str, Signal] = {}
    for use, name, signal in _signals_of_record(record):
        start = 0
        for array in _arrays_of_signal(record, use, name, signal):
            stop = start + array.width
            signals[array.key] = Signal(signal.values[:, start:stop], signal.names[start:stop])
            start = stop
    return signals


def make_full_slices(record: Record, use: ArrayUse, name: str = "") -> tuple[SliceSpec, ...]:
    """The slices of which a signal of the record is made: all numbers of each of its arrays."""
    from ares_ingest.spec import SliceSpec

    signals = read_signals_by_key(record)
    return tuple(
        SliceSpec(key=array.key, names=_shortest_names(signals[array.key].names))
        for array in signal_arrays(record)
        if (array.use, array.name) == (use, name)
    )


def _shortest_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """One name for numbered ones: it also fits the arrays of other records, which may be wider."""
    base = names[0].removesuffix("_0")
    return (base,) if names == numbered_names(base, len(names)) else names


def apply_spec_signals(record: Record, spec: DatasetSpec) -> Trajectory:
    """The signals as the spec assigns them; arrays that it does not name stay what they are, or become extra signals.

    Raises SourceError where the spec names an array that does not exist, or more numbers than it has.
    """
    from ares_ingest.spec import SliceSpec

    signals = read_signals_by_key(record)
    arrays = {array.key: array for array in signal_arrays(record)}
    others = {array.key: array for array in record.arrays if array.use not in ("time", "ends")} | arrays
    state = spec.state or _kept_slices(make_full_slices(record, "state"), spec)
    action = spec.action or _kept_slices(make_full_slices(record, "action"), spec)
    reward_arrays = [
        key for key, array in arrays.items() if array.use == "reward" and key not in spec.left_out
    ]
    reward = spec.reward or next(iter(reward_arrays), "")
    where = record.episode.source
    trajectory = replace(
        record.trajectory,
        state=_join_slices(state, signals, "state", where, others),
        action=_join_slices(action, signals, "action", where, others),
        reward=_single_numbers(reward, signals, where, others) if reward else None,
    )
    used = [*state, *action, *([SliceSpec(key=reward, names=(reward,))] if reward else [])]
    unused = {
        key: array
        for key, array in arrays.items()
        if key not in spec.left_out and not _is_covered(signals[key], key, used)
    }
    return replace(trajectory, extra=_extra_signals(unused, signals))


def _kept_slices(slices: Sequence[SliceSpec], spec: DatasetSpec) -> tuple[SliceSpec, ...]:
    return tuple(part for part in slices if part.key not in spec.left_out)


def _is_covered(signal: Signal, key: str, slices: Sequence[SliceSpec]) -> bool:
    """Whether the slices take every number of an array."""
    width = signal.values.shape[1]
    covered = {
        number for part in slices if part.key == key for number in range(part.start, part.stop or width)
    }
    return len(covered) == int(width)


def _extra_signals(arrays: Mapping[str, SourceArray], signals: Mapping[str, Signal]) -> dict[str, Signal]:
    """Extra signals of arrays without another use, under their names or their keys."""
    keys_by_name: dict[str, list[str]] = {}
    for key, array in arrays.items():
        keys_by_name.setdefault(array.name if array.use == "extra" else key, []).append(key)
    return {name: _concatenate_signals([signals[key] for key in keys]) for name, keys in keys_by_name.items()}


def _single_numbers(
    key: str, signals: Mapping[str, Signal], where: str, arrays: Mapping[str, SourceArray]
) -> NDArray[np.float32]:
    signal = _find_signal(key, signals, "reward", where, arrays)
    if signal.values.shape[1] != 1:
        raise SourceError(
            "reward of the spec is not one number per step", f"{where}: {key} has {signal.values.shape[1]}"
        )
    return signal.values[:, 0]


def _join_slices(
    slices: Sequence[SliceSpec],
    signals: Mapping[str, Signal],
    role: str,
    where: str,
    arrays: Mapping[str, SourceArray],
) -> Signal | None:
    """The slices side by side; None for no slice."""
    if not slices:
        return None
    parts = [
        _cut_slice(part, _find_signal(part.key, signals, role, where, arrays), role, where) for part in slices
    ]
    signal = _concatenate_signals(parts)
    if len(set(signal.names)) < len(signal.names):
        duplicate = next(name for name in signal.names if signal.names.count(name) > 1)
        raise SourceError(
            "two numbers of the spec have one name", f"{where}: {role} names {duplicate!r} twice"
        )
    return signal


def _find_signal(
    key: str, signals: Mapping[str, Signal], role: str, where: str, arrays: Mapping[str, SourceArray]
) -> Signal:
    if key in signals:
        return signals[key]
    contents = ", ".join(
        f"{name} (T x {signals[name].values.shape[1]})"
        if name in signals
        else f"{name} ({array.dtype}, no signal)"
        for name, array in arrays.items()
    )
    reason = "it holds no numbers for each step; " if key in arrays else did_you_mean(key, arrays)
    raise SourceError(MISSING, f"{where}: {role} names {key!r}; {reason}it holds {contents or 'no signal'}")


def _cut_slice(part: SliceSpec, signal: Signal, role: str, where: str) -> Signal:
    """The numbers of a slice with their names. Raises SourceError when they lie outside the array."""
    width = signal.values.shape[1]
    stop = width if part.stop is None else part.stop
    if not part.start < stop <= width:
        raise SourceError(
            "slice of the spec is outside its array",
            f"{where}: {role} takes {part.start} to {stop} of {part.key}, which has {count_of(width, 'number')}",
        )
    if len(part.names) not in (1, stop - part.start):
        raise SourceError(
            "names of the spec are not as many as the numbers",
            f"{where}: {role} has {count_of(len(part.names), 'name')} for "
            f"{count_of(stop - part.start, 'number')} of {part.key}",
        )
    return Signal(signal.values[:, part.start : stop], spread_names(part.names, stop - part.start))


def _concatenate_signals(parts: Sequence[Signal]) -> Signal:
    import numpy as np

    if len(parts) == 1:
        return Signal(np.ascontiguousarray(parts[0].values), parts[0].names)
    names = tuple(name for part in parts for name in part.names)
    return Signal(np.concatenate([part.values for part in parts], axis=1), names)


def apply_spec_instructions(episode: Episode, spec: DatasetSpec) -> tuple[str, ...]:
    """The instructions of the spec, then those that the reader found."""
    return distinct_texts(
        [text for part in spec.language for text in _texts_of_part(part, episode)] + [*episode.instructions]
    )


def _texts_of_part(part: str | TextSpec, episode: Episode) -> Iterator[str]:
    from ares_ingest.spec import TextSpec

    if isinstance(part, TextSpec):
        yield find_spec_text(part, episode.source)
        return
    value = find_field(episode.metadata, part)
    yield from (text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str))


def find_spec_text(part: TextSpec, path: str) -> str:
    """The text that a spec states, or that its pattern finds in the path of an episode; "" for no match."""
    return part.text or _text_in_path(part.path, path)


def _text_in_path(pattern: str, path: str) -> str:
    """The text at `{text}` of a pattern of the end of a path, with spaces for underscores; "" without a match."""
    parts = re.split(r"(\*|\{text\})", pattern)
    expression = "".join(
        {"*": "[^/]*", "{text}": "(?P<text>[^/]+?)"}.get(part, re.escape(part)) for part in parts
    )
    match = re.search(rf"(?:^|/){expression}$", path)
    return match["text"].replace("_", " ").strip() if match else ""


def find_field(document: Mapping[str, Json], key: str) -> Json:
    """A field of a JSON object: by its name, else by the names between dots; None where there is none."""
    if key in document:
        return document[key]
    first, _, rest = key.partition(".")
    value = document.get(first)
    return find_field(value, rest) if rest and isinstance(value, Mapping) else None


def apply_spec_outcome(
    episode: Episode, signals: Mapping[str, Signal], spec: DatasetSpec
) -> tuple[bool | None, str, list[str]]:
    """Whether the episode succeeded by the spec, else by the reader; the field that says so; and warnings."""
    warnings: list[str] = []
    if spec.success and (spec.success in signals or find_field(episode.metadata, spec.success) is not None):
        success = (
            _outcome_of_steps(signals[spec.success])
            if spec.success in signals
            else parse_outcome(find_field(episode.metadata, spec.success))
        )
        if success is None and not is_outcome_word(find_field(episode.metadata, spec.success)):
            warnings.append(f"outcome {spec.success} is neither success nor failure")
        return success, spec.success if success is not None else "", warnings
    if spec.success and spec.success != episode.success_source:
        warnings.append(f"outcome {spec.success}, named by the spec, is missing")
    if episode.success is None and spec.outcome_in_path:
        suggested = outcome_in_path(names_that_state_outcome(episode))
        return suggested[0] if suggested else None, "path" if suggested else "", warnings
    return episode.success, episode.success_source, warnings


def _outcome_of_steps(signal: Signal) -> bool | None:
    """The outcome of zeros and ones for each step: one that ends with success succeeded; None for anything else."""
    values = signal.values
    if values.shape[1] != 1 or not ((values == 0) | (values == 1)).all():
        return None
    return bool(values[-1, 0]) if len(set((values[1:, 0] - values[:-1, 0]).tolist()) - {0.0}) < 2 else None


def apply_spec(record: Record, spec: DatasetSpec, *, sets_rate: bool = False) -> Record:
    """The record as a spec describes it.

    Args:
        record: As the reader of its format made it.
        spec: What the user knows of the dataset.
        sets_rate: Whether the rate that the reader was given is that of the spec.

    Raises:
        SourceError: The spec names an array that the record lacks, or more numbers than it has.
    """
    trajectory = apply_spec_signals(record, spec)
    if flag := read_signals_by_key(record).get(spec.intervention):
        trajectory = replace(trajectory, extra={**trajectory.extra, INTERVENTION: flag})
    cameras, camera_warnings = _map_cameras(record, spec)
    success, success_source, outcome_warnings = apply_spec_outcome(
        record.episode, read_signals_by_key(record), spec
    )
    instructions = apply_spec_instructions(record.episode, spec)
    episode = replace(
        record.episode,
        cameras=cameras,
        instruction=instructions[0] if instructions else "",
        instructions=instructions,
        success=success,
        success_source=success_source,
        robot=record.episode.robot or spec.robot,
        rate_source="spec" if sets_rate else record.episode.rate_source,
        state_names=trajectory.state.names if trajectory.state else (),
        action_names=trajectory.action.names if trajectory.action else (),
    )
    episode = add_spec_parts(episode, spec)
    if missing := missing_cameras(record.episode):
        metadata = {name: value for name, value in episode.metadata.items() if name != MISSING_CAMERAS}
        kept = (name for name in missing if name not in spec.left_out)
        episode = replace(episode, metadata=add_missing_cameras(metadata, kept))
    warnings = (*_open_remarks(record, spec), *camera_warnings, *outcome_warnings)
    record = replace(record, episode=episode, trajectory=trajectory, warnings=tuple(dict.fromkeys(warnings)))
    record = replace(record, arrays=tuple(part for part in record.arrays if part.key not in spec.left_out))
    return segment_subtasks(record) if spec.subtasks else record


def _open_remarks(record: Record, spec: DatasetSpec) -> list[str]:
    """The warnings of a record without those that the spec answers: how the pictures of every camera are turned."""
    stated = {part.key or name for name in spec.cameras if (part := spec.camera(name)).turn}
    if not all(_camera_keys(camera) & stated for camera in record.episode.cameras):
        return list(record.warnings)
    return [warning for warning in record.warnings if warning not in _PICTURE_REMARKS]


def add_spec_parts(episode: Episode, spec: DatasetSpec | None) -> Episode:
    """The episode with the split and the subtasks that the spec names; what it lacks stays as the reader has it."""
    if spec is None:
        return episode
    split, subtasks = (
        find_field(episode.metadata, key) if key else None for key in (spec.split, spec.subtasks)
    )
    metadata = episode.metadata if subtasks is None else {**episode.metadata, SUBTASKS: subtasks}
    for name, key in ((OUTCOME, spec.outcome or spec.success), (OUTCOME_SHARE, spec.outcome_share)):
        value = find_field(episode.metadata, key) if key else None
        metadata = metadata if value is None else {**metadata, name: value}
    is_split = isinstance(split, str | int) and not isinstance(split, bool)
    return replace(episode, split=str(split) if is_split else episode.split, metadata=metadata)


def check_spec(record: Record, spec: DatasetSpec) -> None:
    """Raise SourceError for a key of the spec that this record does not have, and for what `apply_spec` refuses."""
    from ares_ingest.spec import CameraSpec

    episode, signals = record.episode, read_signals_by_key(record)
    arrays = {*signals, *(array.key for array in record.arrays)}
    cameras = {key for camera in episode.cameras for key in _camera_keys(camera)}
    for key in spec.left_out:
        _require_key(key, arrays | cameras | {*missing_cameras(episode)}, "left_out", episode)
    for name, camera in spec.cameras.items():
        _require_key(
            (camera.key if isinstance(camera, CameraSpec) else "") or name, cameras, "cameras", episode
        )
    _check_fields(spec, record, arrays)
    if spec.episode_axis is not None and episode.format != "npz":
        raise SourceError(
            _OTHER_FORMATS, f"{episode.source}: episode_axis is for arrays of npz and npy files"
        )
    for role, key in (("timestamps", spec.timestamps), ("episode_ends", spec.episode_ends)):
        known = {array.key for array in record.arrays if array.use in ("time", "ends")}
        if key and not known:
            detail = f"{episode.source}: {role} names {key!r}; {episode.format} data leave no choice of it"
            raise SourceError(_OTHER_FORMATS, detail)
        if key:
            _require_key(key, known, role, episode)
    apply_spec(record, spec)


def _check_fields(spec: DatasetSpec, record: Record, arrays: set[str]) -> None:
    """Raise SourceError for a field of the episode that the spec names and that it does not have."""
    episode, fields = record.episode, {*record.episode.metadata}
    outcomes = {*fields, *arrays, *filter(None, [episode.success_source])}
    named = [
        *(("language", part, fields | arrays) for part in spec.language if isinstance(part, str)),
        ("success", spec.success, outcomes),
        ("outcome", spec.outcome, fields),
        ("outcome_share", spec.outcome_share, fields),
        ("intervention", spec.intervention, arrays),
        ("split", spec.split, fields),
        # Those of a file of labels are segments already.
        ("subtasks", "" if record.segments else spec.subtasks, fields),
    ]
    for role, key, known in named:
        if key:
            _require_key(key.partition(".")[0], known, role, episode, key)


def _require_key(key: str, known: set[str], role: str, episode: Episode, full_key: str = "") -> None:
    if key not in known and full_key not in known:
        names = sorted(known)
        hint = f"{did_you_mean(key, names)}there are: {', '.join(names) or 'none'}"
        raise SourceError(MISSING, f"{episode.source}: {role} names {key!r}; {hint}")


def _map_cameras(record: Record, spec: DatasetSpec) -> tuple[tuple[Camera, ...], list[str]]:
    """The cameras with the names, roles and colours of the spec, and warnings of those that the record lacks."""
    cameras: list[Camera] = []
    specs = {name: spec.camera(name) for name in {**spec.cameras, **dict.fromkeys(spec.bgr)}}
    matched: set[str] = set()
    warnings: list[str] = []
    for camera in record.episode.cameras:
        keys = _camera_keys(camera)
        if keys & set(spec.left_out):
            continue
        name = next((name for name, part in specs.items() if (part.key or name) in keys), "")
        matched.add(name)
        cameras.append(_map_camera(camera, name, specs[name], spec, warnings) if name else camera)
    names = [camera.name for camera in cameras]
    if len(set(names)) < len(names):
        raise SourceError(
            "two cameras have one name by the spec", f"{record.episode.source}: {', '.join(names)}"
        )
    missing = [name for name in spec.cameras if name not in matched]
    return tuple(cameras), warnings + [f"camera {name}, named by the spec, is missing" for name in missing]


def _camera_keys(camera: Camera) -> set[str]:
    """What a spec may call a camera: its name, or its array, also without the groups that hold the episode."""
    parts = camera.media.key.split("/")
    return {camera.name, *("/".join(parts[start:]) for start in range(len(parts)))} - {""}


def _map_camera(
    camera: Camera, name: str, part: CameraSpec, spec: DatasetSpec, warnings: list[str]
) -> Camera:
    role = part.role or (camera.role if name == camera.name else guess_camera_role(name))
    is_swapped = name in spec.bgr and spec.bgr[name] in (None, (camera.height, camera.width))
    media = camera.media
    channels, turn = part.channels or ("bgr" if is_swapped else media.channels), part.find_turn(media.turn)
    if channels == "bgr" and media.channels != "bgr":
        warnings.append(f"camera {name} has red and blue swapped at the source, its frames are given as RGB")
    turned = turn_camera(replace(camera, media=replace(media, channels=channels, turn=turn)))
    return replace(turned, name=name, role=role)


def turn_camera(camera: Camera) -> Camera:
    """The camera with the size that its pictures have upright."""
    if camera.media.turn not in ("90", "270"):
        return camera
    return replace(camera, width=camera.height, height=camera.width)


def require_layout_of(spec: DatasetSpec, format: str, path: str) -> None:
    """Raise SourceError where a spec, read from a path, has a layout and it is not one of a format."""
    of_layout = spec.layout and ("zarr" if spec.layout.ends else "hdf5")
    if of_layout not in (None, format):
        raise SourceError(_OTHER_FORMATS, f"{path}: layout is one of {of_layout}, and the data are {format}")


# Records that are tried, until one can be read and tells what the dataset holds.
TRIED_RECORDS = 5


def open_with_spec(ingester: Ingester, path: str, options: SourceOptions) -> list[Source]:
    """What an ingester that knows no specs opens at a path, read as the spec of the user says.

    Raises SourceError where the spec does not fit the first record that can be read.
    """
    from ares_ingest.spec import read_spec

    spec = read_spec(Path(options.spec))
    require_layout_of(spec, ingester.name, options.spec)
    sets_rate = options.rate_hz is None and spec.rate_hz is not None
    options = replace(options, rate_hz=spec.rate_hz if sets_rate else options.rate_hz)
    sources = open_with_labels(functools.partial(ingester.open, path, options), spans=spec.spans)
    if len(sources) > 1:
        raise SourceError("one spec for several datasets", f"{options.spec} for {len(sources)} under {path}")
    return [_map_source(source, spec, sets_rate) for source in sources]


def _map_source(source: Source, spec: DatasetSpec, sets_rate: bool) -> Source:
    from ares_ingest.spec import read_stated_contract

    items = iter(source.items)
    first_items = list(itertools.islice(items, TRIED_RECORDS))
    record, errors = load_first_readable_record(source.format, first_items, source.folder)
    if record is not None:
        check_spec(record, spec)
    for error in errors if record is None else ():
        if isinstance(error, SourceError) and error.reason == MISSING:
            raise error
    change = functools.partial(apply_spec, spec=spec, sets_rate=sets_rate)
    return replace(
        source,
        contract=read_stated_contract(spec),
        items=(item.with_change(change) for item in itertools.chain(first_items, items)),
        warnings=(*source.warnings, *(fault for fault in spec.faults if fault not in source.warnings)),
    )


def load_first_readable_record(
    ingester: str, items: list[Item], folder: str
) -> tuple[Record | None, list[AresError]]:
    """The first record that can be read, None where none of the first few can; and the errors of those before it."""
    errors: list[AresError] = []
    for item in items[:TRIED_RECORDS]:
        try:
            return call_ingester_safely(ingester, item.load, folder), errors
        except (SourceError, PluginError) as error:
            errors.append(error)  # the ingestion reports it
    return None, errors
