"""The episodes that a recording declares in its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ares.episode import Json
from ares.errors import SourceError
from ares.media import read_metadata
from ares_ingest.source_words import InvalidRowError, VideoRow, parse_video_row

METADATA_NAME = "episode"
# The recorder of ROS 2 repeats its metadata.yaml in the file.
_OTHER_NAMES = frozenset({METADATA_NAME, "rosbag2"})
_SPAN_FIELDS = frozenset({"key", "start_ns", "stop_ns"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSpan:
    """A part of a recording that is one episode.

    Attributes:
        key: Name of the episode in the recording; its number where it has none.
        start: Nanoseconds at which it begins.
        stop: Nanoseconds at which it ends, half open.
        row: What its other fields say.
    """

    key: str
    start: int
    stop: int
    row: VideoRow


def read_episode_spans(files: list[str]) -> list[RecordedSpan | SourceError]:
    """The episodes that a recording declares, in file order; empty where the recording is itself one episode.

    A record without a valid span is an error in the list. Raises SourceError for a file that is missing or is not
    an MCAP file.
    """
    documents = [
        document for path in files for name, document in read_metadata(path) if name == METADATA_NAME
    ]
    spans = [_parse_span(number, document) for number, document in enumerate(documents)]
    seen_keys: set[str] = set()
    for number, span in enumerate(spans):
        if isinstance(span, RecordedSpan) and span.key in seen_keys:
            spans[number] = SourceError("episode is declared twice", f"{files[0]}: {span.key!r}")
        elif isinstance(span, RecordedSpan):
            seen_keys.add(span.key)
    return spans


def read_session_row(files: list[str]) -> VideoRow:
    """What the metadata of a recording that is one episode says of it. Raises SourceError as `read_episode_spans`."""
    records = [fields for path in files for name, fields in read_metadata(path) if name not in _OTHER_NAMES]
    return _parse_fields({name: text for fields in records for name, text in fields.items()})


def _parse_fields(fields: Mapping[str, Json]) -> VideoRow:
    try:
        return parse_video_row({"video": METADATA_NAME, **fields})  # the row of a video names its file
    except InvalidRowError:
        return VideoRow(metadata=fields)


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
        row=_parse_fields({name: text for name, text in document.items() if name not in _SPAN_FIELDS}),
    )
