"""What the contract suites run on: a workspace with the samples, and a small dataset of every format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
from numpy.typing import NDArray

from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_ingest.base import SourceOptions
from tests.ares.conftest import make_annotation
from tests.ares.store.conftest import open_database, open_store, store
from tests.ingest.agibot.conftest import write_agibot
from tests.ingest.image_folders.conftest import write_dataset
from tests.ingest.image_folders.test_image_episodes import write_bridge
from tests.ingest.recordings.mcap.conftest import images, states, write
from tests.ingest.recordings.rosbag.conftest import write_ros1, write_ros2
from tests.ingest.zarr.conftest import write_zip
from tests.ingesting import ingest_paths

# Fixtures of the annotation stores.
__all__ = ["make_annotation", "open_database", "open_store", "store"]

MakeSample = Callable[[Path], Path]


@pytest.fixture(scope="session")
def reference_settings(reference_models: Path) -> Settings:
    """The reference models for everything."""
    clip = f"local-dir:{reference_models / 'reference-clip'}"
    captioner = f"hf:{reference_models / 'reference-captioner'}"
    return Settings(embed_model=clip, caption_model=captioner, judge_model=f"clip:{clip}")


@pytest.fixture(scope="session")
def sample_workspace(
    tmp_path_factory: pytest.TempPathFactory, demo_samples: Path, reference_settings: Settings
) -> Iterator[Workspace]:
    """Both samples, 12 episodes each, frozen as the set "all"; not to be written to."""
    workspace = open_workspace(str(tmp_path_factory.mktemp("contracts") / "workspace"), reference_settings)
    ingest_paths(workspace.stores, [str(demo_samples / "rlds")], SourceOptions(rate_hz=10.0), quiet=True)
    ingest_paths(workspace.stores, [str(demo_samples / "video")], quiet=True)
    workspace.sets.create("all", workspace.stores.tables.episodes.ids(), {"where": ""})
    yield workspace
    workspace.close()


@pytest.fixture(scope="session")
def make_samples(demo_samples: Path, sample_workspace: Workspace) -> dict[str, MakeSample]:
    """By format, what puts a small good dataset into a folder and says where it is.

    A new ingester of ours needs an entry here; formats of guests are tried without a dataset.
    """

    def hdf5(folder: Path) -> Path:
        return _write_robomimic(folder / "demo.hdf5")

    def lerobot(folder: Path) -> Path:
        videos = sample_workspace.stores.tables.episodes.ids("format = 'video'")
        chosen = sample_workspace.sets.create("videos", sorted(videos)[:3], {})
        sample_workspace.export(chosen, folder / "lerobot", quiet=True)
        return folder / "lerobot"

    def mcap(folder: Path) -> Path:
        return write(folder / "run.mcap", [*states(), *images()])

    def rosbag(folder: Path) -> Path:
        write_ros1(folder / "bags" / "run.bag", compression="LZ4")
        write_ros2(folder / "bags" / "run")
        return folder / "bags"

    return {
        "agibot": lambda folder: write_agibot(folder / "agibot"),
        "csv": lambda folder: write_dataset(folder / "drawers"),
        "hdf5": hdf5,
        "images": lambda folder: write_bridge(folder / "bridge", folder / "opened"),
        "lerobot": lerobot,
        "mcap": mcap,
        "npz": lambda folder: _write_npz(folder / "npz"),
        "rlds": lambda folder: demo_samples / "rlds",
        "rosbag": rosbag,
        "video": lambda folder: demo_samples / "video",
        "zarr": lambda folder: write_zip(folder / "replay.zarr.zip"),
    }


def natural_images(random: np.random.Generator, count: int) -> NDArray[np.uint8]:
    """(count, 48, 64, 3) pictures as cameras take them: a shaded ground, a disc that moves before it, little noise."""
    y, x = np.mgrid[0:48, 0:64]
    ground, disc = random.integers(60, 200, 3), random.integers(0, 256, 3)
    images = np.empty((count, 48, 64, 3), np.uint8)
    for number in range(count):
        shade = 0.7 + 0.3 * np.cos(x / 40 + y / 25)
        is_disc = (x - 10 - 4 * number) ** 2 + (y - 24) ** 2 < 64
        picture = np.where(is_disc[..., None], disc, shade[..., None] * ground)
        images[number] = np.clip(picture + random.normal(0, 2, picture.shape), 0, 255)
    return images


def _write_robomimic(path: Path) -> Path:
    """Two demonstrations of nine steps with one camera, as robomimic keeps them."""
    random = np.random.default_rng(5)
    with h5py.File(path, "w") as file:
        for number in range(2):
            group = file.create_group(f"data/demo_{number}")
            group["actions"] = random.normal(size=(9, 7)).astype("float32")
            group["obs/robot0_joint_pos"] = random.normal(size=(9, 7)).astype("float32")
            group["obs/agentview_image"] = natural_images(random, 9)
    return path


def _write_npz(folder: Path) -> Path:
    """Two episodes of nine steps with one camera, each a .npz file with a JSON file beside it."""
    random = np.random.default_rng(6)
    folder.mkdir()
    for number in range(2):
        np.savez(
            folder / f"episode_{number}.npz",
            action=random.normal(size=(9, 7)).astype("float32"),
            state=random.normal(size=(9, 7)).astype("float32"),
            image=natural_images(random, 9),
        )
        (folder / f"episode_{number}.json").write_text('{"instruction": "open the drawer", "fps": 10}')
    return folder
