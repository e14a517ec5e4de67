"""The annotator `phases`: cuts an episode where its gripper opens or shuts, else into equal parts. A test double."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from ares.annotation import Annotation, Column, Producer
from ares_annotators.base import Options, Result, Work, new_annotation
from ares_annotators.options import AnnotatorOptions, takes_options

if TYPE_CHECKING:
    from ares.episode import Trajectory
    from ares.store import Stores

# A gripper that changes faster is noise.
_MIN_SECONDS = 0.5
_COLUMNS = (
    Column(name="segment_labels", type="string", meaning="Label of every segment, in order.", rollup="list"),
    Column(name="num_phases", type="int64", meaning="Number of segments.", rollup="sum"),
)


class SegmenterOptions(AnnotatorOptions):
    """Options of the segmenter."""

    parts: int = Field(
        default=3, ge=1, le=20, description="parts of an episode without a gripper", examples=[2]
    )


class Part(NamedTuple):
    """A labelled span [start_seconds, stop_seconds) of an episode."""

    start_seconds: float
    stop_seconds: float
    label: str


def gripper_parts(trajectory: Trajectory | None, duration_seconds: float) -> list[Part]:
    """Parts of an episode in which the gripper stays open or shut; none without a gripper among its signals."""
    if trajectory is None or trajectory.state is None or "gripper" not in trajectory.state.names:
        return []
    values = trajectory.state.values[:, trajectory.state.names.index("gripper")]
    middle = (float(values.min()) + float(values.max())) / 2
    parts: list[Part] = []
    for second, is_open in zip(trajectory.timestamps.tolist(), (values >= middle).tolist(), strict=True):
        label = "open" if is_open else "shut"
        if not parts:
            parts = [Part(0.0, duration_seconds, label)]
        elif label != parts[-1].label and second - parts[-1].start_seconds >= _MIN_SECONDS:
            parts[-1] = parts[-1]._replace(stop_seconds=second)
            parts.append(Part(second, duration_seconds, label))
    return parts


def equal_parts(duration_seconds: float, count: int) -> list[Part]:
    """Parts of equal length."""
    edges = [duration_seconds * index / count for index in range(count + 1)]
    return [Part(start, stop, f"part {number}") for number, (start, stop) in enumerate(pairwise(edges), 1)]


@takes_options(SegmenterOptions)
class Segmenter:
    """Cuts episodes; its annotations are segments."""

    needs_signals = True
    batch_size = 16

    def __init__(self, options: Options, stores: Stores) -> None:
        segmenter_options = options.parse(SegmenterOptions)
        self._parts = segmenter_options.parts
        self.producer = Producer(
            annotator="phases",
            version="1",
            settings=segmenter_options.producer_settings(),
            columns=_COLUMNS,
            fills_segments=True,
        )

    def process(self, works: Sequence[Work]) -> list[Result]:
        """The segments of each episode."""
        return [Result(annotations=self._segments(work)) for work in works]

    def _segments(self, work: Work) -> list[Annotation]:
        duration = work.episode.duration_seconds
        return [
            new_annotation(
                work,
                self.producer,
                {"text": f"gripper {part.label}", "segment_labels": part.label, "num_phases": 1},
                span=(part.start_seconds, part.stop_seconds),
            )
            for part in gripper_parts(work.trajectory, duration) or equal_parts(duration, self._parts)
        ]
