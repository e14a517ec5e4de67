"""MCAP files that are truncated, damaged, split or listed wrongly, and recordings of several files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from ares.errors import SourceError
from ares.media import frames_at

START = 1_760_000_000 * 10**9
STEP = 100_000_000


def failure(kit: Any, path: Path) -> str:
    with pytest.raises(SourceError) as caught:
        kit.read(path)
    return str(caught.value)


def test_a_cut_file_is_read_as_far_as_it_goes(kit: Any, tmp_path: Path) -> None:
    path = kit.write(tmp_path / "a.mcap", kit.states(400), chunk_size=2048)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    record = kit.read(path)
    assert 20 < record.episode.num_steps < 380
    assert "file is truncated; the messages before the cut were read" in record.warnings
    path.write_bytes(data[:400])
    assert failure(kit, path).startswith("holds no camera and no signal") and "file is truncated" in failure(
        kit, path
    )
    path.write_bytes(b"")
    assert failure(kit, path).startswith("file is empty")
    path.write_bytes(b"RIFF" + data)
    assert failure(kit, path).startswith("file is not an MCAP file")


def test_a_damaged_chunk_costs_its_own_messages(kit: Any, tmp_path: Path) -> None:
    path = kit.write(tmp_path / "a.mcap", kit.states(400), chunk_size=2048)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(data)
    record = kit.read(path)
    assert 300 < record.episode.num_steps < 400
    assert "a chunk is damaged; its messages are lost" in record.warnings


def bag(folder: Path, names: list[str]) -> Path:
    lines = "".join(f"    - {name}\n" for name in names)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metadata.yaml").write_text(
        f"rosbag2_bagfile_information:\n  storage_identifier: mcap\n  relative_file_paths:\n{lines}"
    )
    return folder


def test_a_rosbag_of_several_files_is_one_episode(kit: Any, tmp_path: Path) -> None:
    folder = bag(tmp_path / "data" / "run_1", ["r_0.mcap", "r_1.mcap"])
    entries = [*kit.images(20), *kit.states(20)]
    kit.write(folder / "r_0.mcap", [entry for entry in entries if entry[2] < START + 10 * STEP])
    kit.write(folder / "r_1.mcap", [entry for entry in entries if entry[2] >= START + 10 * STEP])
    kit.write(folder / "unlisted.mcap", kit.states(3))
    bag(tmp_path / "data" / "run_2", ["r_0.mcap"])
    kit.write(tmp_path / "data" / "run_2" / "r_0.mcap", kit.states(4))
    source = kit.opened(tmp_path / "data")
    records = [item.load() for item in source.items]
    assert [(r.episode.key, r.episode.num_steps) for r in records] == [
        ("run_1", 20),
        ("run_1/unlisted.mcap", 3),
        ("run_2/r_0.mcap", 4),
    ]
    assert records[0].trajectory.state is not None
    assert records[0].trajectory.state.values[:, 0].tolist() == list(range(20))
    assert frames_at(records[0].episode.cameras[0].media, [0.5, 1.5]).shape == (2, 24, 32, 3)
    thawed = [
        pickle.loads(pickle.dumps(item)) for item in kit.opened(folder).items
    ]  # as another process gets them
    assert [item.load().episode.key for item in thawed] == ["run_1", "unlisted.mcap"]
    (folder / "r_1.mcap").unlink()
    with pytest.raises(SourceError, match="file is missing"):
        next(iter(kit.opened(folder).items)).load()


@pytest.mark.parametrize("text", ["a: [", "a: 1", "rosbag2_bagfile_information: 7", "\x00", ""])
def test_a_listing_that_cannot_be_read_makes_each_file_an_episode(
    kit: Any, tmp_path: Path, text: str
) -> None:
    kit.write(tmp_path / "a.mcap", kit.states())
    kit.write(tmp_path / "b.mcap", kit.states())
    (tmp_path / "metadata.yaml").write_text(text)
    source = kit.opened(tmp_path)
    assert source.total == 2 and any("each file is read as one episode" in text for text in source.warnings)
