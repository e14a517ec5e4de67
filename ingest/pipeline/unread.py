"""What the source of a record holds beside it and was not read: named with its type, its count and the reason."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

from ares.console import count_of
from ares.episode import UNREAD, Json, NotRead, Record, SourceArray
from ares_ingest.files import add_unread
from ares_ingest.pipeline.implausible_values import find_implausible_values

# A picture has at least so many pixels on a side.
_LEAST_SIDE = 16
_NO_COLOURS = re.compile(
    r"(.*[^a-z])?(depth|masks?|seg|segmentation|semantic|instances?|instance_ids?)([^a-z].*)?", re.IGNORECASE
)
_SUCCESS = re.compile(r"(.*[./])?(is_)?success", re.IGNORECASE)
# Of more arrays that were not read only so many are named.
_MOST_NAMED = 64


def account_for_unread(record: Record) -> Record:
    """The record, with its outcome, warnings of odd values and of each array not read, and what it lacks for that.

    An episode is incomplete where it has no state, action, camera or text, and something of that shape was not read.
    """
    cameras = record.episode.cameras
    left = [camera.name for camera in cameras if _NO_COLOURS.fullmatch(camera.name)]
    masks = [
        NotRead(
            f"camera {name} is left out: by its name it has no colours; by another name of a spec it is read"
        )
        for name in left
    ]
    colours = tuple(camera for camera in cameras if camera.name not in left)
    record = replace(
        record,
        episode=replace(record.episode, cameras=colours, **_read_flag_of_success(record)),
        warnings=tuple(dict.fromkeys((*record.warnings, *find_implausible_values(record), *masks))),
    )
    unread = [array for array in record.arrays if array.use == "unused"]
    if not unread:
        return record
    steps = record.episode.num_steps
    kinds = {array.key: _kind_of_array(array, steps) for array in unread}
    warned = {warning.key for warning in record.warnings if isinstance(warning, NotRead)}
    warnings = [_describe_unread(array, kinds[array.key]) for array in unread if array.key not in warned]
    lacking = _lacking_kinds(record)
    reasons = [
        f"no {lacking[kinds[array.key]]} is read, and {array.key} is not read"
        for array in unread
        if kinds[array.key] in lacking
    ]
    known = record.episode.metadata.get(UNREAD)
    earlier = [str(reason) for reason in known] if isinstance(known, list) else []
    metadata: dict[str, Json] = add_unread(record.episode.metadata, [*earlier, *_shorten_list(reasons)])
    return replace(
        record,
        episode=replace(record.episode, metadata=metadata),
        warnings=(*record.warnings, *map(NotRead, _shorten_list(warnings))),
    )


def _read_flag_of_success(record: Record) -> dict[str, Any]:
    """The outcome by a flag of each step, where the last step agrees with the others and the source says no outcome."""
    for key, signal in record.trajectory.extra.items() if record.episode.success is None else ():
        flags: set[float] = {*signal.values.ravel().tolist()} if _SUCCESS.fullmatch(key) else set()
        if flags <= {0.0, 1.0} and signal.values[-1, :1].tolist() == [max(flags, default=-1)]:
            return {"success": max(flags) == 1, "success_source": key}
    return {}


def _shorten_list(lines: list[str]) -> list[str]:
    """The first lines, and how many more there are."""
    more = len(lines) - _MOST_NAMED
    return [*lines[:_MOST_NAMED], f"not read: {count_of(more, 'array')} more"] if more > 0 else lines


def _lacking_kinds(record: Record) -> dict[str, str]:
    """What the episode has none of, by the kind of an array that could be it."""
    trajectory, episode = record.trajectory, record.episode
    signals = {"state": trajectory.state, "action": trajectory.action}
    missing = [name for name, signal in signals.items() if signal is None]
    lacking = {"numbers": " and no ".join(missing)} if missing else {}
    lacking |= {} if episode.cameras else {"pictures": "camera"}
    return lacking | ({} if episode.instructions else {"texts": "text"})


def _kind_of_array(array: SourceArray, steps: int) -> str:
    """What an array could be by its shape: "pictures", "numbers" or "texts"; "" for nothing of an episode."""
    if not array.dtype or not array.shape or array.shape[0] < max(steps, 1):
        return ""
    if re.match(r"(str|string|large_string|object)\b|[<>|][SU]\d", array.dtype):
        return "texts"
    sides = [size for size in array.shape[1:] if size >= _LEAST_SIDE]
    if len(array.shape) > 2 and len(sides) >= 2:
        return "pictures"
    return "numbers" if math.prod(array.shape[1:]) else ""


def _describe_unread(array: SourceArray, kind: str) -> str:
    """One line: the name, the type and count, the reason, and the line of a spec that reads numbers."""
    shape = " x ".join(["T", *map(str, array.shape[1:])]) if array.shape else ""
    # Of a topic the number of messages differs from episode to episode: equal reasons are counted as one.
    facts = ", ".join(filter(None, (array.dtype.partition(",")[0], shape)))
    line = f"not read: {array.key} ({facts or 'type not known'})"
    line += f": {array.note}" if array.note else ""
    if kind == "numbers" and not array.note.startswith("too wide"):
        name = re.sub(r"\W+", "_", array.key).strip("_")
        return f"{line}; a spec reads it by state (or action): [{{key: {json.dumps(array.key)}, names: [{name}]}}]"
    return line
