"""Depth as images, in records and in topics is kept by reference with range and unit, and is no camera of colours."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ares
from app.cli.main import main
from ares.episode import Record
from ares.formats import parse_tf_example, read_record, scan_record_file
from tests.generators.depth_sources import (
    DepthSource,
    depth_messages,
    draw_depth,
    make_depth_images,
    make_depth_rlds,
)
from tests.ingest.recordings.mcap.conftest import START, STEP, Entry, header, states, write
from tests.ingesting import ingest_paths, open_sources


def load_first(path: Path) -> Record:
    (source,) = open_sources([str(path)])
    return next(iter(source.items)).load()


def range_of(depth: Any) -> list[float]:
    known = depth[depth > 0]
    return [float(known.min()), float(known.max())]


def assert_kept(record: Record, source: DepthSource) -> None:
    assert [camera.name for camera in record.episode.cameras] == [source.colour]
    facts: Any = record.episode.metadata["depth_cameras"]
    (kept,) = facts.values()
    assert list(facts) == [source.camera]
    assert kept["depth_unit"] == source.unit
    assert (kept["frames"], kept["height"], kept["width"]) == source.depth.shape
    sampled = source.depth[sorted({0, len(source.depth) // 2, len(source.depth) - 1})]
    np.testing.assert_allclose([kept["depth_min"], kept["depth_max"]], range_of(sampled))
    assert Path(kept["path"]).exists()


@pytest.mark.parametrize("seed", range(8))
def test_depth_images_are_kept_by_reference(seed: int, tmp_path: Path) -> None:
    source = make_depth_images(tmp_path / "d", seed)
    record = load_first(source.path)
    assert_kept(record, source)
    assert f"camera {source.camera} left out: it holds depth, not colour" in record.warnings


@pytest.mark.parametrize("seed", range(3))
def test_depth_of_a_record_is_kept_by_reference(seed: int, tmp_path: Path) -> None:
    source = make_depth_rlds(tmp_path / "d", seed)
    assert_kept(load_first(source.path), source)


@pytest.mark.parametrize("seed", range(6))
def test_a_depth_topic_is_kept_by_reference(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    depth = draw_depth(rng, steps=10, is_float=bool(rng.random() < 0.5))
    entries: list[Entry] = states(10)
    for number, fields in enumerate(depth_messages(rng, depth)):
        at = START + STEP * number
        kind = "sensor_msgs/msg/CompressedImage" if "format" in fields else "sensor_msgs/msg/Image"
        entries.append(("/camera/depth", kind, at, SimpleNamespace(header=header(at), **fields)))
    record = load_first(write(tmp_path / "a.mcap", entries))
    facts: Any = record.episode.metadata["depth_cameras"]
    (kept,) = facts.values()
    assert (kept["topic"], kept["frames"]) == ("/camera/depth", 10)
    assert kept["depth_unit"] == ("m" if depth.dtype.kind == "f" else "mm")
    np.testing.assert_allclose([kept["depth_min"], kept["depth_max"]], range_of(depth[0]))


def test_depth_is_shown_with_range_and_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = make_depth_images(tmp_path / "d", 0)
    main(["ingest", str(source.path), "-w", str(tmp_path / "ws"), "--quiet"])
    with ares.open(tmp_path / "ws") as workspace:
        (episode_id,) = workspace.stores.tables.episodes.ids()
        (text,) = workspace.stores.tables.episodes.get_episode(episode_id).depth_texts
    capsys.readouterr()
    main(["show", episode_id, "-w", str(tmp_path / "ws"), "--json"])
    assert text in json.loads(capsys.readouterr().out)["depth"]
    main(["show", episode_id, "-w", str(tmp_path / "ws")])
    assert text in " ".join(capsys.readouterr().out.split())
    assert text.startswith(f"{source.camera}: {len(source.depth)} pictures of ")
    assert f" {source.unit}, in " in text


def depth_bytes(folder: Path, camera: str) -> list[bytes]:
    """The images of depth of the only record of an RLDS dataset."""
    (path,) = folder.rglob("*.tfrecord*")
    (span,) = scan_record_file(str(path))
    assert not isinstance(span, Exception)
    payload, _ = read_record(str(path), span)
    feature = parse_tf_example(payload, str(path))[f"steps/observation/{camera}"]
    return list(feature.bytes_list.value)


@pytest.mark.parametrize("format", ["rlds", "lerobot"])
def test_an_export_has_the_depth_of_a_record_bit_by_bit_or_names_it(format: str, tmp_path: Path) -> None:
    source = make_depth_rlds(tmp_path / "d", 5)
    with ares.open(tmp_path / "ws", create=True) as workspace:
        ingest_paths(workspace.stores, [str(source.path)], quiet=True)
        selection = workspace.sets.create("all", sorted(workspace.stores.tables.episodes.ids()), {})
        report = workspace.export(selection, tmp_path / "out", format=format, quiet=True)
    told = [line for line in report.left_out if line.startswith(f"depth of camera {source.camera}")]
    if format == "rlds":
        assert not told and depth_bytes(tmp_path / "out", source.camera) == depth_bytes(
            source.path, source.camera
        )
    else:
        assert told
