"""An export and a workspace in a bucket are read as on a disk: by streams and by number, by spawned workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ares
from ares.loader import StepDataset
from tests.conftest import S3

torch = pytest.importorskip("torch")

KEYS = ("index", "action_is_pad", "observation.images.front", "observation.images.wrist")


def read_batches(dataset: Any, workers: int) -> list[dict[str, Any]]:
    """The batches of a loader; workers that are spawned have no connection of their parent."""
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=4, num_workers=workers, multiprocessing_context="spawn" if workers else None
    )
    return list(loader)


def assert_same_batches(remote: Any, local: Any, workers: int = 0) -> None:
    for batch, expected in zip(read_batches(remote, workers), read_batches(local, 0), strict=True):
        assert batch.keys() == expected.keys()
        for key in batch.keys() & KEYS:
            assert torch.equal(batch[key], expected[key]), key


def assert_same_dataset(remote: StepDataset, local: StepDataset) -> None:
    assert len(remote) == len(local) > 100 and remote.statistics == local.statistics
    assert remote.content_hash() == local.content_hash()


@pytest.mark.nightly
def test_mp4_in_a_bucket_is_read_as_on_a_disk(
    s3_environ: S3, tmp_path: Path, demo_samples: Path, mongo_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARES_MONGO_URI", mongo_uri)
    bucket = s3_environ.bucket()
    s3_environ.upload(demo_samples / "video", f"{bucket}/video")
    folders = {f"s3://{bucket}/ws": f"s3://{bucket}/video", str(tmp_path / "ws"): str(demo_samples / "video")}
    datasets = []
    for place, source in folders.items():
        with ares.open(place, create=True) as workspace:
            workspace.ingest(source, limit=2, quiet=True)
            both = workspace.sets.create("both", list(workspace.episodes.ids()), {})
            datasets.append(workspace.torch_dataset("both"))
            workspace.export(both, tmp_path / f"out-{len(datasets)}", format="lerobot", quiet=True)
    assert_same_dataset(*datasets)
    rows = range(0, len(datasets[0]), 61)
    remote, local = (torch.utils.data.Subset(dataset, rows) for dataset in datasets)
    assert_same_batches(remote, local)

    s3_environ.upload(tmp_path / "out-2", f"{bucket}/out")
    exports = [ares.torch_dataset(folder) for folder in (f"s3://{bucket}/out", tmp_path / "out-2")]
    assert_same_dataset(*exports)
    remote, local = (export.stream(4, seed=2, lanes=2) for export in exports)
    assert_same_batches(remote, local, workers=2)
