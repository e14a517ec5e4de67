"""A set as a stream: the frozen order, its lanes and workers, going on in the middle, and each frame decoded once."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import ares
from ares import open as open_workspace
from ares.errors import RequestError
from ares.loader import StepStream
from ares.loader.dataset import StepDataset, StepOrder
from ares.media import frames_at
from ares.media.video import codec
from ares.media.video.probe import open_video_stream
from ares.workspace import Workspace
from ares.workspace.requested_exports import list_in_source_order
from tests.ares.export import made_episodes
from tests.ingest.lerobot.good_folders import write_good_folder
from tests.thinning import some_by_day

torch = pytest.importorskip("torch")

ACTION, STATE = "action", "observation.state"
FRONT = "observation.images.front"
VIDEO = "format = 'video'"
# The frozen order: whoever sees this fail has changed the order of trainings that are under way.
FIRST_ROWS = [140, 274, 298, 277, 304, 239, 199, 2]


def read_rows(stream: StepStream, workers: int = 0, batch_size: int = 8) -> list[list[int]]:
    """The rows of every batch of a loader."""
    context = "spawn" if workers else None
    loader = torch.utils.data.DataLoader(
        stream, batch_size=batch_size, num_workers=workers, multiprocessing_context=context
    )
    return [batch["index"].tolist() for batch in loader]


def test_an_epoch_has_each_step_once_in_an_order_that_never_changes(workspace: Workspace) -> None:
    dataset = workspace.torch_dataset("video", cameras=[])
    stream = dataset.stream(8, seed=3)
    batches = read_rows(stream)
    assert batches[0] == FIRST_ROWS
    assert sorted(row for batch in batches for row in batch) == list(range(len(dataset)))
    assert [len(batch) for batch in batches[:-1]] == [8] * (len(batches) - 1)
    stream.set_epoch(1)
    assert read_rows(stream) != batches
    assert read_rows(dataset.stream(8, shuffle=False, lanes=1))[:2] == [list(range(8)), list(range(8, 16))]


def test_ranks_read_equal_parts_that_go_on_in_the_middle(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = workspace.torch_dataset("video", cameras=[])
    streams = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        streams.append(dataset.stream(8, seed=3))
    parts = [read_rows(stream) for stream in streams]
    rows = [row for batches in parts for batch in batches for row in batch]
    assert len({*rows}) == len(rows) == 2 * len(streams[0]) == 2 * len(streams[1]) >= len(dataset) - 1
    assert [*map(len, parts[0])] == [*map(len, parts[1])]
    given = dataset.stream(8, seed=3, rank=1, world_size=2)
    given.load_state_dict(streams[0].state_dict(5))
    assert read_rows(given) == parts[1][5:]
    monkeypatch.delenv("RANK")
    with pytest.raises(RequestError, match="world_size was 2 and is 1"):
        dataset.stream(8, seed=3).load_state_dict(streams[0].state_dict(5))
    with pytest.raises(RequestError, match="a rank is a number from 0, below world_size: got rank=2"):
        dataset.stream(8, rank=2, world_size=2)


_RANK_SCRIPT = """
import json, sys
import ares
from torch.utils.data import DataLoader
folder, state, after = sys.argv[1:]
stream = ares.torch_dataset(folder, cameras=[]).stream(8, seed=3)
if state:
    stream.load_state_dict(json.loads(state))
