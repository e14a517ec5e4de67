"""The episodes that a recording declares in its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ares.episode import Json
from ares.errors import SourceError
from ares.media import (
    read_metadata,
)

METADATA_NAME = "episode"

_OUTCOMES = {"true": True, "1": True, "success": True, "false": False, "0": False, "failure": False}

_USED_FIELDS = frozenset({"key", "start_ns", "stop_ns", "instruction", "success", "robot"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSpan:
    """A part of a recording that is one episode.

    Attributes:
        key: Name of the episode in the recording; its number where it has none.
        start: Nanoseconds at which it begins.
        stop: Nanoseconds at which it ends, half open.
        instruction: Instruction, or "".
        success: Whether it succeeded, or None.
        robot: Name of the robot, or "".
        metadata: Other fields of the record.
    """

    key: str
    start: int
    stop: int
    instruction: str = ""
    success: bool | None = None
    robot: str = ""
    metadata: Mapping[str, Json]


def read_episode_spans(files: list[str]) -> list[RecordedSpan | SourceError]:
    """The episodes that a recording declares, in file order; empty where the recording is itself one episode.

    A record without a valid span is an error in the list. Raises SourceError for a file that is missing or is not
    an MCAP file.
    """
    documents = [document for path in files for document in read_metadata(path, METADATA_NAME)]
    spans = [_parse_span(number, document) for number, document in enumerate(documents)]
    seen_keys: set[str] = set()
    for number, span in enumerate(spans):
        if isinstance(span, RecordedSpan) and span.key in seen_keys:
            spans[number] = SourceError("episode is declared twice", f"{files[0]}: {span.key!r}")
        elif isinstance(span, RecordedSpan):
            seen_keys.add(span.key)
    return spans


def _parse_span(number: int, document: Mapping[str, str]) -> RecordedSpan | SourceError:
    """Parse a record. Details of errors are part of the identities of failing items: change them with care."""
    try:
        start, stop = int(document["start_ns"]), int(document["stop_ns"])
    except (KeyError, ValueError):
        return SourceError(
            "episode is declared without its span", f"start_ns and stop_ns in {dict(document)}"
        )
    if not 0 <= start < stop < 2**62:
        return SourceError("episode is declared with an empty span", f"start_ns {start}, stop_ns {stop}")
    return RecordedSpan(
        key=document.get("key") or str(number),
        start=start,
        stop=stop,
        instruction=document.get("instruction", ""),
        success=_OUTCOMES.get(document.get("success", "").lower()),
        robot=document.get("robot", ""),
        metadata={name: text for name, text in document.items() if name not in _USED_FIELDS},
    )
