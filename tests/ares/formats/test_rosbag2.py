"""A recording is a single file or the files that its metadata.yaml lists, never one outside its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares.errors import SourceError
from ares.formats import recording_files


def write_metadata(folder: Path, text: str) -> str:
    path = folder / "metadata.yaml"
    path.write_text(text)
    return str(path)


def test_a_single_file_is_its_own_recording() -> None:
    assert recording_files("/data/a.mcap") == ["/data/a.mcap"]


def test_files_come_in_the_order_of_the_list(tmp_path: Path) -> None:
    uri = write_metadata(
        tmp_path, "rosbag2_bagfile_information:\n  relative_file_paths: [b.mcap, sub/a.mcap]\n"
    )
    assert recording_files(uri) == [f"{tmp_path}/b.mcap", f"{tmp_path}/sub/a.mcap"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rosbag2_bagfile_information:\n  relative_file_paths: [../a.mcap]\n", "lies outside its folder"),
        ("rosbag2_bagfile_information:\n  relative_file_paths: [/a.mcap]\n", "lies outside its folder"),
        ("rosbag2_bagfile_information:\n  relative_file_paths: []\n", "lists no files"),
        ("rosbag2_bagfile_information: 3\n", "lists no files"),
        ("[1, 2", "is not YAML"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        recording_files(write_metadata(tmp_path, text))


def test_a_missing_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        recording_files(str(tmp_path / "metadata.yaml"))
