"""`ares ingest` warns of every quirk that the notes of the samples name, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares import open as open_workspace
from ares_ingest.base import SourceOptions
from tests.ingesting import ingest_paths
from tests.thinning import some_by_day

FLOAT64, SILENT = "float64 numbers are stored as float32", "A053 no-instruction: there is no instruction"
UNRATED = "rate is not known, 10 Hz assumed (give --rate)"
ABSENT = "metadata says that camera {} is absent, but it has pictures"
# By folder: episodes kept and failed, what is said and how often. A source says a thing once, an episode each time.
QUIRKS: dict[str, tuple[int, int, dict[str, int]]] = {
    "bridge_rlds": (50, 0, {
        "the first action of an episode is all but zero (OpenVLA leaves that step out)": 1,
        "A033 video-black: frames are black (image_3)": 50,
        **{ABSENT.format(f"image_{number}"): 50 for number in range(3)},
        "steps/language_embedding is not stored (an embedding)": 1,
        "is_last is true at no step: the end of the episode is not marked": 50,  # its episodes were cut
        "the reward is the same at every step": 50,
    }),
    "metaworld_rlds": (24, 0, {
        UNRATED: 1, "A006 saturated: a dimension is cut off at a limit while it moves (action)": 23,
    }),
    "metaworld_video": (50, 0, {}),
    "g1_bottle_lerobot_v30": (4, 0, {
        "names of action lie in lists of lists; they are taken in their order": 1,
        "names of observation.state lie in lists of lists; they are taken in their order": 1,
    }),
    "so101_chess_lerobot_v21": (3, 2, {
        "there are no data files: episodes have no signals": 1,
        "data file is missing: no signals": 3,
        "camera follower_wrist has not one video for each episode": 1,
        "total_videos of info.json is not the number of videos": 1,
        "A051 one-step: the episode has one step, or two": 1,
    }),
    "gr1_sim_lerobot_v20": (5, 0, {
        "a task of the metadata is an annotation (annotation.human.validity), not an instruction": 5,
        "timestamps do not begin at 0, shifted": 5,
        "camera egoview of info.json has no video": 1,
        **{f"column {key} is float64, stored as float32": 1 for key in ("action", "next.reward", "observation.state")},
        "splits in info.json name more episodes than there are": 1,
        "total_videos of info.json is not the number of videos": 1,
        "there is no column frame_index": 1,
    }),
    "robosuite_hdf5": (6, 0, {
        "episode has no obs, only what the simulator kept": 6, SILENT: 6, FLOAT64: 1,
    }),
    "aloha_hdf5": (2, 0, {SILENT: 2, FLOAT64: 1}),
    "mcap": (2, 0, {SILENT: 1}),
    "rosbag2_mcap": (0, 10, {}),
}  # fmt: skip
FAILURES = {
    "so101_chess_lerobot_v21": {"episode has neither data nor video": 2},
    "rosbag2_mcap": {"holds no camera and no signal": 9, "no topic can be read": 1},
}


@pytest.mark.parametrize("folder", some_by_day(QUIRKS))
def test_what_is_odd_is_told(shared_data: Path, tmp_path: Path, folder: str) -> None:
    ws = open_workspace(tmp_path, create=True)
    report = ingest_paths(ws.stores, [str(shared_data / folder)], SourceOptions(), quiet=True)
    num_kept, num_failed, warnings = QUIRKS[folder]
    assert (report.counts.kept, report.counts.failed) == (num_kept, num_failed)
    assert {reason: tally.count for reason, tally in report.counts.warnings.items()} == warnings
    failures = {reason: tally.count for reason, tally in report.counts.failures.items()}
    assert failures == FAILURES.get(folder, {})
    # "train" repeats "val" in Bridge; elsewhere each episode stands once.
    assert report.duplicates == (25 if folder == "bridge_rlds" else 0)
    assert all(tally.example for tally in report.counts.warnings.values())
