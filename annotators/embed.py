"""The annotator `embed`: which frames of each camera are sampled, and their vectors by an encoder."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from pydantic import AfterValidator, Field

from ares.annotation import Producer
from ares.clock import compute_camera_rate_hz
from ares.episode import Camera, Episode, Json
from ares.errors import AresError, MediaError, RequestError
from ares_annotators.base import (
    CameraSeconds,
    FrameVectors,
    Options,
    Preflight,
    Result,
    Subject,
    Work,
    new_annotation,
)
from ares_annotators.models import (
    NamedEncoder,
    estimate_worker_resources,
    find_encoder_name,
    load_encoder_for,
    make_spec_absolute,
)
from ares_annotators.options import AnnotatorOptions, takes_options

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores


DEFAULT = "auto"
_RATE_HZ, _MIN_FRAMES, _MAX_FRAMES = 1.0, 4, 240
# Frames of one camera are in memory together: 1,000 of 1080p take 6 GB.
_MOST_FRAMES = 1_000
_NUMBER = r"\d{1,6}(?:\.\d{1,6})?"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSampling:
    """How frames are sampled.

    Attributes:
        name: "auto" or "rate:HZ".
        rate_hz: Frames per second.
        min_frames: Fewest frames of a camera.
        max_frames: Most frames of a camera.
    """

    name: str
    rate_hz: float
    min_frames: int = 1
    max_frames: int = _MOST_FRAMES

    def producer_settings(self) -> dict[str, Json]:
        """What makes another producer; the default has the settings that it has always had."""
        if self.name == DEFAULT:
            return {"rate_hz": self.rate_hz, "fewest": self.min_frames, "most": self.max_frames}
        return {"sample": self.name, "most": self.max_frames}

    def seconds(self, episode: Episode, camera: str = "") -> CameraSeconds:
        """Seconds per good camera, or of one, spread over [0, duration)."""
        cameras = [candidate for candidate in episode.good_cameras if not camera or candidate.name == camera]
        return {selected.name: self._camera_seconds(episode, selected) for selected in cameras}

    def _camera_seconds(self, episode: Episode, camera: Camera) -> list[float]:
        duration = camera.media.num_frames / compute_camera_rate_hz(episode, camera)
        count = min(max(math.ceil(duration * self.rate_hz), self.min_frames), self.max_frames)
        # The middles of equal parts: the still scene before and after the action gets no extra vector.
        return [round(duration * (part + 0.5) / count, 6) for part in range(count)]


def parse_frame_sampling(text: str) -> FrameSampling:
    """Read "auto" or "rate:HZ". Raises RequestError for anything else."""
    if text == DEFAULT:
        return FrameSampling(name=text, rate_hz=_RATE_HZ, min_frames=_MIN_FRAMES, max_frames=_MAX_FRAMES)
    kind, _, value = text.partition(":")
    if kind == "rate" and re.fullmatch(_NUMBER, value) and float(value) > 0:
        return FrameSampling(name=text, rate_hz=float(value))
    raise RequestError(f"no sampling {text!r}", "there are: auto, and rate:HZ with frames a second")


def _check_sampling(text: str) -> str:
    return parse_frame_sampling(text).name


# A sampling in the options of an annotator, checked by `parse_frame_sampling`.
SamplingName = Annotated[str, AfterValidator(_check_sampling)]


_VERSION = "1"


class EmbedOptions(AnnotatorOptions):
    """Options of embedding."""

    not_in_producer: ClassVar[frozenset[str]] = frozenset({"sample"})  # `FrameSampling` has its settings

    camera: str = Field(default="", description="camera to embed (default: every good one)")
    sample: SamplingName = Field(
        default=DEFAULT,
        description="frames that are embedded: auto (one a second, 4 to 240 of a camera), or rate:HZ",
    )


class _EmbedFrames(NamedTuple):
    """Frames of one camera: images (N, H, W, 3) uint8 and their N seconds."""

    camera: str
    seconds: Sequence[float]
    images: NDArray[np.uint8]


@takes_options(EmbedOptions)
class EmbedAnnotator:
    """Fills the vector table of one embedding space. Raises ModelError without its model."""

    batch_size = 8

    def __init__(self, options: Options, stores: Stores) -> None:
        own = options.parse(EmbedOptions)
        spec = make_spec_absolute(options.model or options.settings.embed_model)
        self._stores, self._spec = stores, spec
        self._encoder = load_encoder_for(spec, options, stores)
        self._sampling, self._camera = parse_frame_sampling(own.sample), own.camera
        settings: dict[str, Json] = {**self._sampling.producer_settings(), **own.producer_settings()}
        self.space, self.needs = self._encoder.name, estimate_worker_resources(spec)
        self.producer = Producer(
            annotator="embed", version=_VERSION, model=self.space, settings=settings, kind="model"
        )

    def preflight(self, producers: Sequence[Producer]) -> Preflight:
        """Register the embedding space, so that a search finds its encoder."""
        _register_space(self._stores, self._encoder, self._spec)
        return Preflight()

    def select_frames(self, subject: Subject) -> CameraSeconds:
        """The frames that are embedded."""
        return self._sampling.seconds(subject.episode, self._camera)

    def process(self, works: Sequence[Work]) -> list[Result | AresError]:
        """One pass of the model over the frames of all works; a work whose frames fail keeps its own error."""
        import numpy as np

        frames_by_work = [self._read_frames(work) for work in works]
        images = [
            image
            for camera_frames in frames_by_work
            if not isinstance(camera_frames, AresError)
            for frames in camera_frames
            for image in frames.images
        ]
        vectors = self._encoder.encode_images(images) if images else np.empty((0, 0), np.float32)
        results: list[Result | AresError] = []
        start = 0
        for work, camera_frames in zip(works, frames_by_work, strict=True):
            if isinstance(camera_frames, AresError):
                results.append(camera_frames)
                continue
            stop = start + sum(len(frames.images) for frames in camera_frames)
            results.append(self._result(work, camera_frames, vectors[start:stop]))
            start = stop
        return results

    def _read_frames(self, work: Work) -> list[_EmbedFrames] | AresError:
        if not work.episode.cameras:
            return []
        seconds = self.select_frames(work.subject)
        if not seconds:
            return MediaError("episode has no such camera", repr(self._camera))
        try:
            return [
                _EmbedFrames(name, camera_seconds, work.frames.at(name, camera_seconds))
                for name, camera_seconds in seconds.items()
            ]
        except MediaError as error:
            return error

    def _result(
        self, work: Work, camera_frames: Sequence[_EmbedFrames], vectors: NDArray[np.float32]
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
        value: dict[str, Json] = {
            "frames": sum(len(camera.seconds) for camera in frame_vectors),
            "space": self.space,
        }
        warnings = () if camera_frames else ("nothing to embed: the episode has no camera",)
        annotations = [new_annotation(work, self.producer, value)]
        return Result(annotations=annotations, vectors=frame_vectors, warnings=warnings)


def _register_space(stores: Stores, encoder: NamedEncoder, spec: str) -> None:
    existing = stores.annotations.get_document("spaces", encoder.name)
    created = existing.get("created") if isinstance(existing, dict) else None
    document = {
        "encoder": find_encoder_name(spec),
        "model": spec,
        "dim": encoder.dim,
        "created": created or datetime.now(UTC).isoformat(timespec="seconds"),
    }
    stores.annotations.put_documents("spaces", {encoder.name: document})
