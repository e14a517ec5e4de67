"""Annotator, Work and Result: what an annotator is, what it is given and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ares.annotation import Annotation, Cost, Maker
from ares.episode import Episode, Trajectory
from ares.errors import AresError
from ares.settings import Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from annotators.frames import Frames
    from ares.workspace import Workspace

Seconds = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user asked of an annotation run; an annotator reads what concerns it.

    Attributes:
        settings: The environment's models, keys and prices.
        model: Model spec for this run, or "" for the setting's.
        camera: Camera name to use, or "" for the best one.
        layout: How frames are laid before a VLM: "tiles" (three images: start, middle, end), "collage"
            (the three in one image), "frames:N" (N images evenly spaced).
        rubric: Rubric name or YAML file for `grade`.
        device: torch device, or "" for a GPU when there is one.
    """

    settings: Settings
    model: str = ""
    camera: str = ""
    layout: str = "tiles"
    rubric: str = "caption"
    device: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One subject to annotate, with what was read for it.

    Attributes:
        episode: The episode.
        subject: episode_id, or the annotation_id of the caption to grade.
        about: That caption, or None.
        frames: Decoded frames of the seconds that the annotator wanted.
        trajectory: Signals, when the annotator asked for them.
    """

    episode: Episode
    subject: str
    about: Annotation | None
    frames: Frames
    trajectory: Trajectory | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameVectors:
    """Embedded frames of one camera of one episode.

    Attributes:
        episode_id: The episode.
        camera: Camera name; "" for what is no picture.
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
        annotations: The facts.
        vectors: Frame vectors, for an embedder.
    """

    annotations: Sequence[Annotation]
    vectors: Sequence[FrameVectors] = ()


def no_frames(episode: Episode) -> Seconds:
    """Wants no frame."""
    return {}


def no_cost(episode: Episode) -> Cost:
    """Costs nothing but time."""
    return Cost()


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotator:
    """An annotator, ready to run; the entry points of "ares.annotators" hold factories of them, see `Factory`.

    Attributes:
        maker: What its annotations say made them.
        process: Works on a batch; one Result or AresError per Work, in order. Any other exception is a bug.
        wants: Seconds per camera that it needs decoded; every annotator of a run shares one decoding.
        about: "episode", or "caption" for one Work per caption.
        signals: Whether it needs the trajectory.
        batch: Most Works in one call.
        workers: Calls at the same time (several only for remote models).
        space: Name of the embedding space that its vectors belong to, or "" when each says its own.
        estimate: Expected cost of one Work, for the quote.
    """

    maker: Maker
    process: Callable[[Sequence[Work]], Sequence[Result | AresError]]
    wants: Callable[[Episode], Seconds] = no_frames
    about: Literal["episode", "caption"] = "episode"
    signals: bool = False
    batch: int = 1
    workers: int = 1
    space: str = ""
    estimate: Callable[[Episode], Cost] = no_cost


Factory = Callable[[Options, "Workspace"], Annotator]


@dataclass(slots=True)
class Bundle:
    """An episode on its way through the annotators of a run.

    Attributes:
        episode: The episode.
        frames: Its decoded frames.
        captions: The captions it has already.
        trajectory: Its signals, or None when nobody asked.
        made: Results so far, by annotator name.
        done: Subjects of it that were done before the run, by annotator name.
    """

    episode: Episode
    frames: Frames
    captions: Sequence[Annotation] = ()
    trajectory: Trajectory | None = None
    made: dict[str, list[Result]] = field(default_factory=dict)
    done: dict[str, set[str]] = field(default_factory=dict)
