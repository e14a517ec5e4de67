"""Grades attack texts on the frames of an episode, or on changed ones, and stores nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from annotators.base import (
    CameraSeconds,
    Frames,
    Outcome,
    PaidFailure,
    Result,
    Subject,
    Work,
    find_outcome_cost,
    make_annotation_subject,
)
from annotators.grade import ChangedFrames, GradeAnnotator, blank, scrambled
from annotators.prompting import apply_in_batches
from ares.annotation import Annotation, Cost
from ares.clock import needs_timestamps
from ares.errors import AresError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Episode, Json, Trajectory
    from ares.rubric import FrameChange
    from ares.store import Stores


class ReversedFrames(Frames):
    """Decoded frames of an episode, the last ones first.

    Args:
        frames: The decoded frames.
    """

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    @property
    def requested(self) -> CameraSeconds:
        """The seconds that can be read, by camera."""
        return self._frames.requested

    @property
    def is_changed(self) -> bool:
        """Always: what is stored of the episode was seen in other frames."""
        return True

    def decode(self) -> None:
        """They are decoded."""

    def release(self) -> None:
        """As `Frames.release`."""
        self._frames.release()

    def at(self, camera: str, seconds: Sequence[float]) -> NDArray[np.uint8]:
        """As `Frames.at`: the frame of the first requested second stands at the last one."""
        order = list(self.requested[camera])
        mirrored = dict(zip(order, reversed(order), strict=True))
        return self._frames.at(camera, [mirrored[second] for second in seconds])


# No annotation has this maker: the texts are nobody's captions.
_NO_MAKER = "attack"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextGrade:
    """The grade of a text.

    Attributes:
        grade: As in `ares.rubric`, or "failed" where none could be had.
        score: Weighted share of criteria met, or None.
        verdicts: Verdict by criterion.
        cost: What was paid for it.
    """

    grade: str
    score: float | None
    verdicts: Mapping[str, str]
    cost: Cost


def make_text_subject(episode: Episode, text: str) -> Subject:
    """A text as a caption of a whole episode; nothing of it is stored."""
    annotation = Annotation(
        episode_id=episode.episode_id,
        name="caption",
        value={"text": text, "caption": text},
        maker_id=_NO_MAKER,
        subject=episode.episode_id,
        start_seconds=0.0,
        stop_seconds=episode.duration_seconds,
        created="1970-01-01T00:00:00+00:00",
    )
    return make_annotation_subject(episode, annotation)


def read_episode_work(stores: Stores, episode: Episode, annotator: GradeAnnotator) -> Work:
    """An episode with the frames and signals that a grader needs of it, for texts about all of it."""
    signals = dict(stores.tables.trajectories.read([episode.episode_id]))
    trajectory: Trajectory | None = signals.get(episode.episode_id)
    stamps = trajectory.timestamps if trajectory and needs_timestamps(episode) else None
    subject = make_text_subject(episode, "")
    frames = Frames(episode, [annotator.select_frames(subject)], stamps)
    frames.decode()
    return Work(subject=subject, frames=frames, trajectory=trajectory)


def grade_texts(
    annotator: GradeAnnotator, work: Work, texts: Sequence[tuple[str, FrameChange]]
) -> list[TextGrade]:
    """Grade texts on one episode.

    Args:
        annotator: The annotator `grade`.
        work: The episode; see `read_episode_work`.
        texts: Texts, and what is done to the frames before each is judged.

    Raises:
        AresError: No text could be graded; the first error.
    """
    frames = {change: _change_frames(work.frames, change) for _, change in texts}
    works = [
        replace(work, subject=make_text_subject(work.episode, text), frames=frames[change])
        for text, change in texts
    ]
    outcomes = apply_in_batches(annotator.process, works, annotator.batch_size, annotator.workers)
    errors = [error for outcome in outcomes if (error := _outcome_error(outcome))]
    if errors and len(errors) == len(outcomes):
        raise errors[0]
    return [_text_grade(outcome) for outcome in outcomes]


def _change_frames(frames: Frames, change: FrameChange) -> Frames:
    if change == "none":
        return frames
    if change == "reversed":
        return ReversedFrames(frames)
    return ChangedFrames(frames, blank if change == "blank" else scrambled)


def _outcome_error(outcome: Outcome) -> AresError | None:
    error = outcome.error if isinstance(outcome, PaidFailure) else outcome
    return error if isinstance(error, AresError) else None


def _text_grade(outcome: Outcome) -> TextGrade:
    if not isinstance(outcome, Result):
        return TextGrade(grade="failed", score=None, verdicts={}, cost=find_outcome_cost(outcome))
    value = next(annotation.value for annotation in outcome.annotations if "rulings" in annotation.value)
    score = value["score"]
    return TextGrade(
        grade=str(value["grade"]),
        score=float(score) if isinstance(score, int | float) else None,
        verdicts=dict(_criterion_verdicts(value["rulings"])),
        cost=find_outcome_cost(outcome),
    )


def _criterion_verdicts(rulings: Json) -> Iterator[tuple[str, str]]:
    assert isinstance(rulings, list)
    for ruling in rulings:
        if isinstance(ruling, dict):
            yield str(ruling["criterion"]), str(ruling["verdict"])
