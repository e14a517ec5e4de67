"""The annotator `segment`: cuts episodes into the spans of what happens when."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from annotators.segment.annotator import SegmentAnnotator as SegmentAnnotator
    from annotators.segment.model import plan_windows as plan_windows
    from annotators.segment.signals import find_signal_boundaries as find_signal_boundaries
    from annotators.segment.spans import (
        SHORTEST_SECONDS as SHORTEST_SECONDS,
        ArmBoundaries as ArmBoundaries,
        Boundary as Boundary,
        SegmentSpan as SegmentSpan,
        join_boundaries as join_boundaries,
        make_spans as make_spans,
    )
    from annotators.segment.timeline import align_times as align_times
    from annotators.segment.tracks import read_tracks as read_tracks

__getattr__ = lazy_exports(__name__)
