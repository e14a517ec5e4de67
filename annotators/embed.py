"""The annotator `embed`: vectors of frames by CLIP, about one per second and good camera."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from annotators.base import Annotator, FrameVectors, Options, Result, Work, new_annotation
from annotators.models import NamedEncoder, absolute_spec, encoder_name, load_encoder_for
from annotators.options import AnnotatorOptions, takes_options
from annotators.runner import CameraSeconds
from ares.annotation import Maker
from ares.clock import shown_rate_hz
from ares.episode import Camera, Episode, Json
from ares.errors import AresError, MediaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores

_VERSION = "1"
_RATE_HZ = 1.0
_MIN_FRAMES, _MAX_FRAMES = 4, 240
_BATCH_SIZE = 8


class EmbedOptions(AnnotatorOptions):
    """Options of embedding."""

    camera: str = Field(default="", description="camera to embed (default: every good one)")


@takes_options(EmbedOptions)
def make_embed_annotator(options: Options, stores: Stores) -> Annotator:
    """An annotator that fills the vector table of one embedding space. Raises ModelError without its model."""
    own = options.parse(EmbedOptions)
    spec = absolute_spec(options.model or options.settings.embed_model)
    encoder = load_encoder_for(spec, options, stores)
    if options.load_models:
        _register_space(stores, encoder, spec)
    settings: dict[str, Json] = {
        "rate_hz": _RATE_HZ,
        "fewest": _MIN_FRAMES,
        "most": _MAX_FRAMES,
        **own.maker_settings(),
    }
    maker = Maker(annotator="embed", version=_VERSION, model=encoder.name, settings=settings, kind="model")
    return Annotator(
        maker=maker,
        process=lambda works: _process(works, encoder, maker, own.camera),
        select_frames=lambda subject: sample_seconds(subject.episode, own.camera),
        batch_size=_BATCH_SIZE,
        space=encoder.name,
    )


def sample_seconds(episode: Episode, camera: str = "") -> CameraSeconds:
    """Seconds per good camera: one per second, at least 4 and at most 240, spread over [0, duration)."""
    cameras = [candidate for candidate in episode.good_cameras if not camera or candidate.name == camera]
    return {selected.name: _camera_seconds(episode, selected) for selected in cameras}


def _camera_seconds(episode: Episode, camera: Camera) -> list[float]:
    duration = camera.media.num_frames / shown_rate_hz(episode, camera)
    count = min(max(math.ceil(duration * _RATE_HZ), _MIN_FRAMES), _MAX_FRAMES)
    # The middles of equal parts: the still scene before and after the action gets no extra vector.
    return [round(duration * (part + 0.5) / count, 6) for part in range(count)]


def _register_space(stores: Stores, encoder: NamedEncoder, spec: str) -> None:
    existing = stores.annotations.get_document("spaces", encoder.name)
    created = existing.get("created") if isinstance(existing, dict) else None
    document = {
        "encoder": encoder_name(spec),
        "model": spec,
        "dim": encoder.dim,
        "created": created or datetime.now(UTC).isoformat(timespec="seconds"),
    }
    stores.annotations.put_documents("spaces", {encoder.name: document})


def _process(
    works: Sequence[Work], encoder: NamedEncoder, maker: Maker, camera: str
) -> list[Result | AresError]:
    """One pass of the model over the frames of all works; a work whose frames fail keeps its own error."""
    frames_by_work = [_read_frames(work, camera) for work in works]
    images = [
        image
        for camera_frames in frames_by_work
        if not isinstance(camera_frames, AresError)
        for frames in camera_frames
        for image in frames.images
    ]
    vectors = encoder.encode_images(images)
    results: list[Result | AresError] = []
    start = 0
    for work, camera_frames in zip(works, frames_by_work, strict=True):
        if isinstance(camera_frames, AresError):
            results.append(camera_frames)
            continue
        stop = start + sum(len(frames.images) for frames in camera_frames)
        results.append(_result(work, camera_frames, vectors[start:stop], maker, encoder.name))
        start = stop
    return results


class _EmbedFrames(NamedTuple):
    """Frames of one camera: images (N, H, W, 3) uint8 and their N seconds."""

    camera: str
    seconds: Sequence[float]
    images: NDArray[np.uint8]


def _read_frames(work: Work, camera: str) -> list[_EmbedFrames] | AresError:
    seconds = sample_seconds(work.episode, camera)
    if not work.episode.cameras:
        return MediaError("episode has no camera", f"{work.episode.key} of {work.episode.dataset}")
    if not seconds:
        return MediaError("episode has no such camera", repr(camera))
    try:
        return [
            _EmbedFrames(name, camera_seconds, work.frames.at(name, camera_seconds))
            for name, camera_seconds in seconds.items()
        ]
    except MediaError as error:
        return error


def _result(
    work: Work,
    camera_frames: Sequence[_EmbedFrames],
    vectors: NDArray[np.float32],
    maker: Maker,
    space: str,
) -> Result:
    import numpy as np

    frame_vectors: list[FrameVectors] = []
    start = 0
    for camera, seconds, _ in camera_frames:
        stop = start + len(seconds)
        frame_vectors.append(
            FrameVectors(
                episode_id=work.episode.episode_id,
                camera=camera,
                seconds=np.asarray(seconds, np.float64),
                vectors=vectors[start:stop],
            )
        )
        start = stop
    return Result(
        annotations=[new_annotation(work, maker, {"frames": start, "space": space})], vectors=frame_vectors
    )
