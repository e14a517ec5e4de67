"""The columns that the signals of a LeRobot episode were made of, for the mapping that --show-spec prints."""

from __future__ import annotations

from collections.abc import Iterator

from ares.episode import ArrayUse, SourceArray
from ingest.lerobot.feature_map import LeRobotFeatureMap
from ingest.lerobot.names import short_name
from ingest.lerobot.values import EpisodeRows


def source_arrays(feature_map: LeRobotFeatureMap, rows: EpisodeRows) -> Iterator[SourceArray]:
    """The columns of each signal, in the order of its dimensions."""
    roles: list[tuple[ArrayUse, str, str]] = [("state", "", column.key) for column in feature_map.state]
    roles += [("action", "", column.key) for column in feature_map.action]
    roles += [("reward", "", feature_map.reward_column)]
    roles += [("extra", short_name(column.key), column.key) for column in feature_map.extra_signals]
    for use, name, key in roles:
        if key in rows.numbers:
            values = rows.numbers[key]
            yield SourceArray(key=key, use=use, name=name, shape=values.shape, dtype=str(values.dtype))
