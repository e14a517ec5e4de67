"""VideoTotals: what a check of videos counted in one dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ares.episode import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoTotals:
    """Counts over the videos of a dataset.

    Attributes:
        num_episodes: Episodes with cameras.
        num_frames: Frames that were decoded.
        num_moving: Episodes in which the robot moves for five seconds, and that have others like them.
        num_moving_known: Those of them in which the data say the lag of a camera behind the state.
        num_failed: Episodes whose record or videos could not be checked.
        first_failure: Why the first of them could not be, or "".
        lag_seconds: Median lag of each camera behind the state, for those with any.
    """

    num_episodes: int
    num_frames: int
    num_moving: int
    num_moving_known: int
    num_failed: int = 0
    first_failure: str = ""
    lag_seconds: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """The totals as JSON."""
        return {
            "episodes": self.num_episodes,
            "frames": self.num_frames,
            "moving": self.num_moving,
            "moving_lag_known": self.num_moving_known,
            "failed": self.num_failed,
            "first_failure": self.first_failure,
            "lag_seconds": dict(self.lag_seconds),
        }
