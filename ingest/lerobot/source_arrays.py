"""The columns that the signals of a LeRobot episode were made of, for the mapping that --show-spec prints."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.episode import ArrayUse, SourceArray
from ingest.lerobot.feature_map import LeRobotFeatureMap
from ingest.lerobot.names import short_name
from ingest.lerobot.values import EpisodeRows

if TYPE_CHECKING:
    import numpy as np


def source_arrays(feature_map: LeRobotFeatureMap, rows: EpisodeRows) -> Iterator[SourceArray]:
    """The columns of each signal, in the order of its dimensions."""
    roles: list[tuple[ArrayUse, str, str]] = [("state", "", column.key) for column in feature_map.state]
    roles += [("action", "", column.key) for column in feature_map.action]
    roles += [("reward", "", feature_map.reward_column)]
    roles += [("extra", short_name(column.key), column.key) for column in feature_map.extra_signals]
    for use, name, key in roles:
        if key in rows.numbers:
            values = rows.numbers[key]
            yield SourceArray(
                key=key, use=use, name=name, shape=values.shape, dtype=_dtype_name(values.dtype)
            )


@functools.lru_cache(maxsize=64)
def _dtype_name(dtype: np.dtype[np.generic]) -> str:
    """The name of a dtype, which NumPy composes anew each time."""
    return str(dtype)
