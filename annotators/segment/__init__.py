"""The annotator `segment`: cuts episodes into the spans of what happens when."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_annotators.segment.annotator import SegmentAnnotator as SegmentAnnotator
    from ares_annotators.segment.model import plan_windows as plan_windows
    from ares_annotators.segment.signals import find_signal_boundaries as find_signal_boundaries
    from ares_annotators.segment.spans import (
        SHORTEST_SECONDS as SHORTEST_SECONDS,
    )
    from ares_annotators.segment.timeline import align_times as align_times
    from ares_annotators.segment.tracks import read_tracks as read_tracks

__getattr__ = lazy_exports(__name__)
