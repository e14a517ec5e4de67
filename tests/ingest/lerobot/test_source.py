"""LeRobot ingestion of three real samples, generated folders of every version, and an export read back."""

from __future__ import annotations

import json
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ares.episode import Record
from ares.errors import AresError, SourceError
from ares.media import all_frames
from ares.workspace import Workspace
from ares_ingest.base import Source, SourceOptions
from ares_ingest.lerobot import episode as episode_module, lerobot
from tests.ingest.lerobot.good_folders import write_good_folder
from tests.ingesting import ingest_paths


def opened(path: Path, **options: Any) -> Source:
    (source,) = lerobot.open(str(path), SourceOptions(**options))
    return source


def records(path: Path, **options: Any) -> list[Record]:
    return [item.load() for item in opened(path, **options).items]


def outcomes(source: Source) -> list[str]:
    texts = []
    for item in source.items:
        try:
            item.load()
            texts.append("good")
        except AresError as error:
            texts.append(error.reason)
    return texts


def test_g1_spans_of_one_shared_video(shared_data: Path) -> None:
    folder = shared_data / "g1_bottle_lerobot_v30"
    source = opened(folder)
    assert lerobot.recognises(str(folder)) and lerobot.recognises(str(folder.parent))
    assert (source.dataset, source.version, source.total) == (folder.name, "v3.0", 4)
    records = [item.load() for item in source.items]
    assert [record.episode.num_steps for record in records] == [362, 344, 348, 297]
    assert not any(record.warnings for record in records)
    episode = records[1].episode
    assert (episode.instruction, episode.robot, episode.rate_hz, episode.rate_source) == (
        "Pick up the yellow bottle on the table.",
        "Unitree_G1_Inspire",
        30.0,
        "source",
    )
    assert episode.state_names[0] == "kLeftShoulderPitch" and len(set(episode.action_names)) == 26
    (camera,) = episode.cameras
    assert (camera.name, camera.codec, camera.width, camera.height) == ("cam_high", "av1", 640, 480)
    assert camera.media.start_seconds == pytest.approx(362 / 30) and camera.media.num_frames == 344
    table = pq.read_table(folder / "data" / "chunk-000" / "file-000.parquet")
    all_states = np.array(table["observation.state"].to_pylist(), np.float32)
    state = records[1].trajectory.state
    assert state is not None and np.array_equal(state.values, all_states[362:706])


def test_so101_is_kept_from_video_where_there_is_no_parquet(shared_data: Path) -> None:
    source = opened(shared_data / "so101_chess_lerobot_v21")
    items = list(source.items)
    for number in (1, 2):
        with pytest.raises(SourceError, match="neither data nor video"):
            items[number].load()
    records = [items[number].load() for number in (0, 3, 4)]
    assert [record.episode.num_steps for record in records] == [775, 762, 1]
    assert records[0].warnings == ("data file is missing: no signals",)
    assert records[2].warnings == records[0].warnings and records[2].episode.num_steps == 1
    assert records[0].trajectory.state is None and len(records[0].trajectory.timestamps) == 775
    assert records[0].episode.instruction == "Move the white rook to D4 on the chessboard."
    assert records[0].episode.cameras[0].role == "wrist"
    assert len({record.episode.content_hash for record in records}) == 3
    assert sum(1 for _ in all_frames(records[2].episode.cameras[0].media)) == 1


def test_gr1_parts_of_modality_and_what_its_info_gets_wrong(shared_data: Path) -> None:
    source = opened(shared_data / "gr1_sim_lerobot_v20")
    record = next(source.items).load()
    episode, trajectory = record.episode, record.trajectory
    assert episode.instructions == ("pick the squash from the counter and place it in the plate",)
    assert episode.metadata == {"annotation.human.validity": "valid"}
    assert episode.state_names[:8] == (*(f"left_arm_{k}" for k in range(7)), "left_hand_0")
    assert [camera.name for camera in episode.cameras] == ["ego_view"]
    assert (episode.num_steps, episode.rate_hz, episode.success) == (416, 20.0, None)
    assert trajectory.timestamps[:3].tolist() == [0.0, 0.05, 0.1]
    assert trajectory.reward is not None and trajectory.reward.shape == (416,)
    assert trajectory.extra["next.done"].values[-1] == 1.0
    table = pq.read_table(
        shared_data / "gr1_sim_lerobot_v20" / "data" / "chunk-000" / "episode_000000.parquet"
    )
    actions = np.array(table["action"].to_pylist(), np.float32)
    assert trajectory.action is not None and np.array_equal(trajectory.action.values, actions)


def make(folder: Path, episodes: int = 6, per_file: int = 3, **changes: Any) -> Path:
    """A v3.0 dataset without videos."""
    write_good_folder(folder, version="v3.0", lengths=[5] * episodes, cameras=(), per_file=per_file)
    info = folder / "meta" / "info.json"
    info.write_text(json.dumps({**json.loads(info.read_text()), **changes}))
    return folder


@pytest.mark.parametrize("group_rows", [3, 5, 1000])
@pytest.mark.parametrize("block_rows", [1, 12, 1000])
def test_blocks_give_each_episode_its_own_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_rows: int, block_rows: int
) -> None:
    """Whatever the row groups and blocks are, in any order, from several threads, and after pickling."""
    monkeypatch.setattr("ares_ingest.lerobot.rows._BLOCK_ROWS", block_rows)
    monkeypatch.setattr("ares_ingest.lerobot.rows._CACHE_BYTES", 200)
    folder = make(tmp_path / "made", episodes=25, per_file=13)
    for path in folder.rglob("data/*/*.parquet"):
        pq.write_table(pq.read_table(path), path, row_group_size=group_rows)
    items = pickle.loads(pickle.dumps(list(opened(folder).items)))
    order = np.random.default_rng(0).permutation(25)
    with ThreadPoolExecutor(4) as pool:
        loaded = list(pool.map(lambda number: items[number].load(), order))
    for number, record in zip(order, loaded, strict=True):
        assert record.trajectory.action is not None and not record.warnings
        assert record.trajectory.action.values.ravel().tolist() == [100 * number + k for k in range(5)]