batches = [batch["index"].tolist() for batch in DataLoader(stream, batch_size=8)]
print(json.dumps([batches, stream.state_dict(int(after))]))
"""


def test_two_processes_read_disjoint_equal_parts_and_go_on_exactly(
    workspace: Workspace, tmp_path: Path
) -> None:
    """As torchrun starts them; the second time each begins where a state of its rank says."""
    workspace.export("video", tmp_path / "out", quiet=True)

    def run(states: list[str]) -> list[tuple[list[list[int]], dict[str, Any]]]:
        started = [
            subprocess.Popen(
                [sys.executable, "-c", _RANK_SCRIPT, str(tmp_path / "out"), state, "5"],
                env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"},
                stdout=subprocess.PIPE,
            )
            for rank, state in enumerate(states)
        ]
        return [json.loads(process.communicate(timeout=300)[0]) for process in started]

    whole = run(["", ""])
    parts = [batches for batches, _ in whole]
    first, second = ([row for batch in batches for row in batch] for batches in parts)
    assert len(first) == len(second) > 40 and not {*first} & {*second}
    assert len({*first, *second}) == 2 * len(first) >= len(workspace.torch_dataset("video", cameras=[])) - 1
    resumed = run([json.dumps(state) for _, state in whole])
    assert [batches for batches, _ in resumed] == [batches[5:] for batches in parts]


def test_drawn_windows_and_their_pad_masks_are_those_of_the_parquet_of_the_source(tmp_path: Path) -> None:
    source = write_good_folder(tmp_path / "arm", version="v3.0", lengths=(30, 2, 17, 5))
    files = sorted((source / "data").rglob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    rng, offsets = np.random.default_rng(5), [-4, -1, 0, 1, 3, 9]
    times = [offset / 10 for offset in offsets]
    with open_workspace(tmp_path / "ws", create=True) as ws:
        ws.ingest(source, quiet=True)
        windows = {STATE: times, ACTION: times}
        dataset = ws.torch_dataset(list_in_source_order(ws.stores), cameras=[], delta_timestamps=windows)
        assert len(dataset) == len(rows)
        for number in rng.integers(0, len(rows), 300).tolist():
            own = [row for row in rows if row["episode_index"] == rows[number]["episode_index"]]
            wanted = [rows[number]["frame_index"] + offset for offset in offsets]
            kept = [own[min(max(step, 0), len(own) - 1)] for step in wanted]
            item, mask = dataset[number], [not 0 <= step < len(own) for step in wanted]
            for key in windows:
                assert item[f"{key}_is_pad"].tolist() == mask
                assert item[key].tolist() == [row[key] for row in kept]


def test_a_process_of_torch_distributed_reads_its_part(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = workspace.torch_dataset("video", cameras=[])
    for name, value in (("is_initialized", True), ("get_rank", 1), ("get_world_size", 3)):
        monkeypatch.setattr(torch.distributed, name, lambda value=value: value)
    assert read_rows(dataset.stream(8)) == read_rows(dataset.stream(8, rank=1, world_size=3))


def test_a_batch_holds_many_episodes() -> None:
    """28 of different lengths; a batch of 32 that is drawn from all steps holds 17."""
    lengths = np.random.RandomState(0).randint(60, 600, 28)
    first_rows = np.concatenate([[0], np.cumsum(lengths)])
    default = inspect.signature(StepDataset.stream).parameters
    order = StepOrder(True, 0, default["block_steps"].default, default["shuffle_blocks"].default)
    rows = order.rows(first_rows, 0)
    assert sorted(rows) == list(range(first_rows[-1]))
    episodes = np.searchsorted(first_rows, rows, side="right")
    batches = [len({*episodes[start : start + 32]}) for start in range(0, len(rows) - 31, 32)]
    assert np.mean(batches) > 16 and np.percentile(batches, 10) >= 15


@pytest.mark.nightly
def test_workers_share_the_order(workspace: Workspace) -> None:
    stream = workspace.torch_dataset("video", cameras=[]).stream(8, seed=3)
    assert read_rows(stream, workers=2) == read_rows(stream)


def test_workers_that_cannot_share_the_lanes_are_refused(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = workspace.torch_dataset("video", cameras=[]).stream(8)
    worker = SimpleNamespace(id=0, num_workers=3)
    monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: worker)
    with pytest.raises(RequestError, match="the lanes are shared out evenly: 4 lanes, 3 workers"):
        next(iter(stream))


@pytest.mark.parametrize("count", some_by_day([17, 1, 5, 38], 4))
def test_a_state_goes_on_in_the_middle_of_an_epoch(workspace: Workspace, count: int) -> None:
    dataset = workspace.torch_dataset("video", cameras=[])
    batches = read_rows(dataset.stream(8, seed=3))
    assert len(batches) == 39
    state = pickle.loads(pickle.dumps(dataset.stream(8, seed=3).state_dict(count)))
    other = workspace.torch_dataset("video", cameras=[]).stream(8, seed=3)
    other.load_state_dict(state)
    assert len(other) == len(dataset) - 8 * count
    assert read_rows(other) == batches[count:]
    assert other.state_dict(39 - count) == {**state, "epoch": 1, "batches": 0}


def test_a_state_of_another_order_is_refused(workspace: Workspace) -> None:
    dataset = workspace.torch_dataset("video", cameras=[])
    state = dataset.stream(8, seed=3).state_dict(2)
    for stream, message in [
        (dataset.stream(4, seed=3), "batch_size was 8 and is 4"),
        (dataset.stream(8, seed=4), "order was"),
        (
            workspace.torch_dataset(workspace.episodes.where(VIDEO).take(2), cameras=[]).stream(8, seed=3),
            "steps was",
        ),
    ]:
        with pytest.raises(RequestError, match=f"the state is of another order: {message}"):
            stream.load_state_dict(state)
    with pytest.raises(RequestError, match="lanes is a number from 1: got 0"):
        dataset.stream(8, lanes=0)


@pytest.mark.parametrize("shuffle", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_items_of_a_stream_are_those_of_the_dataset(workspace: Workspace, shuffle: bool) -> None:
    windows = {FRONT: [-0.1, 0.0, 0.05]}
    dataset = workspace.torch_dataset("video", cameras=["front"], delta_timestamps=windows)
    items = list(dataset.stream(4, shuffle=shuffle, lanes=2))
    assert len(items) == len(dataset)
    for item in items[::23]:
        for key, value in dataset[item["index"]].items():
            assert torch.equal(item[key], value) if isinstance(value, torch.Tensor) else item[key] == value


def count_decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[Any]:
    """Counts the frames that decoders give, by their time in the video."""
    counts: Counter[Any] = Counter()
    real = codec._decode_packets

    def counting(*arguments: Any) -> Iterator[Any]:
        for frame in real(*arguments):
            counts[frame.pts] += 1
            yield frame

    monkeypatch.setattr(codec, "_decode_packets", counting)
    return counts


@pytest.mark.slow
def test_reading_in_order_decodes_each_frame_once(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = {FRONT: [-0.1, 0.0, 0.05]}
    dataset = workspace.torch_dataset("video", cameras=["front"], delta_timestamps=windows)
    counts = count_decoded(monkeypatch)
    assert sum(1 for _ in dataset.stream(4, shuffle=False, lanes=1)) == len(dataset) == counts.total()
    counts.clear()
    assert sum(1 for _ in dataset.stream(4)) == len(dataset)
    # Blocks begin behind a keyframe, and windows reach beyond their block.
    assert len(dataset) < counts.total() < 12 * len(dataset)


def test_steps_by_number_open_a_video_once_and_in_order_decode_each_frame_once(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = workspace.torch_dataset("video", cameras=["front"])
    opened = Counter[str]()

    def counting(path: str) -> Any:
        opened[path] += 1
        return open_video_stream(path)

    monkeypatch.setattr(codec, "open_video_stream", counting)
    counts = count_decoded(monkeypatch)
    in_order = [dataset[row][FRONT] for row in range(len(dataset))]
    assert counts.total() == len(dataset)
    rows = np.random.RandomState(4).permutation(len(dataset)).tolist()
    for row in rows[:40]:
        assert torch.equal(dataset[row][FRONT], in_order[row])
    assert set(opened.values()) == {1}
    few = pickle.loads(pickle.dumps(codec.OpenVideos(1)))
    for row in (5, len(dataset) - 5, 5):
        media = dataset._store.episode(dataset.find_episode(row)[0]).media[0]
        frame = frames_at(media, dataset._store.camera_seconds(0, np.array([row])), few)[0]
        assert np.array_equal(frame.transpose(2, 0, 1), in_order[row].numpy())
        assert len(few._idle) == 1
    assert sorted(opened.values())[-2:] == [2, 3]


def test_signals_are_normalised_by_all_steps(workspace: Workspace) -> None:
    plain = workspace.torch_dataset("rlds", cameras=[])
    values = torch.stack([plain[row][STATE] for row in range(len(plain))]).double().numpy()
    statistics = plain.statistics[STATE]
    for name, expected in [
        ("mean", values.mean(0)),
        ("std", values.std(0)),
        ("min", values.min(0)),
        ("max", values.max(0)),
    ]:
        assert np.allclose(statistics[name], expected, rtol=1e-12, atol=1e-12), name
    dataset = workspace.torch_dataset("rlds", cameras=[], normalise={STATE: "mean_std", ACTION: "min_max"})
    items = [dataset[row] for row in range(len(dataset))]
    states, actions = (torch.stack([item[key] for item in items]) for key in (STATE, ACTION))
    moving = values.std(0) > 0
    assert torch.allclose(states.mean(0), torch.zeros(()), atol=1e-5)
    assert torch.allclose(states.std(0, correction=0)[moving], torch.ones(()), atol=1e-4)
    assert actions.min() >= -1.00001 and actions.max() <= 1.00001 and actions.max() > 0.999
    assert torch.allclose(dataset.restore(STATE, items[5][STATE]), plain[5][STATE], atol=1e-5)
    for normalise, message in [
        ({"actions": "min_max"}, "no signal 'actions' to normalise: did you mean 'action'"),
        ({ACTION: "minmax"}, "no normalisation 'minmax'"),
    ]:
        with pytest.raises(RequestError, match=message):
            workspace.torch_dataset("rlds", normalise=normalise)  # type: ignore[arg-type]


def test_a_view_is_read_as_a_set_is(workspace: Workspace) -> None:
    ids = sorted(workspace.episodes.where(VIDEO).ids())[:2]
    dataset = workspace.torch_dataset(workspace.episodes & ids, cameras=[])
    assert list(dict.fromkeys(dataset[row]["episode_id"] for row in range(len(dataset)))) == ids
    with pytest.raises(RequestError, match="the view has no episodes"):
        workspace.torch_dataset(workspace.episodes.where("num_steps < 0"))
    assert [entry.name for entry in workspace.sets.values()] == ["all", "rlds", "video"]


@pytest.mark.parametrize(
    "format",
    ["lerobot", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lerobot-v2.1", "rlds"))],
)
def test_an_export_is_read_without_a_workspace(workspace: Workspace, tmp_path: Path, format: str) -> None:
    workspace.export("rlds", tmp_path / "out", format=format, quiet=True)
    windows = {ACTION: [0.0, 0.1]}
    dataset = ares.torch_dataset(tmp_path / "out", cameras=[], delta_timestamps=windows)
    expected = workspace.torch_dataset("rlds", cameras=[], delta_timestamps=windows)
    assert len(dataset) == len(expected)
    if format != "rlds":
        numbers = [row["episode_index"] for row in made_episodes.read_rows(tmp_path / "out")]
        assert [dataset[row]["episode_index"] for row in range(len(dataset))] == numbers
        assert all(
            torch.equal(dataset[row][ACTION], expected[row][ACTION]) for row in (0, 70, len(dataset) - 1)
        )
    items, others = (
        sorted(
            (item[STATE].tolist(), item[ACTION].tolist(), item["action_is_pad"].tolist())
            for item in map(steps.__getitem__, range(len(steps)))
        )
        for steps in (dataset, expected)
    )
    assert items == others
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    moved = ares.torch_dataset(tmp_path / "elsewhere", delta_timestamps=windows)
    assert moved.stream(4).state_dict(1) == dataset.stream(4).state_dict(1)
    assert moved[3][f"observation.images.{moved.cameras[0]}"].shape[0] == 3
    with pytest.raises(RequestError):
        ares.torch_dataset(tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize(("shuffle", "most"), [(True, 2 * (2 + 2) * (4 + 2)), (False, 2 * 4)])
def test_a_stream_holds_few_frames(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, shuffle: bool, most: int
) -> None:
    windows = {FRONT: [-0.05, 0.0, 0.05]}
    dataset = workspace.torch_dataset("video", cameras=["front"], delta_timestamps=windows)
    real, held, peaks, videos = dataset.open_run, [0], [0], [0]

    def open_run(*arguments: Any) -> Iterator[Any]:
        videos[0] += 1
        try:
            for frame in real(*arguments):
                own = frame.copy()
                weakref.finalize(own, lambda: held.__setitem__(0, held[0] - 1))
                held[0] += 1
                peaks.append(max(peaks.pop(), held[0]))
                yield own
        finally:
            videos[0] -= 1

    monkeypatch.setattr(dataset, "open_run", open_run)
    stream = dataset.stream(2, shuffle=shuffle, block_steps=4, shuffle_blocks=2, lanes=2)
    for epoch in range(2):
        stream.set_epoch(epoch)
        # A block is decoded at once; in order the video of each lane stays open.
        open_videos = [videos[0] for _ in stream]
        assert len(open_videos) == len(dataset) and max(open_videos) == (0 if shuffle else 2)
    assert 0 < peaks[0] <= most + 1
