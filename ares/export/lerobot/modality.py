"""The modality.json of GR00T: which numbers of state and action, which videos and which tasks a dataset has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ares.export.plan import DatasetGroup
from ares.formats import camera_key

_TASK_COLUMN = "task_index"


def modality_document(group: DatasetGroup) -> dict[str, Any]:
    """The content of meta/modality.json of a group."""
    return {
        "state": _parts(group.layout.state_names, "state"),
        "action": _parts(group.layout.action_names, "action"),
        "video": {name: {"original_key": camera_key(name)} for name in group.cameras},
        "annotation": {"human.task_description": {"original_key": _TASK_COLUMN}},
    }


def _parts(names: Sequence[str], signal: str) -> dict[str, dict[str, int]]:
    """Spans of dimensions by name: "arm" for arm_0, arm_1 and so on; the whole signal where names repeat."""
    spans = list(_numbered_spans(names))
    if len({name for name, _, _ in spans}) < len(spans):
        spans = [(signal, 0, len(names))]
    return {name: {"start": start, "end": stop} for name, start, stop in spans}


def _numbered_spans(names: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield name, start and stop of each run of names that are numbered from 0, and of each other name."""
    start = 0
    while start < len(names):
        part, _, number = names[start].rpartition("_")
        stop = start + 1
        if part and number == "0":
            while stop < len(names) and names[stop] == f"{part}_{stop - start}":
                stop += 1
        yield (part if stop - start > 1 else names[start]), start, stop
        start = stop
