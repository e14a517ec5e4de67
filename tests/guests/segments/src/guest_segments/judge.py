"""The annotator `brightness`: a segment succeeds when its brightness hardly changes. A test double."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from annotators.base import Annotator, Options, Result, Subject, Work, new_annotation
from annotators.options import AnnotatorOptions, takes_options
from ares.annotation import Column, Maker
from ares.errors import AresError, MediaError

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
def make_judge(options: Options, stores: Stores) -> Annotator:
    """An annotator of the segments that the annotator `segment` makes, also of those made in the same run."""
    own = options.parse(JudgeOptions)
    maker = Maker(
        annotator="brightness",
        version="1",
        settings=own.maker_settings(),
        columns=_COLUMNS,
        subject_kind="segment",
        after=("segment",),
    )

    def process(works: Sequence[Work]) -> list[Result | AresError]:
        return [_judge(work, maker, own.max_change) for work in works]

    return Annotator(maker=maker, process=process, select_frames=select_frames, batch_size=16)


def select_frames(subject: Subject) -> dict[str, list[float]]:
    """One frame near the start and one near the stop of the span, in seconds, of the first camera."""
    if not subject.episode.cameras:
        return {}
    quarter = (subject.stop_seconds - subject.start_seconds) / 4
    seconds = [subject.start_seconds + quarter, subject.stop_seconds - quarter]
    return {subject.episode.cameras[0].name: seconds}


def _judge(work: Work, maker: Maker, max_change: float) -> Result | AresError:
    for camera, seconds in select_frames(work.subject).items():
        try:
            first, last = work.frames.at(camera, seconds)
        except MediaError as error:
            return error
        change = abs(float(last.mean()) - float(first.mean()))
        value = {"segment_success": change <= max_change, "brightness_change": round(change, 6)}
        return Result(annotations=[new_annotation(work, maker, value, camera=camera, frames=seconds)])
    return MediaError("episode has no camera", work.episode.episode_id)
