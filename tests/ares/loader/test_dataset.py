"""A set as a PyTorch dataset: every step with its signals and frames, windows, workers, samplers and errors."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ares.clock import camera_seconds
from ares.errors import RequestError
from ares.loader import StepDataset
from ares.media import frames_at
from ares.workspace import Workspace

torch = pytest.importorskip("torch")

ACTION, FRONT = "action", "observation.images.corner"


@pytest.mark.parametrize("name", ["rlds", "video"])
def test_every_step_has_its_signals_and_frames(workspace: Workspace, name: str) -> None:
    dataset = workspace.torch_dataset(name)
    ids = list(workspace.sets.ids(name))
    episodes = [workspace.stores.tables.episodes.get_episode(id) for id in ids]
    assert len(dataset) == sum(episode.num_steps for episode in episodes)
    assert dataset.num_episodes == len(episodes)
    start = 0
    for number, episode in enumerate(episodes):
        trajectory = workspace.stores.tables.trajectories.get(episode.episode_id)
        assert trajectory is not None
        for step in (0, episode.num_steps // 2, episode.num_steps - 1):
            item = dataset[start + step]
            assert (item["episode_id"], item["task"]) == (episode.episode_id, episode.instruction)
            assert (item["episode_index"], item["frame_index"], item["index"]) == (number, step, start + step)
            for key, signal in (("observation.state", trajectory.state), (ACTION, trajectory.action)):
                assert (key in item) == (signal is not None)
                if signal is not None:
                    assert np.array_equal(item[key].numpy(), signal.values[step])
            for camera in episode.cameras:
                stamps = trajectory.timestamps
                seconds = camera_seconds(episode, camera, [float(stamps[step])], lambda s=stamps: s)  # type: ignore[misc]
                expected = frames_at(camera.media, seconds)[0].transpose(2, 0, 1)
                assert np.array_equal(item[f"observation.images.{camera.name}"].numpy(), expected)
        start += episode.num_steps


def test_a_window_is_padded_at_both_ends_of_its_episode(workspace: Workspace) -> None:
    dataset = workspace.torch_dataset("rlds", cameras=[], delta_timestamps={ACTION: [-0.1, 0.0, 0.1, 0.2]})
    plain = workspace.torch_dataset("rlds", cameras=[])
    stop = next(row for row in range(len(plain)) if plain[row]["episode_index"] == 1)
    for row, rows, mask in [
        (0, [0, 0, 1, 2], [True, False, False, False]),
        (stop - 1, [stop - 2, stop - 1, stop - 1, stop - 1], [False, False, True, True]),
        (stop, [stop, stop, stop + 1, stop + 2], [True, False, False, False]),
    ]:
        item = dataset[row]
        assert item["action_is_pad"].tolist() == mask
        assert torch.equal(item[ACTION], torch.stack([plain[other][ACTION] for other in rows]))


def test_a_window_of_frames_has_the_frames_of_its_steps(workspace: Workspace) -> None:
    name = workspace.torch_dataset("video").cameras[0]
    key = f"observation.images.{name}"
    plain = workspace.torch_dataset("video", cameras=[name])
    dataset = workspace.torch_dataset("video", cameras=[name], delta_timestamps={key: [-0.1, -0.05, 0.0]})
    item = dataset[5]
    assert torch.equal(item[key], torch.stack([plain[row][key] for row in (3, 4, 5)]))
    assert sorted(plain[5]) == sorted({*item} - {f"{key}_is_pad"})


@pytest.mark.slow
def test_workers_read_the_same_items(workspace: Workspace) -> None:
    dataset = workspace.torch_dataset("video", delta_timestamps={})
    rows = list(range(0, len(dataset), 97))
    sampler = torch.utils.data.Subset(dataset, rows)
    loader = torch.utils.data.DataLoader(
        sampler, batch_size=2, num_workers=2, multiprocessing_context="spawn"
    )
    key = f"observation.images.{dataset.cameras[0]}"
    batches = list(loader)
    assert torch.equal(torch.cat([batch["index"] for batch in batches]), torch.tensor(rows))
    assert torch.equal(
        torch.cat([batch[key] for batch in batches]), torch.stack([dataset[r][key] for r in rows])
    )


FORKED_WORKERS = """
import sys, torch
from ares.settings import Settings
from ares.workspace import open_workspace
with open_workspace(sys.argv[1], Settings()) as workspace:
    dataset = workspace.torch_dataset("video")
    for _ in range(20):
        dataset[5]  # what decoding leaves behind is collected by the workers, too
    rows = list(range(0, len(dataset), 97))
    loader = torch.utils.data.DataLoader(
        torch.utils.data.Subset(dataset, rows), batch_size=2, num_workers=2, multiprocessing_context="fork"
    )
    print(sum(len(batch["index"]) for _ in range(3) for batch in loader) == 3 * len(rows))
"""


@pytest.mark.nightly
def test_forked_workers_read_after_their_parent_has_decoded(workspace: Workspace) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED_WORKERS, str(workspace.stores.location)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert answer.stdout.strip() == "True", answer.stderr


@pytest.mark.slow
def test_a_pickled_dataset_reads_the_same_and_the_files_go_with_the_first(workspace: Workspace) -> None:
    dataset = workspace.torch_dataset("rlds", cameras=[])
    copy: StepDataset = pickle.loads(pickle.dumps(dataset))
    assert torch.equal(copy[7][ACTION], dataset[7][ACTION])
    assert copy[-1]["index"] == len(dataset) - 1
    with pytest.raises(IndexError, match=f"no step {len(dataset)}"):
        dataset[len(dataset)]
    folder = Path(str(dataset._folder))
    del copy
    gc.collect()
    assert folder.is_dir()
    del dataset
    gc.collect()
    assert not folder.parent.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cameras": ["nose"]}, "no camera 'nose' in the set"),
        ({"delta_timestamps": {"actions": [0.0]}}, "no key 'actions' for a window: did you mean 'action'"),
        ({"delta_timestamps": {"action": [0.0, 0.033]}}, r"got 0\.033 s; steps are 0\.1 s apart"),
        ({"delta_timestamps": {"action": []}}, "the times of action are not those of steps"),
    ],
)
def test_what_the_set_does_not_have_is_one_line(
    workspace: Workspace, options: dict[str, object], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        workspace.torch_dataset("rlds", **options)  # type: ignore[arg-type]


def test_episodes_of_several_layouts_are_refused(workspace: Workspace) -> None:
    with pytest.raises(RequestError, match="episodes of the set have several layouts: "):
        workspace.torch_dataset("all")
