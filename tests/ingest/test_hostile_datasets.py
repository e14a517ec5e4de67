"""Hostile records and datasets fail alone, and the good ones beside them are all kept."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Any, cast

import cv2
import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

from ares.errors import MediaError
from ares.media import frames_at
from ares.settings import settings_from_environment
from ares.workspace import open_workspace
from tests.ingesting import ingest_paths

GOOD = 12


def huge_png() -> bytes:
    """A PNG that declares 50,000 x 50,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 50_000, 50_000, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes(1_000_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def small_png(shade: int) -> bytes:
    return bytes(cv2.imencode(".png", np.full((24, 32, 3), shade, np.uint8))[1])


def write_aloha(path: Path, number: int, images: list[bytes]) -> None:
    """An ALOHA episode of as many steps as images."""
    steps = len(images)
    with h5py.File(path, "w") as file:
        file.attrs["sim"] = False
        values = np.linspace(0, 1, steps * 14).reshape(steps, 14) + number
        for key in ("observations/qpos", "observations/qvel", "action"):
            file[key] = values.astype(np.float32)
        dataset = file.create_dataset("observations/images/top", (steps,), h5py.vlen_dtype(np.uint8))
        for row, image in enumerate(images):
            dataset[row] = np.frombuffer(image, np.uint8)


def test_hostile_files_cost_their_own_episodes(tmp_path: Path) -> None:
    data, secret = tmp_path / "data", tmp_path / "secret.hdf5"
    data.mkdir()
    pictures = [small_png(10 * step) for step in range(6)]
    for number in range(GOOD):
        write_aloha(data / f"episode_{number}.hdf5", number, pictures)
    write_aloha(data / "episode_97.hdf5", 97, [huge_png()] * 6)
    write_aloha(secret, 98, pictures)
    (data / "episode_98.hdf5").symlink_to(secret)
    os.mkfifo(data / "episode_99.hdf5")
    ws = open_workspace(str(tmp_path / "ws"), settings_from_environment({}))
    counts = ingest_paths(ws.stores, [str(data)], quiet=True).counts
    failures = {failure["reason"] for failure in cast("Any", counts.to_json()["failures"])}
    assert "a link leads out of the dataset" in failures and counts.kept + counts.failed == counts.planned
    episodes = {Path(episode.source).stem: episode for episode in ws.stores.tables.episodes.read()}
    assert {f"episode_{number}" for number in range(GOOD)} <= set(episodes)
    assert not {"episode_98", "episode_99"} & set(episodes)
    for name, episode in episodes.items():
        media = episode.cameras[0].media
        if name == "episode_97":
            with pytest.raises(MediaError, match="more pixels than allowed"):
                frames_at(media, [0.0])
        else:
            assert frames_at(media, [0.0, 5 / episode.rate_hz]).mean(axis=(1, 2, 3)).tolist() == [0, 50]
