"""Episodes with depth beside their colours: folders of PNG and TIFF, RLDS records, and topics of a recording."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from tests.ingest.conftest import write_rlds


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthSource:
    """A dataset of one episode with depth.

    Attributes:
        path: Its folder.
        camera: Name of the camera of the depth.
        colour: Name of the camera of the colours.
        depth: (T, H, W) as stored.
        unit: "mm" or "m", by the type of the pixels.
    """

    path: Path
    camera: str
    colour: str
    depth: NDArray[Any]
    unit: str


def draw_depth(rng: np.random.Generator, *, steps: int, is_float: bool) -> NDArray[Any]:
    """(T, H, W) uint16 millimetres or float32 metres with some pixels that have no depth."""
    shape = (steps, int(rng.integers(20, 30)), int(rng.integers(30, 40)))
    metres = rng.uniform(0.2, rng.uniform(1, 6), shape)
    metres[rng.random(shape) < 0.05] = 0
    return metres.astype(np.float32) if is_float else np.round(metres * 1000).astype(np.uint16)


def make_depth_images(folder: Path, seed: int) -> DepthSource:
    """An episode of numbered images: colours as JPEG, depth as PNG of 16 bits or TIFF of 16 or 32 bits."""
    rng = np.random.default_rng(seed)
    suffix, has_name = str(rng.choice([".png", ".tif", ".tiff"])), bool(rng.random() < 0.5)
    steps = int(rng.integers(4, 9))
    depth = draw_depth(rng, steps=steps, is_float=suffix != ".png" and rng.random() < 0.5)
    colour, camera = str(rng.choice(["front", "wrist"])), "top_depth" if has_name else "range_0"
    episode = folder / "episode_0"
    for name in (colour, camera):
        (episode / name).mkdir(parents=True)
    for number in range(steps):
        picture = rng.integers(0, 255, (24, 32, 3), np.uint8)
        cv2.imwrite(str(episode / colour / f"{number:05d}.jpg"), picture)
        cv2.imwrite(str(episode / camera / f"{number:05d}{suffix}"), depth[number])
    (folder / "episode_0.json").write_text(json.dumps({"instruction": "lift the lid"}))
    return DepthSource(path=folder, camera=camera, colour=colour, depth=depth, unit=_unit(depth))


def _unit(depth: NDArray[Any]) -> str:
    return "m" if depth.dtype.kind == "f" else "mm"


def make_depth_rlds(folder: Path, seed: int) -> DepthSource:
    """An RLDS dataset of one episode whose depth is PNG of 16 bits."""
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(4, 9))
    depth = draw_depth(rng, steps=steps, is_float=False)
    camera, colour = str(rng.choice(["depth", "static_depth_image"])), "image"
    height, width = depth.shape[1:]
    leaves = {
        f"steps/observation/{colour}": "png 24 32 3",
        f"steps/observation/{camera}": f"png {height} {width} 1",
        "steps/action": "float32 3",
    }
    changed = {f"steps/observation/{camera}": depth[..., None]}
    features = write_rlds(folder, "made_up", leaves, steps, changed=changed).path / "features.json"
    document = json.loads(features.read_text())
    inner = document["featuresDict"]["features"]["steps"]["sequence"]["feature"]["featuresDict"]["features"]
    inner["observation"]["featuresDict"]["features"][camera]["image"]["dtype"] = "uint16"
    features.write_text(json.dumps(document))
    return DepthSource(path=folder, camera=camera, colour=colour, depth=depth, unit="mm")


def depth_messages(rng: np.random.Generator, depth: NDArray[Any]) -> list[dict[str, Any]]:
    """The fields of an image message for each picture, raw or compressed."""
    if depth.dtype.kind != "f" and rng.random() < 0.5:
        return [
            {
                "format": "16UC1; compressedDepth png",
                "data": bytes(12) + cv2.imencode(".png", picture)[1].tobytes(),
            }
            for picture in depth
        ]
    encoding = "32FC1" if depth.dtype.kind == "f" else "16UC1"
    return [
        {
            "height": picture.shape[0],
            "width": picture.shape[1],
            "encoding": encoding,
            "is_bigendian": 0,
            "step": picture.shape[1] * picture.itemsize,
            "data": picture.tobytes(),
        }
        for picture in depth
    ]
