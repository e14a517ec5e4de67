"""The interface of annotators: what an annotator is, the work it gets and the results it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from annotators.options import OwnOptions, parse_options
from ares.annotation import Annotation, Cost, Maker
from ares.episode import Episode, Trajectory
from ares.errors import AresError
from ares.settings import Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from annotators.runner import CameraSeconds, Frames
    from ares.episode import Json
    from ares.store import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of an annotation run; what only some annotators have, they declare with `takes_options`.

    Attributes:
        settings: The environment's models, keys and prices.
        model: Model spec for this run, or "" for the setting's.
        device: torch device, or "" for a GPU when there is one.
        values: Values of annotators' own options: "layout" for all annotators that have it, "caption.layout" for
            one of them. A factory gets those of its annotator, by field.
    """

    settings: Settings
    model: str = ""
    device: str = ""
    values: Mapping[str, Json] = field(default_factory=dict)

    def of(self, model: type[OwnOptions]) -> OwnOptions:
        """The own options of the annotator that a factory makes. Raises RequestError for a wrong value."""
        return parse_options(model, self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One subject to annotate, with the data that was read for it.

    Attributes:
        episode: The episode.
        subject: episode_id, or the annotation_id of the caption to grade.
        subject_annotation: That caption, or None when the episode itself is the subject.
        frames: Decoded frames of the seconds that the annotator selected.
        trajectory: Signals, when the annotator needs them.
    """

    episode: Episode
    subject: str
    subject_annotation: Annotation | None
    frames: Frames
    trajectory: Trajectory | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameVectors:
    """Embedded frames of one camera of one episode.

    Attributes:
        episode_id: The episode.
        camera: Camera name; "" for vectors that are not of images.
        seconds: (N,) float64 seconds from the start of the episode.
        vectors: (N, D) float32 of unit length.
        space: Name of the space that they belong to, or "" for the annotator's.
    """

    episode_id: str
    camera: str
    seconds: NDArray[np.float64]
    vectors: NDArray[np.float32]
    space: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What an annotator made of one Work.

    Attributes:
        annotations: The annotations.
        vectors: Frame vectors, for an embedder.
    """

    annotations: Sequence[Annotation]
    vectors: Sequence[FrameVectors] = ()


def no_frames(episode: Episode) -> CameraSeconds:
    """Select no frame."""
    return {}


def no_cost(episode: Episode) -> Cost:
    """A cost of nothing but time."""
    return Cost()


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotator:
    """An annotator, ready to run; the entry points of "ares.annotators" hold factories of them, see `Factory`.

    Attributes:
        maker: Name, version, model and settings, stored with its annotations.
        process: Works on a batch; one Result or AresError per Work, in order. Any other exception is a bug.
        select_frames: Seconds per camera that it needs decoded; all annotators of a run share one decoding.
        subject_kind: "episode", or "caption" for one Work per caption.
        needs_signals: Whether it needs the trajectory.
        batch_size: Most Works in one call.
        workers: Calls at the same time (several only for remote models).
        space: Name of the embedding space that its vectors belong to, or "" when each vector names its own.
        estimate: Expected cost of one Work.
    """

    maker: Maker
    process: Callable[[Sequence[Work]], Sequence[Result | AresError]]
    select_frames: Callable[[Episode], CameraSeconds] = no_frames
    subject_kind: Literal["episode", "caption"] = "episode"
    needs_signals: bool = False
    batch_size: int = 1
    workers: int = 1
    space: str = ""
    estimate: Callable[[Episode], Cost] = no_cost


Factory = Callable[[Options, "Stores"], Annotator]


def new_annotation(
    work: Work,
    maker: Maker,
    value: Mapping[str, Json],
    *,
    camera: str = "",
    frames: Sequence[float] = (),
    cost: Cost | None = None,
) -> Annotation:
    """An annotation of a work's subject, over the whole episode or over the span of the caption that is the subject."""
    caption = work.subject_annotation
    return Annotation(
        episode_id=work.episode.episode_id,
        name=maker.annotator,
        value=value,
        maker_id=maker.maker_id,
        subject=work.subject,
        start_seconds=caption.start_seconds if caption else 0.0,
        stop_seconds=caption.stop_seconds if caption else work.episode.duration_seconds,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        camera=camera,
        frames=tuple(frames),
        cost=cost or Cost(),
    )
