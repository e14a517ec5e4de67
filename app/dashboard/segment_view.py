"""Segments of an episode with what annotators say of them, as plain data for the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.dashboard.caption_view import value_text
from ares.episode import Episode, Json
from ares.rubric import is_verdict_column
from ares.store import Stores
from ares.store.filters import ids_filter
from ares.store.lance import segment_schema


def read_segments(stores: Stores, episode: Episode) -> list[dict[str, Json]]:
    """Return the segments of an episode that the tables show, in order of time, whoever made them."""
    own_columns = {field.name for field in segment_schema()}
    rows = stores.tables.segments.read(ids_filter([episode.episode_id])).to_pylist()
    return [_segment(row, own_columns) for row in rows]


def _segment(row: Mapping[str, Any], own_columns: set[str]) -> dict[str, Json]:
    values: list[Json] = [
        [name, value_text(value)]
        for name, value in row.items()
        if name not in own_columns and value not in (None, []) and not is_verdict_column(name)
    ]
    return {
        "id": row["annotation_id"],
        "start": row["start_seconds"],
        "stop": row["stop_seconds"],
        "annotator": row["annotator"],
        "text": row["text"],
        "values": values,
    }


def timeline_spans(segments: list[dict[str, Json]], episode: Episode) -> list[Json]:
    """The segments that are shorter than the episode, for the timeline of the player."""
    return [
        {
            "start": segment["start"],
            "stop": segment["stop"],
            "label": f"{segment['annotator']}: {segment['text']}".removesuffix(": "),
        }
        for segment in segments
        if float(str(segment["stop"])) - float(str(segment["start"])) < episode.duration_seconds
    ]
