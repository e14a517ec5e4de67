"""Folders bent at random are read as the good ones, or every difference is named; no file is forgotten."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.ingest.lerobot.bending import BENDS, Bend, NotBendable
from tests.ingest.lerobot.bent_reading import Reading, differences, read_folder
from tests.ingest.lerobot.good_folders import write_good_folder

# Seeds of pairs that found faults.
FOUND_FAULTS = (194495, 814895, 639142, 491635761)
Good = tuple[Path, Reading]


@pytest.fixture(scope="module")
def good_folders(tmp_path_factory: pytest.TempPathFactory) -> list[Good]:
    """A good folder of each layout, and what is read of it."""
    folders = [tmp_path_factory.mktemp("good") / "made" for _ in range(2)]
    for folder, version in zip(folders, ("v2.1", "v3.0"), strict=True):
        write_good_folder(folder, version=version, lengths=(6, 9, 7))
    return [(folder, read_folder(folder)) for folder in folders]


def bent_copy(good: Good, bends: Sequence[Bend], seed: int, target: Path) -> Path | None:
    """A bent copy; None where the folder cannot be bent so."""
    shutil.copytree(good[0], target)
    rng = random.Random(seed)
    try:
        for bend in bends:
            bend.apply(target, rng)
    except (
        NotBendable,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
    ):  # an earlier bend left nothing to bend
        return None
    return target


def test_the_good_folders_are_quiet(good_folders: list[Good]) -> None:
    for folder, reading in good_folders:
        assert not reading.warnings and not reading.failures
        assert list(differences(reading, reading, folder)) == []
        assert set(reading.uses.values()) == {"data", "metadata"}


@pytest.mark.parametrize("bend", BENDS, ids=lambda bend: bend.name)
def test_each_bend(bend: Bend, good_folders: list[Good], tmp_path: Path) -> None:
    copies = [
        (good, folder)
        for number, good in enumerate(good_folders)
        if (folder := bent_copy(good, [bend], len(bend.name), tmp_path / str(number)))
    ]
    assert copies, "no folder can be bent so"
    for (_, good), folder in copies:
        bent = read_folder(folder)
        assert list(differences(good, bent, folder)) == []
        if bend.outcome == "mended":
            assert (bent.episodes.keys(), bent.failures) == (good.episodes.keys(), [])


@pytest.mark.slow
def test_two_bends_at_once(good_folders: list[Good], tmp_path: Path) -> None:
    new = [random.SystemRandom().randrange(10**9) for _ in range(4)]
    for seed in (*new, *FOUND_FAULTS):
        bends = random.Random(seed).sample(BENDS, 2)
        for number, good in enumerate(good_folders):
            folder = bent_copy(good, bends, seed, tmp_path / f"{seed}_{number}")
            if folder:
                wrong = list(differences(good[1], read_folder(folder), folder))
                assert not wrong, (seed, [bend.name for bend in bends])


@pytest.mark.parametrize("lines", [0, 1, 2])
def test_videos_numbered_from_1_are_told_by_the_episodes_of_the_data_where_the_list_is_damaged(
    lines: int, good_folders: list[Good], tmp_path: Path
) -> None:
    (bend,) = [bend for bend in BENDS if bend.name == "videos numbered from 1"]
    folder = bent_copy(good_folders[0], [bend], 0, tmp_path / "made")
    assert folder is not None
    listed = folder / "meta" / "episodes.jsonl"
    listed.write_text("".join(listed.read_text().splitlines(keepends=True)[:lines]))
    bent = read_folder(folder)
    assert list(differences(good_folders[0][1], bent, folder)) == []
    assert {key: len(frames) for key, (_, frames) in bent.episodes.items()} == {"0": 2, "1": 2, "2": 2}
    assert "videos of camera front have not the numbers of the episodes" in bent.warnings


def test_a_video_that_only_lacks_what_lies_behind_its_frames_is_data(
    good_folders: list[Good], tmp_path: Path
) -> None:
    for number, (good_folder, good) in enumerate(good_folders):
        folder = shutil.copytree(good_folder, tmp_path / str(number))
        video = sorted(folder.rglob("*.mp4"))[0]
        video.write_bytes(video.read_bytes()[:-9])
        bent = read_folder(folder)
        assert (list(differences(good, bent, folder)), bent.failures) == ([], [])
        video.write_bytes(video.read_bytes()[:-900])
        assert any("left out" in warning for warning in read_folder(folder).warnings)


def test_the_manual_names_every_bend() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "formats.md").read_text()
    for outcome in ("mended", "told"):
        rows = [line for line in manual.splitlines() if line.startswith(f"| {outcome} |")]
        named = "; ".join(row.split("|")[2].strip() for row in rows)
        assert named == "; ".join(bend.name for bend in BENDS if bend.outcome == outcome)
