"""Folders bent at random are read as the good ones, or every difference is named; no file is forgotten."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.ingest.lerobot.bending import BENDS, Bend, NotBendable
from tests.ingest.lerobot.bent_reading import Reading, differences, read_folder, run_bends
from tests.ingest.lerobot.good_folders import write_good_folder
from tests.thinning import some_by_day

# Seeds of pairs that found faults. `python -m tests.ingest.lerobot.bent_reading` tries many others.
FOUND_FAULTS = (194495, 814895, 639142, 491635761)
LAYOUTS = [("v2.1", (6, 9, 7)), ("v3.0", (6, 9, 7))]


@pytest.fixture(scope="module")
def good_folders(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Reading]]:
    """A good folder of each layout, and what is read of it."""
    folders = []
    for version, lengths in LAYOUTS:
        folder = write_good_folder(tmp_path_factory.mktemp("good") / "made", version=version, lengths=lengths)
        folders.append((folder, read_folder(folder, pixels=True)))
    return folders


def wrong_of(good: tuple[Path, Reading], bends: Sequence[Bend], seed: int) -> list[str] | None:
    """What is wrong with the reading of a bent copy; None where it cannot be bent so."""
    try:
        return run_bends(good[0], bends, random.Random(seed), pixels=True, good=good[1])
    except NotBendable:
        return None


def test_the_good_folders_are_quiet(good_folders: list[tuple[Path, Reading]]) -> None:
    for folder, reading in good_folders:
        assert not reading.warnings and not reading.failures and not reading.crashes
        assert list(differences(reading, reading, folder)) == []
        assert {name for name, use in reading.uses.items() if use not in ("data", "metadata")} == set()


@pytest.mark.parametrize("bend", some_by_day(BENDS, 2), ids=lambda bend: bend.name)
def test_each_bend(bend: Bend, good_folders: list[tuple[Path, Reading]]) -> None:
    seed = len(bend.name)
    results = [wrong_of(good, [bend], seed) for good in good_folders]
    assert any(result is not None for result in results), "no folder can be bent so"
    assert not any(results), (seed, results)


@pytest.mark.parametrize(
    "bend", some_by_day(bend for bend in BENDS if bend.outcome == "mended"), ids=lambda bend: bend.name
)
def test_a_mended_folder_has_the_same_episodes(
    bend: Bend, good_folders: list[tuple[Path, Reading]], tmp_path: Path
) -> None:
    seed = 1 + len(bend.name)
    for good_folder, good in good_folders:
        folder = tmp_path / good_folder.parent.name
        shutil.copytree(good_folder, folder)
        try:
            bend.apply(folder, random.Random(seed))
        except NotBendable:
            continue
        bent = read_folder(folder, pixels=False)
        assert (bent.episodes.keys(), bent.failures) == (good.episodes.keys(), []), seed


def test_two_bends_at_once(good_folders: list[tuple[Path, Reading]]) -> None:
    new = [random.SystemRandom().randrange(10**9) for _ in range(4)]
    for seed in (*new, *FOUND_FAULTS):
        bends = random.Random(seed).sample(BENDS, 2)
        for good in good_folders:
            assert not wrong_of(good, bends, seed), (seed, [bend.name for bend in bends])


def changed_copy(good: tuple[Path, Reading], target: Path, names: Sequence[str]) -> Path:
    """A copy of a good folder with the named bends, in this order."""
    shutil.copytree(good[0], target)
    for name in names:
        (bend,) = [bend for bend in BENDS if bend.name == name]
        bend.apply(target, random.Random(len(name)))
    return target


@pytest.mark.parametrize("lines", [0, 1, 2])
def test_videos_numbered_from_1_are_told_by_the_episodes_of_the_data_where_the_list_is_damaged(
    lines: int, good_folders: list[tuple[Path, Reading]], tmp_path: Path
) -> None:
    good = good_folders[0]
    folder = changed_copy(good, tmp_path / "made", ["videos numbered from 1"])
    listed = folder / "meta" / "episodes.jsonl"
    listed.write_text("".join(listed.read_text().splitlines(keepends=True)[:lines]))
    bent = read_folder(folder, pixels=True)
    assert list(differences(good[1], bent, folder)) == []
    assert {key: len(frames) for key, (_, frames) in bent.episodes.items()} == {"0": 2, "1": 2, "2": 2}
    assert "videos of camera front have not the numbers of the episodes" in bent.warnings


def test_a_video_that_only_lacks_what_lies_behind_its_frames_is_data(
    good_folders: list[tuple[Path, Reading]], tmp_path: Path
) -> None:
    for number, good in enumerate(good_folders):
        folder = changed_copy(good, tmp_path / str(number), [])
        video = sorted(folder.rglob("*.mp4"))[0]
        video.write_bytes(video.read_bytes()[:-9])
        bent = read_folder(folder, pixels=True)
        assert (list(differences(good[1], bent, folder)), bent.failures) == ([], [])
        video.write_bytes(video.read_bytes()[:-900])
        bent = read_folder(folder, pixels=True)
        assert any("left out" in warning for warning in bent.warnings)


def test_a_wrong_reading_is_noticed(good_folders: list[tuple[Path, Reading]]) -> None:
    """The comparison itself: episodes under each other's numbers, a lost file, a lost episode, silence."""
    folder, good = good_folders[0]
    first, second = good.episodes["0"], good.episodes["1"]
    swapped = Reading(episodes={**good.episodes, "0": second, "1": first}, uses=good.uses)
    assert any("other frames" in text for text in differences(good, swapped, folder))
    lost = Reading(episodes={"0": first}, uses=good.uses)
    assert any("without a word" in text for text in differences(good, lost, folder))
    unmentioned = Reading(episodes=good.episodes, uses=dict(list(good.uses.items())[1:]))
    assert any("not mentioned" in text for text in differences(good, unmentioned, folder))


def test_the_manual_names_every_bend() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "formats.md").read_text()
    for outcome in ("mended", "told"):
        rows = [line for line in manual.splitlines() if line.startswith(f"| {outcome} |")]
        named = "; ".join(row.split("|")[2].strip() for row in rows)
        assert named == "; ".join(bend.name for bend in BENDS if bend.outcome == outcome)
