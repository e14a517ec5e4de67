"""Embed: CLIP vectors of frames, about one per second per good camera, with the second of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from annotators.backends.clip import ClipEncoder, absolute_spec, load_clip
from annotators.base import Annotator, FrameVectors, Options, Result, Seconds, Work
from annotators.facts import fact
from ares.annotation import Maker
from ares.episode import Camera, Episode, Json
from ares.errors import AresError, MediaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.workspace import Workspace

_VERSION = "1"
_RATE_HZ = 1.0
_FEWEST, _MOST = 4, 240
_BATCH = 8


def embed(options: Options, ws: Workspace) -> Annotator:
    """An annotator that fills the vector table of one embedding space. Raises ModelError without its model."""
    spec = absolute_spec(options.model or options.settings.embed_model)
    encoder = load_clip(spec, options.device)
    _enter_space(ws, encoder, spec)
    settings: dict[str, Json] = {
        "rate_hz": _RATE_HZ,
        "fewest": _FEWEST,
        "most": _MOST,
        "camera": options.camera,
    }
    maker = Maker(annotator="embed", version=_VERSION, model=encoder.name, settings=settings)
    return Annotator(
        maker=maker,
        process=lambda works: _process(works, encoder, maker, options.camera),
        wants=lambda episode: sampled(episode, options.camera),
        batch=_BATCH,
        space=encoder.name,
    )


def sampled(episode: Episode, camera: str = "") -> Seconds:
    """Seconds per good camera: one per second, at least 4 and at most 240, spread over [0, duration)."""
    chosen = [one for one in episode.good_cameras if not camera or one.name == camera]
    return {one.name: _seconds(one) for one in chosen}


def _seconds(camera: Camera) -> list[float]:
    media = camera.media
    duration = media.num_frames / media.rate_hz
    count = min(max(math.ceil(duration * _RATE_HZ), _FEWEST), _MOST)
    # The middles of equal parts: no vector is spent twice on a scene at rest before or after the action.
    return [round(duration * (part + 0.5) / count, 6) for part in range(count)]


def _enter_space(ws: Workspace, encoder: ClipEncoder, spec: str) -> None:
    known = ws.annotations.get("spaces", encoder.name)
    created = known.get("created") if isinstance(known, dict) else None
    document = {
        "encoder": "clip",
        "model": spec,
        "dim": encoder.dim,
        "created": created or datetime.now(UTC).isoformat(timespec="seconds"),
    }
    ws.annotations.put("spaces", {encoder.name: document})


def _process(
    works: Sequence[Work], encoder: ClipEncoder, maker: Maker, camera: str
) -> list[Result | AresError]:
    """One pass of the model over the frames of all works; a work whose frames fail keeps its own error."""
    shots: list[list[tuple[str, Sequence[float], NDArray[np.uint8]]] | AresError] = []
    for work in works:
        shots.append(_frames(work, camera))
    images = [image for shot in shots if isinstance(shot, list) for _, _, frames in shot for image in frames]
    vectors = encoder.encode_images(images)
    results: list[Result | AresError] = []
    start = 0
    for work, shot in zip(works, shots, strict=True):
        if isinstance(shot, AresError):
            results.append(shot)
            continue
        stop = start + sum(len(frames) for _, _, frames in shot)
        results.append(_result(work, shot, vectors[start:stop], maker, encoder.name))
        start = stop
    return results


def _frames(work: Work, camera: str) -> list[tuple[str, Sequence[float], NDArray[np.uint8]]] | AresError:
    seconds = sampled(work.episode, camera)
    if not work.episode.cameras:
        return MediaError("episode has no camera", f"{work.episode.key} of {work.episode.dataset}")
    if not seconds:
        return MediaError("episode has no such camera", repr(camera))
    try:
        return [(name, instants, work.frames.at(name, instants)) for name, instants in seconds.items()]
    except MediaError as error:
        return error


def _result(
    work: Work,
    shots: list[tuple[str, Sequence[float], NDArray[np.uint8]]],
    vectors: NDArray[np.float32],
    maker: Maker,
    space: str,
) -> Result:
    import numpy as np

    made: list[FrameVectors] = []
    start = 0
    for camera, seconds, _ in shots:
        part = vectors[start : start + len(seconds)]
        made.append(
            FrameVectors(
                episode_id=work.episode.episode_id,
                camera=camera,
                seconds=np.asarray(seconds, np.float64),
                vectors=part,
            )
        )
        start += len(seconds)
    return Result(annotations=[fact(work, maker, {"frames": start, "space": space})], vectors=made)
