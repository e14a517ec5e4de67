"""Reads a good and a bent LeRobot folder and names every difference that is silent or wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ares.episode import Record
from ares.errors import AresError
from ares.media import frames_at
from ingest.base import Item, SourceOptions
from ingest.lerobot import lerobot


@dataclass
class Reading:
    """What was read of a folder.

    Attributes:
        episodes: By key: the record and, per camera, the first, middle and last frame.
        failures: Reason of each record that failed, with its location.
        warnings: Warnings of the dataset and of its records.
        uses: Use of each file, by relative path.
    """

    episodes: dict[str, tuple[Record, Mapping[str, Any]]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    warnings: Counter[str] = field(default_factory=Counter)
    uses: dict[str, str] = field(default_factory=dict)


def read_folder(folder: Path) -> Reading:
    """Read every episode, and list every file; an exception that is no error of ARES goes on."""
    reading = Reading()
    try:
        for source in lerobot.open(str(folder), SourceOptions(dataset="bent")):
            reading.warnings.update(source.warnings)
            for file in source.files():
                name = str(Path(file.path).relative_to(folder))
                assert name not in reading.uses, f"{name} is listed twice"
                reading.uses[name] = file.use
            items = list(source.items)
            assert len(items) == source.total
            for item in items:
                _read_item(item, reading)
    except AresError as error:
        reading.failures.append(error.reason)
    return reading


def _read_item(item: Item, reading: Reading) -> None:
    try:
        record = item.load()
        frames = {camera.name: _sample_frames(camera.media) for camera in record.episode.cameras}
    except AresError as error:
        reading.failures.append(f"{error.reason}: {error.detail}")
        return
    reading.warnings.update(record.warnings)
    reading.episodes[record.episode.key] = (record, frames)


def _sample_frames(media: Any) -> Any:
    numbers = sorted({0, media.num_frames // 2, media.num_frames - 1})
    return frames_at(media, [number / media.rate_hz for number in numbers])


def differences(good: Reading, bent: Reading, folder: Path) -> Iterator[str]:
    """Everything that is wrong with the reading of the bent folder: silence, wrong values, forgotten files."""
    if not bent.uses and bent.failures and not bent.episodes:
        return  # refused as a whole
    new_warnings = set(bent.warnings) - set(good.warnings)
    yield from _file_differences(bent, folder)
    lost = good.episodes.keys() - bent.episodes.keys()
    if lost and not bent.failures and not new_warnings:
        yield f"episodes {sorted(lost)} are missing without a word"
    for key, (record, frames) in bent.episodes.items():
        if key not in good.episodes:
            if not record.warnings and not new_warnings:
                yield f"episode {key} is new without a word"
            continue
        for text, is_told in _episode_differences(good.episodes[key], (record, frames), new_warnings):
            if not is_told:
                yield f"episode {key}: {text}"


def _file_differences(bent: Reading, folder: Path) -> Iterator[str]:
    """Files that are not mentioned, and those whose use is another than what the records refer to."""
    present = {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and (path.suffix in (".mp4", ".parquet") or path.parent == folder / "meta")
    }
    for name in sorted(present ^ bent.uses.keys()):
        yield f"file not mentioned, or mentioned and missing: {name}"
    episodes = [record.episode for record, _ in bent.episodes.values()]
    paths = {camera.media.uri for episode in episodes for camera in episode.cameras}
    used = {str(Path(path).relative_to(folder)) for path in paths | {episode.source for episode in episodes}}
    for name in sorted(used):
        if bent.uses.get(name) != "data":
            yield f"{name} is read and said to be {bent.uses.get(name)}"
    unread = {name for name, use in bent.uses.items() if use == "data"} - used
    if unread and not bent.failures and not any("left out" in warning for warning in bent.warnings):
        yield f"said to be data and not read: {sorted(unread)}"


def _episode_differences(
    good: tuple[Record, Mapping[str, Any]], bent: tuple[Record, Mapping[str, Any]], new_warnings: set[str]
) -> Iterator[tuple[str, bool]]:
    """Each difference, and whether it is told; a wrong value at the same step is never excused."""
    told = bool(new_warnings)
    before, after = good[0].trajectory, bent[0].trajectory
    for name in ("state", "action"):
        old, new = getattr(before, name), getattr(after, name)
        if (old is None) != (new is None):
            yield f"{name} is missing or new", told
        elif old is not None and not np.array_equal(old.values, new.values, equal_nan=True):
            same_length = old.values.shape == new.values.shape
            yield f"{name} differs, {old.values.shape} and {new.values.shape}", told and not same_length
    if len(before.timestamps) != len(after.timestamps):
        yield "other number of steps", told
    elif np.abs(before.timestamps - after.timestamps).max() > 1e-6:
        yield "other seconds", False
    if good[0].episode.instruction != bent[0].episode.instruction:
        yield "other instruction", told
    for name in good[1].keys() | bent[1].keys():
        if name not in bent[1] or name not in good[1]:
            yield f"camera {name} is missing or new", told
        elif not np.array_equal(np.asarray(good[1][name]), np.asarray(bent[1][name])):
            yield f"camera {name} has other frames", False
