"""The annotator `brightness`: a segment succeeds when its brightness hardly changes. A test double."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from ares.annotation import Column, Producer
from ares.errors import AresError, MediaError
from ares_annotators.base import Options, Result, Subject, Work, new_annotation
from ares_annotators.options import AnnotatorOptions, takes_options

if TYPE_CHECKING:
    from ares.store import Stores

_COLUMNS = (
    Column(
        name="segment_success",
        type="bool",
        meaning="Whether every segment succeeded.",
        rollup="all",
        is_outcome=True,
    ),
    Column(
        name="brightness_change",
        type="float64",
        meaning="Largest change of brightness in a segment, of 255.",
        rollup="max",
    ),
)


class JudgeOptions(AnnotatorOptions):
    """Options of the judge."""

    max_change: float = Field(
        default=1.0, ge=0, description="largest change of brightness of a success, of 255", examples=[0.0]
    )


@takes_options(JudgeOptions)
class BrightnessJudge:
    """Judges the segments that the annotator `phases` makes, also those made in the same run."""

    batch_size = 16

    def __init__(self, options: Options, stores: Stores) -> None:
        judge_options = options.parse(JudgeOptions)
        self._max_change = judge_options.max_change
        self.producer = Producer(
            annotator="brightness",
            version="1",
            settings=judge_options.producer_settings(),
            columns=_COLUMNS,
            subject_kind="segment",
            after=("phases",),
        )

    def select_frames(self, subject: Subject) -> dict[str, list[float]]:
        """One frame near the start and one near the stop of the span, in seconds, of the first camera."""
        if not subject.episode.cameras:
            return {}
        quarter = (subject.stop_seconds - subject.start_seconds) / 4
        seconds = [subject.start_seconds + quarter, subject.stop_seconds - quarter]
        return {subject.episode.cameras[0].name: seconds}

    def process(self, works: Sequence[Work]) -> list[Result | AresError]:
        """A verdict per segment."""
        return [self._judge(work) for work in works]

    def _judge(self, work: Work) -> Result | AresError:
        for camera, seconds in self.select_frames(work.subject).items():
            try:
                first, last = work.frames.at(camera, seconds)
            except MediaError as error:
                return error
            change = abs(float(last.mean()) - float(first.mean()))
            value = {"segment_success": change <= self._max_change, "brightness_change": round(change, 6)}
            return Result(
                annotations=[new_annotation(work, self.producer, value, camera=camera, frames=seconds)]
            )
        return MediaError("episode has no camera", work.episode.episode_id)