def test_a_broken_row_group_costs_its_own_episode(tmp_path: Path) -> None:
    folder = make(tmp_path / "made", episodes=12, per_file=6)
    for path in folder.rglob("data/*/*.parquet"):
        pq.write_table(pq.read_table(path), path, row_group_size=5)
    path = folder / "data" / "chunk-000" / "file-000.parquet"
    column = pq.ParquetFile(path).metadata.row_group(2).column(0)
    data = bytearray(path.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(data)
    assert outcomes(opened(folder)) == ["good"] * 2 + ["data file cannot be read"] + ["good"] * 9


def test_a_data_file_is_decoded_once_for_all_its_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ares_ingest.lerobot import rows as data

    reads: list[Any] = []
    read = data._read_columns

    def counted(*args: Any) -> pa.Table:
        reads.append(args)
        return read(*args)

    monkeypatch.setattr(data, "_read_columns", counted)
    assert len(records(make(tmp_path / "made", episodes=40, per_file=20))) == 40
    assert len(reads) == 4  # for each of the two files, its numbering and its one block


def test_datasets_two_levels_below(tmp_path: Path) -> None:
    for name in ("a/one", "a/two", "b/one"):
        make(tmp_path / name)
    make(tmp_path / "too" / "deep" / "down")
    sources = lerobot.open(str(tmp_path), SourceOptions())
    assert [source.dataset for source in sources] == ["a/one", "a/two", "b/one"]
    with pytest.raises(SourceError, match="one name for several"):
        lerobot.open(str(tmp_path), SourceOptions(dataset="x"))
    assert not lerobot.recognises(str(tmp_path / "too" / "deep" / "down" / "data"))
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "there").symlink_to(tmp_path / "b" / "one")
    assert lerobot.recognises(str(tmp_path / "linked"))
    (tmp_path / "empty").mkdir()
    assert not lerobot.recognises(str(tmp_path / "empty"))


def test_name_of_a_snapshot_in_the_cache_of_the_hub(tmp_path: Path) -> None:
    folder = make(tmp_path / "datasets--owner--pick-cubes" / "snapshots" / "1f2e3d")
    assert opened(folder).dataset == "pick-cubes"


def test_rate_of_the_user_and_none_at_all(tmp_path: Path) -> None:
    folder = make(tmp_path / "made", fps=None)
    source = opened(folder)
    episode = next(source.items).load().episode
    assert (episode.rate_hz, episode.rate_source) == (10.0, "measured")
    assert "fps in info.json is not known: 10 Hz by the timestamps" in source.warnings
    for path in folder.rglob("data/*/*.parquet"):
        pq.write_table(pq.read_table(path).drop_columns("timestamp"), path)
    source = opened(folder)
    assert next(source.items).load().episode.rate_source == "assumed"
    assert "fps in info.json is not known, 10 Hz assumed (give --rate)" in source.warnings
    record = records(make(tmp_path / "told"), rate_hz=20.0)[0]
    assert (record.episode.rate_hz, record.episode.rate_source) == (20.0, "user")
    assert record.trajectory.timestamps.tolist() == [0.0, 0.05, 0.1, 0.15, 0.2]


def test_same_episode_in_another_dataset_has_the_same_content(tmp_path: Path) -> None:
    first, second = make(tmp_path / "a", episodes=4), make(tmp_path / "b", episodes=6)
    hashes = [[record.episode.content_hash for record in records(folder)] for folder in (first, second)]
    assert hashes[1][:4] == hashes[0] and len(set(hashes[1])) == 6
    assert next(opened(first).items).episode_id != next(opened(second).items).episode_id


def test_equal_signals_with_another_video_are_another_episode(tmp_path: Path) -> None:
    lengths = (6, 9, 7)
    first = write_good_folder(tmp_path / "a" / "made", version="v2.1", lengths=lengths)
    second = shutil.copytree(first, tmp_path / "b" / "made")
    front, left = sorted(second.rglob("episode_000001.mp4"))
    shutil.copy(front, left)
    loaded = [[item.load() for item in opened(folder).items] for folder in (first, second)]
    same = [
        one.episode.content_hash == other.episode.content_hash for one, other in zip(*loaded, strict=True)
    ]
    assert same == [True, False, True]
    assert [record.earlier_hash for record in loaded[0]] == [record.earlier_hash for record in loaded[1]]


@pytest.mark.slow
def test_a_workspace_of_an_earlier_version_takes_its_episodes_for_stored(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_good_folder(tmp_path / "made", version="v3.0", lengths=(6, 9, 7))
    with monkeypatch.context() as earlier:
        hashes = episode_module._content_hashes
        earlier.setattr(episode_module, "_content_hashes", lambda *parts: (hashes(*parts)[1],) * 2)
        assert ingest_paths(ws.stores, [str(folder)], quiet=True).counts.kept == 3
    moved = shutil.copytree(folder, tmp_path / "elsewhere" / "made")
    for path in moved.rglob("data/**/*.parquet"):  # as a recorder that writes its file again
        pq.write_table(pq.read_table(path), path, compression="zstd")
    counts = ingest_paths(ws.stores, [str(moved)], quiet=True).counts
    assert (counts.kept, counts.already, counts.failed) == (0, 3, 0)
