"""Flags of a step that say which subtasks are done, as Isaac Lab and MimicGen record them, as segments."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from ares.episode import Record, SourceSegment

_FLAG = re.compile(r"(?:.*[./])?subtask_term_signals?[./]([^./]+)")


def add_flagged_subtasks(record: Record) -> Record:
    """The record with a segment for each subtask: from the end of the one before to the step at which its flag is set.

    The flags stay signals. One that is set at the first step or never ends no segment; after the last the source names
    nothing.
    """
    ends = sorted(
        (int((signal.values[:, 0] > 0).argmax()), match[1].replace("_", " "))
        for key, signal in record.trajectory.extra.items()
        if (match := _FLAG.fullmatch(key))
    )
    seconds = record.trajectory.timestamps
    segments = (
        SourceSegment(
            style="subtask",
            text=text,
            start_seconds=float(seconds[start]),
            stop_seconds=float(seconds[stop]),
        )
        for (start, _), (stop, text) in pairwise([(0, ""), *ends])
        if stop > start
    )
    return replace(record, segments=(*record.segments, *segments))
