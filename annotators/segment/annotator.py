"""The annotator `segment`: the spans of an episode in which one thing happens, by its signals or by a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from ares.annotation import Annotation, Column, Producer
from ares.errors import AresError
from ares_annotators.base import Options, Outcome, PaidFailure, Result, Work, new_annotation
from ares_annotators.models import LocalModelOptions, call_limit, estimate_worker_resources
from ares_annotators.motion import DatasetMeanings
from ares_annotators.options import takes_options
from ares_annotators.segment.model import ModelTimeline, SpanFinder, load_span_finder
from ares_annotators.segment.signals import SIGNAL_SETTINGS, find_signal_boundaries
from ares_annotators.segment.spans import SHORTEST_SECONDS, SegmentSpan, make_spans
from ares_annotators.segment.stated_spans import SpanFileAnnotator
from ares_annotators.segment.timeline import name_spans

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores

NAME = "segment"
_VERSION = "3"
# Earlier versions linked spans to texts of the source by this overlap: under the setting the producer stays.
_MATCH_OVERLAP = 0.5
_BATCH_SIZE = 64
COLUMNS = (
    Column(
        name="num_segments",
        type="int64",
        meaning="Segments that `segment` made, summed over arms.",
        rollup="sum",
    ),
    Column(
        name="arm",
        type="string",
        meaning="The arm of the segment, by the names of dimensions.",
        rollup="segment",
    ),
)


class SegmentOptions(LocalModelOptions):
    """Options of segment."""

    # The signals have no camera; with a model it is part of the producer.
    # A file of spans has a separate producer.
    not_in_producer: ClassVar[frozenset[str]] = LocalModelOptions.not_in_producer | {*("camera", "spans")}

    by: Literal["signals", "model"] = Field(
        default="signals", description="what tells of boundaries: signals, or model (also without signals)"
    )
    camera: str = Field(default="", description="camera that a model gets (default: the best view)")
    spans: str = Field(default="", description="file of spans, which become segments instead of made ones")


@takes_options(SegmentOptions)
class SegmentAnnotator:
    """Cuts each episode into spans, for each arm; its annotations are segments of the style "subtask".

    By signals they have no text. An episode without signals, or in which nothing changes, is one span.

    Raises:
        RequestError: The model spec cannot be read.
        ModelError: The model cannot be loaded.
    """

    charges_budget = True
    batch_size = _BATCH_SIZE

    def __init__(self, options: Options, stores: Stores) -> None:
        segment_options = options.parse(SegmentOptions)
        self._meanings = DatasetMeanings(stores)
        self._stated: SpanFileAnnotator | None = None
        if segment_options.spans:
            self._stated = SpanFileAnnotator(segment_options.spans, stores)
            self.producer, self.warnings = self._stated.producer, self._stated.warnings
            self.needs_signals, self.preflight = True, self._stated.preflight
            return
        self.needs_signals = segment_options.by == "signals"
        self._finder: SpanFinder | None = None
        settings: dict[str, Json] = {
            "shortest": SHORTEST_SECONDS,
            "match": _MATCH_OVERLAP,
            **segment_options.producer_settings(),
        }
        if self.needs_signals:
            settings |= SIGNAL_SETTINGS
        else:
            self._finder = load_span_finder(options, segment_options.camera, stores)
            settings |= {**self._finder.settings, "camera": segment_options.camera}
        self.producer = Producer(
            annotator=NAME,
            version=_VERSION,
            model=self._finder.vlm.name if self._finder else "",
            prompt_hash=self._finder.prompt_hash if self._finder else "",
            settings=settings,
            columns=COLUMNS,
            kind="model" if self._finder else "code",
            fills_segments=True,
        )
        if self._finder:
            self._use_model(self._finder, options)

    def _use_model(self, finder: SpanFinder, options: Options) -> None:
        """What a run has to know of the model; the signals alone need none of it."""
        spec, vlm = options.model or options.settings.caption_model, finder.vlm
        self.batch_size, self.workers, self.call_limit = vlm.batch_size, vlm.workers, call_limit(vlm)
        self.needs = estimate_worker_resources(spec)
        self.select_frames, self.preflight = finder.select_frames, finder.preflight
        self.estimate = partial(finder.estimate, is_served=spec.startswith("openai:"))

    def process(self, works: Sequence[Work]) -> list[Outcome]:
        """The segments of each episode, or those of a file of spans."""
        return [self._stated.make_result(work) if self._stated else self._annotate(work) for work in works]

    def _annotate(self, work: Work) -> Outcome:
        timeline = self._finder.find(work) if self._finder else None
        if isinstance(timeline, PaidFailure | AresError):
            return timeline
        annotations = [self._new_segment(work, span, timeline) for span in self._find_spans(work, timeline)]
        if timeline:
            # The calls are about the episode: its first segment has their cost.
            annotations[0] = replace(annotations[0], cost=timeline.cost)
        return Result(annotations=annotations, paid=timeline.paid if timeline else None)

    def _find_spans(self, work: Work, timeline: ModelTimeline | None) -> list[SegmentSpan]:
        """The spans of an episode by what `by` names; they cover it once for each arm."""
        duration = work.episode.duration_seconds
        if timeline is not None:
            return name_spans(timeline.arms, duration)
        return make_spans(
            find_signal_boundaries(work.trajectory, self._meanings.find(work), duration), duration
        )

    def _new_segment(self, work: Work, span: SegmentSpan, timeline: ModelTimeline | None) -> Annotation:
        value: dict[str, Json] = {
            "text": span.text,
            "style": "subtask",
            "author": self.producer.model or NAME,
            "arm": span.arm,
            "boundary": span.boundary.to_json(),
            "num_segments": 1,
        }
        start, stop = span.start_seconds, span.stop_seconds
        annotation = new_annotation(
            work,
            self.producer,
            value,
            span=(start, stop),
            camera=timeline.camera if timeline else "",
            frames=[second for second in timeline.seconds if start <= second < stop] if timeline else (),
        )
        return replace(annotation, part=span.arm) if span.arm else annotation
