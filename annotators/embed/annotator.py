"""The annotator `embed`: vectors of sampled frames of every good camera, by an encoder of images."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from pydantic import Field

from annotators.base import Annotator, FrameVectors, Options, Result, Work, new_annotation
from annotators.embed.frame_sampling import DEFAULT, FrameSampling, SamplingName, parse_sampling
from annotators.models import NamedEncoder, absolute_spec, encoder_name, load_encoder_for, worker_needs
from annotators.options import AnnotatorOptions, takes_options
from ares.annotation import Maker
from ares.episode import Json
from ares.errors import AresError, MediaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores

_VERSION = "1"
_BATCH_SIZE = 8


class EmbedOptions(AnnotatorOptions):
    """Options of embedding."""

    not_in_maker: ClassVar[frozenset[str]] = frozenset({"sample"})  # `FrameSampling` has its settings

    camera: str = Field(default="", description="camera to embed (default: every good one)")
    sample: SamplingName = Field(
        default=DEFAULT,
        description="frames that are embedded: auto (one a second, 4 to 240 of a camera), rate:HZ, every:K, or "
        "change:D (four a second, kept where the cosine distance to the last kept one is at least D)",
    )


@takes_options(EmbedOptions)
def make_embed_annotator(options: Options, stores: Stores) -> Annotator:
    """An annotator that fills the vector table of one embedding space. Raises ModelError without its model."""
    own = options.parse(EmbedOptions)
    spec = absolute_spec(options.model or options.settings.embed_model)
    encoder = load_encoder_for(spec, options, stores)
    if options.load_models:
        _register_space(stores, encoder, spec)
    sampling = parse_sampling(own.sample)
    settings: dict[str, Json] = {**sampling.maker_settings(), **own.maker_settings()}
    maker = Maker(annotator="embed", version=_VERSION, model=encoder.name, settings=settings, kind="model")
    return Annotator(
        maker=maker,
        process=lambda works: _process(works, encoder, maker, sampling, own.camera),
        select_frames=lambda subject: sampling.seconds(subject.episode, own.camera),
        batch_size=_BATCH_SIZE,
        space=encoder.name,
        needs=worker_needs("embed", spec),
    )


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
    works: Sequence[Work], encoder: NamedEncoder, maker: Maker, sampling: FrameSampling, camera: str
) -> list[Result | AresError]:
    """One pass of the model over the frames of all works; a work whose frames fail keeps its own error."""
    frames_by_work = [_read_frames(work, sampling, camera) for work in works]
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
        results.append(_result(work, camera_frames, vectors[start:stop], maker, encoder.name, sampling))
        start = stop
    return results


class _EmbedFrames(NamedTuple):
    """Frames of one camera: images (N, H, W, 3) uint8 and their N seconds."""

    camera: str
    seconds: Sequence[float]
    images: NDArray[np.uint8]


def _read_frames(work: Work, sampling: FrameSampling, camera: str) -> list[_EmbedFrames] | AresError:
    seconds = sampling.seconds(work.episode, camera)
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
    sampling: FrameSampling,
) -> Result:
    import numpy as np

    frame_vectors: list[FrameVectors] = []
    start = 0
    for camera, seconds, _ in camera_frames:
        stop = start + len(seconds)
        kept = sampling.kept_rows(vectors[start:stop])
        frame_vectors.append(
            FrameVectors(
                episode_id=work.episode.episode_id,
                camera=camera,
                seconds=np.asarray(seconds, np.float64)[kept],
                vectors=vectors[start:stop][kept],
            )
        )
        start = stop
    count = sum(len(camera.seconds) for camera in frame_vectors)
    return Result(
        annotations=[new_annotation(work, maker, {"frames": count, "space": space})], vectors=frame_vectors
    )
