"""Folders bent at random are read as the good ones, or every difference is named; no file is forgotten."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from ares.episode import Record
from ares.errors import AresError
from ares.media import frames_at
from ares_ingest.base import Item, SourceOptions
from ares_ingest.lerobot import lerobot
from tests.ingest.lerobot.bending import BENDS, SPAN
from tests.ingest.lerobot.good_folders import write_good_folder

MANUAL = (Path(__file__).parents[3] / "docs" / "formats.md").read_text().splitlines()
# Mended: every value is read as before. Told: something is missing and named.
MENDED, TOLD = (
    [
        name.strip()
        for line in MANUAL
        if line.startswith(f"| {outcome} |")
        for name in line.split("|")[2].split(";")
    ]
    for outcome in ("mended", "told")
)
# Pairs that found faults.
FOUND_FAULTS = [
    ("v2.1", "videos numbered from 1", "rows missing in an episode"),
    ("v2.1", "videos numbered from 1", "a file missing, empty, cut or a pointer"),
    ("v2.1", "videos numbered from 1", "cameras in folders with their short names"),
    ("v3.0", "rows missing in an episode", "the span of one episode shifted"),
    ("v3.0", "rows in another order", "rows missing in an episode"),
]


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
                read_item(item, reading)
    except AresError as error:
        reading.failures.append(error.reason)
    return reading


def read_item(item: Item, reading: Reading) -> None:
    try:
        record = item.load()
        frames = {camera.name: sample_frames(camera.media) for camera in record.episode.cameras}
    except AresError as error:
        reading.failures.append(f"{error.reason}: {error.detail}")
        return
    reading.warnings.update(record.warnings)
    reading.episodes[record.episode.key] = (record, frames)


def sample_frames(media: Any) -> Any:
    numbers = sorted({0, media.num_frames // 2, media.num_frames - 1})
    return frames_at(media, [number / media.rate_hz for number in numbers])


def differences(good: Reading, bent: Reading, folder: Path) -> Iterator[str]:
    """Everything that is wrong with the reading of the bent folder: silence, wrong values, forgotten files."""
    if not bent.uses and bent.failures and not bent.episodes:
        return  # refused as a whole
    new_warnings = set(bent.warnings) - set(good.warnings)
    yield from file_differences(bent, folder)
    lost = good.episodes.keys() - bent.episodes.keys()
    if lost and not bent.failures and not new_warnings:
        yield f"episodes {sorted(lost)} are missing without a word"
    for key, (record, frames) in bent.episodes.items():
        if key not in good.episodes:
            if not record.warnings and not new_warnings:
                yield f"episode {key} is new without a word"
            continue
        for text, is_told in episode_differences(good.episodes[key], (record, frames), new_warnings):
            if not is_told:
                yield f"episode {key}: {text}"


def file_differences(bent: Reading, folder: Path) -> Iterator[str]:
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


def episode_differences(
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


Good = dict[str, tuple[Path, Reading]]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Good:
    """A good folder of each layout, and what is read of it."""
    root = tmp_path_factory.mktemp("good")
    folders = {
        name: write_good_folder(root / name / "made", version=name, lengths=(6, 9, 7)) for name in BENDS
    }
    return {version: (folder, read_folder(folder)) for version, folder in folders.items()}


def test_the_good_folders_are_quiet(good: Good) -> None:
    for folder, reading in good.values():
        assert not reading.warnings and not reading.failures
        assert list(differences(reading, reading, folder)) == []
        assert set(reading.uses.values()) == {"data", "metadata"}


def test_a_wrong_reading_is_noticed(good: Good) -> None:
    folder, reading = good["v2.1"]
    first, second = reading.episodes["0"], reading.episodes["1"]
    swapped = Reading(episodes={**reading.episodes, "0": second, "1": first}, uses=reading.uses)
    assert any("other frames" in text for text in differences(reading, swapped, folder))
    lost = Reading(episodes={"0": first}, uses=reading.uses)
    assert any("without a word" in text for text in differences(reading, lost, folder))
    unmentioned = Reading(episodes=reading.episodes, uses=dict(list(reading.uses.items())[1:]))
    assert any("not mentioned" in text for text in differences(reading, unmentioned, folder))


def test_the_manual_names_every_bend() -> None:
    assert sorted(MENDED + TOLD) == sorted({*BENDS["v2.1"], *BENDS["v3.0"]})


@pytest.mark.parametrize(
    ("version", "name"), [(version, name) for version in BENDS for name in BENDS[version]]
)
def test_each_bend(version: str, name: str, good: Good, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(good[version][0], tmp_path / "made"))
    BENDS[version][name](folder, Random(len(name)))
    before, bent = good[version][1], read_folder(folder)
    assert list(differences(before, bent, folder)) == []
    if name in MENDED:
        assert (bent.episodes.keys(), bent.failures) == (before.episodes.keys(), [])


COLUMNS = ("episode_index", "length", "data/chunk_index", "data/file_index")
SPANS = tuple(f"{SPAN}{name}" for name in ("chunk_index", "file_index", "from_timestamp", "to_timestamp"))
NUMBERS = st.none() | st.integers(-(2**62), 2**62) | st.floats()


@settings(max_examples=25, deadline=None)
@given(row=st.dictionaries(st.sampled_from(COLUMNS + SPANS), NUMBERS, min_size=1))
def test_any_numbers_in_the_list_give_episodes_or_errors_of_ares(
    good: Good, tmp_path_factory: pytest.TempPathFactory, row: dict[str, Any]
) -> None:
    folder = Path(shutil.copytree(good["v3.0"][0], tmp_path_factory.mktemp("fuzz") / "made"))
    (path,) = (folder / "meta" / "episodes").rglob("*.parquet")
    rows = pq.read_table(path).to_pylist()
    pq.write_table(
        pa.Table.from_pylist([rows[0] | row, *({**own, **dict.fromkeys(row)} for own in rows[1:])]), path
    )
    read_folder(folder)


@pytest.mark.slow
def test_two_bends_at_once(good: Good, tmp_path: Path) -> None:
    chance = SystemRandom()
    drawn = [(version, *chance.sample([*BENDS[version]], 2)) for version in BENDS for _ in range(4)]
    tried = 0
    for number, (version, *names) in enumerate([*drawn, *FOUND_FAULTS]):
        seed = chance.randrange(10**9) if number < len(drawn) else 0
        folder = Path(shutil.copytree(good[version][0], tmp_path / str(number)))
        try:
            for name in names:
                BENDS[version][name](folder, Random(seed))
        except (LookupError, ValueError, TypeError, AttributeError, OSError, pa.ArrowException):
            continue  # the first left nothing to bend
        assert not list(differences(good[version][1], read_folder(folder), folder)), (seed, names)
        tried += 1
    assert tried >= (len(drawn) + len(FOUND_FAULTS)) / 2


def test_a_video_that_only_lacks_what_lies_behind_its_frames_is_data(good: Good, tmp_path: Path) -> None:
    for version, (good_folder, reading) in good.items():
        folder = shutil.copytree(good_folder, tmp_path / version)
        video = sorted(folder.rglob("*.mp4"))[0]
        video.write_bytes(video.read_bytes()[:-9])
        bent = read_folder(folder)
        assert (list(differences(reading, bent, folder)), bent.failures) == ([], [])
        video.write_bytes(video.read_bytes()[:-900])
        assert any("left out" in warning for warning in read_folder(folder).warnings)
