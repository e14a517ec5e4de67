"""The annotator `segment`: the spans of an episode in which one thing happens, by its signals or by a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from annotators.base import Options, Result, Work, new_annotation
from annotators.motion import DatasetMeanings
from annotators.options import AnnotatorOptions, takes_options
from annotators.segment.signals import SIGNAL_SETTINGS, find_signal_boundaries
from annotators.segment.spans import (
    MATCH_OVERLAP,
    SHORTEST_SECONDS,
    TEXT_ANNOTATORS,
    SegmentSpan,
    make_spans,
    match_texts,
)
from ares.annotation import Annotation, Column, Maker
from ares.store import keep_newest_annotations

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores

NAME = "segment"
_VERSION = "1"
_BATCH_SIZE = 64
COLUMNS = (
    Column(
        name="num_segments",
        type="int64",
        meaning="Segments that `segment` made, summed over arms.",
        rollup="sum",
    ),
)
UNMATCHED_TEXT = "a text of the source has no made segment of its span"


class SegmentOptions(AnnotatorOptions):
    """Options of segment."""

    by: Literal["signals"] = Field(default="signals", description="what tells of boundaries: signals")


@takes_options(SegmentOptions)
class SegmentAnnotator:
    """Cuts each episode into spans, for each arm; its annotations are segments of the style "subtask" without text.

    An episode without signals, or in which nothing changes, is one span.
    """

    needs_signals = True
    batch_size = _BATCH_SIZE

    def __init__(self, options: Options, stores: Stores) -> None:
        own = options.parse(SegmentOptions)
        self.maker = Maker(
            annotator=NAME,
            version=_VERSION,
            settings={
                "shortest": SHORTEST_SECONDS,
                "match": MATCH_OVERLAP,
                **SIGNAL_SETTINGS,
                **own.maker_settings(),
            },
            columns=COLUMNS,
            fills_segments=True,
        )
        self._stores, self._meanings = stores, DatasetMeanings(stores)

    def process(self, works: Sequence[Work]) -> list[Result]:
        """The segments of each episode, with the texts of the source that they meet."""
        texts = self._find_texts([work.episode.episode_id for work in works])
        return [self._make_result(work, texts.get(work.episode.episode_id, ())) for work in works]

    def _make_result(self, work: Work, texts: Sequence[Annotation]) -> Result:
        spans = self._find_spans(work)
        matched = match_texts(spans, texts)
        annotations = [
            self._new_segment(work, span, matched.by_span.get(number)) for number, span in enumerate(spans)
        ]
        return Result(annotations=annotations, warnings=(UNMATCHED_TEXT,) * matched.num_unmatched)

    def _find_spans(self, work: Work) -> list[SegmentSpan]:
        """The spans of an episode by what `by` names; they cover it once for each arm."""
        duration = work.episode.duration_seconds
        arms = find_signal_boundaries(work.trajectory, self._meanings.find(work), duration)
        return make_spans(arms, duration)

    def _new_segment(self, work: Work, span: SegmentSpan, match: Mapping[str, Json] | None) -> Annotation:
        value: dict[str, Json] = {
            "text": span.text,
            "style": "subtask",
            "author": NAME,
            "arm": span.arm,
            "boundary": span.boundary.to_json(),
            "num_segments": 1,
            **({} if match is None else {"matched": match}),
        }
        annotation = new_annotation(work, self.maker, value, span=(span.start_seconds, span.stop_seconds))
        return replace(annotation, part=span.arm) if span.arm else annotation

    def _find_texts(self, episode_ids: Sequence[str]) -> dict[str, list[Annotation]]:
        """By episode, the spans with a text that its source or people gave."""
        if not self._text_makers:
            return {}
        by_episode: dict[str, list[Annotation]] = {}
        stored = self._stores.annotations.find_annotations(episode_ids, maker_ids=self._text_makers)
        for annotation in keep_newest_annotations(stored):
            if annotation.value.get("text") and annotation.stop_seconds > annotation.start_seconds:
                by_episode.setdefault(annotation.episode_id, []).append(annotation)
        return by_episode

    @cached_property
    def _text_makers(self) -> list[str]:
        """Ids of the makers whose segments have the texts of people and sources."""
        return [
            maker_id
            for maker_id, maker in self._stores.annotations.makers().items()
            if maker.fills_segments and (maker.kind == "person" or maker.annotator in TEXT_ANNOTATORS)
        ]
