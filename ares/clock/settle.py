"""Settles the clock of a record: what it claims beside what its stamps say, and how steps and frames are paired."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ares.clock.measure import measure_clock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.clock.measure import MeasuredClock
    from ares.episode import Camera, Episode, Record

# The stamps win where they and the claimed rate disagree by more than this share.
_RATE_TOLERANCE = 0.01
# Stamps of few uneven steps may miss the rate by chance.
_STANDARD_ERRORS = 3
_EVEN_SECONDS = 1e-6
RATES_DISAGREE = "the stamps have another rate than the source claims; the stamps are used"


def settle_clock(record: Record) -> Record:
    """The record with its measured clock, its duration by its stamps, and the pairing that holds.

    A rate that the stamps contradict by more than one percent is replaced, unless the user set it; `rate_source` is
    then "measured". A promised frame per step counts only where every camera has as many frames as there are steps.
    """
    fields, warnings = settled_fields(record)
    if not fields:
        return record
    return replace(record, episode=replace(record.episode, **fields), warnings=(*record.warnings, *warnings))


def settled_fields(record: Record) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What `settle_clock` changes of the episode, and its warnings; a caller that changes more copies it once."""
    import numpy as np

    episode, stamps = record.episode, record.trajectory.timestamps
    if len(stamps) != episode.num_steps or not len(stamps):
        return {}, ()
    # Most clocks are exactly even, and measuring takes as long as reading an episode.
    if np.array_equal(stamps, np.arange(len(stamps)) / episode.rate_hz):
        return _settled(episode, _even_clock(len(stamps), episode.rate_hz) if record.has_stamps else None)
    if not np.isfinite(stamps).all():
        return {}, ()
    fields, warnings = _settled(episode, measure_clock(stamps) if record.has_stamps else None)
    return fields | _unevenness(fields.get("rate_hz", episode.rate_hz), stamps), warnings


@lru_cache(maxsize=16_384)
def _even_clock(num_steps: int, rate_hz: float) -> MeasuredClock | None:
    """What `measure_clock` finds in even stamps; episodes of one dataset share lengths."""
    import numpy as np

    return measure_clock(np.arange(num_steps) / rate_hz)


def _settled(episode: Episode, measured: MeasuredClock | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The rate that the claim and the measured clock give, and a warning where they disagree."""
    fields: dict[str, Any] = {"frame_pairing": _pairing(episode)}
    warnings: tuple[str, ...] = ()
    if measured:
        fields |= {"measured_rate_hz": measured.rate_hz, "rate_spread": measured.spread}
    if episode.rate_source not in ("assumed", "measured"):
        fields["claimed_rate_hz"] = episode.rate_hz
    if measured and episode.rate_source not in ("user", "measured") and _disagree(episode.rate_hz, measured):
        factor = measured.rate_hz / episode.rate_hz
        fields |= {"rate_hz": measured.rate_hz, "rate_source": "measured"}
        if fields["frame_pairing"] == "index":
            fields["cameras"] = tuple(_at_other_rate(camera, factor) for camera in episode.cameras)
        if episode.rate_source != "assumed":
            warnings = (RATES_DISAGREE,)
    return fields, warnings


def _disagree(rate_hz: float, measured: MeasuredClock) -> bool:
    difference = abs(measured.rate_hz / rate_hz - 1)
    return difference > max(_RATE_TOLERANCE, _STANDARD_ERRORS * measured.standard_error)


def _pairing(episode: Episode) -> str:
    has_all = all(camera.media.num_frames == episode.num_steps for camera in episode.cameras)
    return episode.frame_pairing if has_all else "stamp"


def _at_other_rate(camera: Camera, factor: float) -> Camera:
    """The camera with its frames at a rate that is larger by a factor; the same frames of the same file."""
    ref = camera.media
    if ref.kind == "mp4":  # its span is in seconds of the file, which stay
        return replace(camera, media=replace(ref, rate_hz=ref.rate_hz * factor))
    start, stop = ref.start_seconds / factor, ref.stop_seconds / factor
    media = replace(ref, rate_hz=ref.rate_hz * factor, start_seconds=start, stop_seconds=stop)
    return replace(camera, media=media)


def _unevenness(rate_hz: float, stamps: NDArray[np.float64]) -> dict[str, Any]:
    """How far stamps are from even ones, and the duration by them, where they are not even."""
    import numpy as np

    shift = float(np.abs(stamps - np.arange(len(stamps)) / rate_hz).max())
    if shift <= _EVEN_SECONDS:
        return {}
    return {"clock_shift_seconds": shift, "stamped_duration_seconds": float(stamps.max()) + 1 / rate_hz}
