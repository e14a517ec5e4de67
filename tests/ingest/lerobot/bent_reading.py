"""Reads a good and a bent LeRobot folder and names every difference that is silent or wrong.

`python -m tests.ingest.lerobot.bent_reading FOLDER... --minutes N --seed S` bends the folders at random.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ares.episode import Record
from ares.errors import AresError
from ares.media import frames_at
from ingest.base import SourceOptions
from ingest.lerobot import lerobot
from tests.ingest.lerobot.bending import BENDS, Bend, NotBendable


@dataclass
class Reading:
    """What was read of a folder.

    Attributes:
        episodes: By key: the record and, per camera, the first, middle and last frame.
        failures: Reason of each record that failed, with its location.
        warnings: Warnings of the dataset and of its records.
        uses: Use of each file, by relative path.
        crashes: Exceptions that are no errors of ARES.
    """

    episodes: dict[str, tuple[Record, Mapping[str, Any]]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    warnings: Counter[str] = field(default_factory=Counter)
    uses: dict[str, str] = field(default_factory=dict)
    crashes: list[str] = field(default_factory=list)


def read_folder(folder: Path, *, pixels: bool) -> Reading:
    """Read every episode, and list every file."""
    reading = Reading()
    try:
        for source in lerobot.open(str(folder), SourceOptions(dataset="bent")):
            reading.warnings.update(source.warnings)
            for file in source.files():
                name = str(Path(file.path).relative_to(folder))
                if name in reading.uses:
                    reading.crashes.append(f"{name} is listed twice")
                reading.uses[name] = file.use
            items = list(source.items)
            if len(items) != source.total:
                reading.crashes.append(f"{len(items)} items, {source.total} said")
            for item in items:
                _read_item(item.load, reading, pixels)
    except AresError as error:
        reading.failures.append(error.reason)
    except Exception:
        reading.crashes.append(traceback.format_exc())
    return reading


def _read_item(load: Any, reading: Reading, pixels: bool) -> None:
    try:
        record = load()
        frames = {
            camera.name: _sample_frames(camera.media) if pixels else camera.media.num_frames
            for camera in record.episode.cameras
        }
    except AresError as error:
        reading.failures.append(f"{error.reason}: {error.detail}")
        return
    except Exception:
        reading.crashes.append(traceback.format_exc())
        return
    reading.warnings.update(record.warnings)
    reading.episodes[record.episode.key] = (record, frames)


def _sample_frames(media: Any) -> Any:
    numbers = sorted({0, media.num_frames // 2, media.num_frames - 1})
    return frames_at(media, [number / media.rate_hz for number in numbers])


def differences(good: Reading, bent: Reading, folder: Path) -> Iterator[str]:
    """Everything that is wrong with the reading of the bent folder: crashes, silence, wrong values, forgotten files."""
    yield from bent.crashes
    if not bent.uses and bent.failures and not bent.episodes:
        return  # refused as a whole
    present = {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and (path.suffix in (".mp4", ".parquet") or path.parent == folder / "meta")
    }
    for name in sorted(present ^ bent.uses.keys()):
        yield f"file not mentioned, or mentioned and missing: {name}"
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


def run_bends(
    good_folder: Path, bends: Sequence[Bend], rng: random.Random, *, pixels: bool, good: Reading | None = None
) -> list[str]:
    """Bend a copy of a folder, read it, and return what is wrong."""
    good = good or read_folder(good_folder, pixels=pixels)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / good_folder.name
        shutil.copytree(good_folder, folder)
        for one in bends:
            try:
                one.apply(folder, rng)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise NotBendable from None  # an earlier bend left nothing to bend
        return list(differences(good, read_folder(folder, pixels=pixels), folder))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--only", type=int, help="seed of one case of the first folder")
    options = parser.parse_args(arguments)
    goods = {folder: read_folder(folder, pixels=True) for folder in options.folders}
    stop, number, tried, faults = time.monotonic() + 60 * options.minutes, 0, Counter[str](), 0
    while time.monotonic() < stop and (options.only is None or number == 0):
        seed = options.seed * 10_000 + number if options.only is None else options.only
        number += 1
        rng = random.Random(seed)
        folder = options.folders[seed % len(options.folders)]
        bends = rng.sample(BENDS, rng.choice([1, 1, 2]))
        try:
            wrong = run_bends(folder, bends, rng, pixels=True, good=goods[folder])
        except NotBendable:
            continue
        tried.update(one.name for one in bends)
        if wrong:
            faults += 1
            print(f"--only {seed} {folder.name}: {[one.name for one in bends]}", *wrong, sep="\n    ")
    for one in BENDS:
        print(f"{tried[one.name]:5} {one.name}")
    print(f"seed {options.seed}: {tried.total()} bends tried in {number} folders, {faults} faults")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
