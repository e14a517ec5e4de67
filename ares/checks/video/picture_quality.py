"""Pictures that are blurred, too bright, too dark, black or damaged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.checks.codes import (
    BLACK,
    BLUR,
    COMPRESSION_DAMAGE,
    OVEREXPOSED,
    UNDEREXPOSED,
    CheckCode,
)
from ares.checks.finding import QualityFinding, finding_confidence, make_finding
from ares.signals import find_runs
from ares.statistics import DEVIATIONS_PER_MAD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
from ares.checks.video.features import CameraFeatures

# A span shorter than this is not reported: exposure and focus of a camera settle.
_SHORTEST_SECONDS = 0.3

_BLURRED_SHARE = 0.78

_BLUR_DEVIATIONS = 6.0

_FEWEST_FRAMES = 8

_STOPS = 1.0

_STOPS_DEVIATIONS = 6.0

_CLIPPED_MORE = 0.2

_CLIPPED_STOPS = 0.3

_BLACK_LEVEL = 20.0

_BLACK_FRAMES = 2
# Damaged frames nearer than so many periods are one run; at most so many runs are named.
_SAME_RUN_PERIODS, _MOST_RUNS = 1.5, 64

_BLOCKS_FACTOR = 1.6

_BLOCKS_SECONDS = 0.2

_GAMMA = 2.2


def check_picture_quality(features: CameraFeatures) -> Iterator[QualityFinding]:
    """A030 to A033 and A039 within one episode."""
    yield from _check_damage(features)
    if features.num_frames:
        black = black_frames(features)
        yield from _check_black(features, black)
        if features.num_frames >= _FEWEST_FRAMES and not black.all():
            yield from _check_blur(features, black)
            yield from _check_exposure(features, black)
            yield from _check_blocks(features, black)


def video_finding(
    check: CheckCode, camera: str, seconds: float, size: float, confidence: float
) -> QualityFinding:
    """A finding of a camera."""
    return make_finding(check, "video", camera, max(seconds, 0.0), round(float(size), 4), confidence)


def black_frames(features: CameraFeatures) -> NDArray[np.bool_]:
    """(T,) whether a frame is black everywhere."""
    import numpy as np

    return np.asarray(features.thumbs.max(axis=(1, 2)) <= _BLACK_LEVEL)


def compute_cell_brightness(features: CameraFeatures) -> NDArray[np.float64]:
    """(T, 48) linear light of the cells of each frame, from 0 to 1."""
    grey = features.colours.reshape(features.num_frames, -1, 3).mean(axis=2)
    return (grey / 255 + 0.004) ** _GAMMA  # type: ignore[no-any-return]


def _longest_run(
    features: CameraFeatures, flags: NDArray[np.bool_], shortest_seconds: float
) -> tuple[int, int] | None:
    """The longest run of at least so many seconds."""
    runs = [
        (start, stop)
        for start, stop in find_runs(flags).tolist()
        if (stop - start + 0.5) / features.rate_hz >= shortest_seconds and stop - start >= 2
    ]
    return max(runs, key=lambda run: run[1] - run[0], default=None)


def _median_and_deviation(values: NDArray[np.float64]) -> tuple[float, float]:
    """Median, and standard deviation by the median deviation."""
    import numpy as np

    middle = float(np.median(values))
    return middle, DEVIATIONS_PER_MAD * float(np.median(np.abs(values - middle)))


def _check_blur(features: CameraFeatures, black: NDArray[np.bool_]) -> Iterator[QualityFinding]:
    """The detail falls for a time, further than motion lets it fall in the rest of the episode."""
    import numpy as np

    detail = np.log(features.detail)
    middle, spread = _median_and_deviation(detail[~black])
    bar = max(-float(np.log(_BLURRED_SHARE)), _BLUR_DEVIATIONS * spread)
    lost = middle - detail
    run = _longest_run(features, (lost >= bar) & ~black, _SHORTEST_SECONDS)
    if run is not None:
        seconds = (run[1] - run[0]) / features.rate_hz
        confidence = finding_confidence(float(np.median(lost[run[0] : run[1]])), bar)
        yield video_finding(BLUR, features.camera, features.seconds[run[0]], seconds, confidence)


def _check_exposure(features: CameraFeatures, black: NDArray[np.bool_]) -> Iterator[QualityFinding]:
    """The light of most cells changes by one factor, further than in the rest of the episode."""
    import numpy as np

    light = np.log2(compute_cell_brightness(features))
    stops = np.median(light - np.median(light[~black], axis=0), axis=1)
    _, spread = _median_and_deviation(stops[~black])
    bar = max(_STOPS, _STOPS_DEVIATIONS * spread)
    usual, clipped_spread = _median_and_deviation(features.clipped[~black])
    clipped = features.clipped - usual
    clipped_bar = max(_CLIPPED_MORE, _STOPS_DEVIATIONS * clipped_spread)
    over = (stops >= bar) | ((stops >= min(_CLIPPED_STOPS, bar)) & (clipped >= clipped_bar))
    for check, flags in ((OVEREXPOSED, over), (UNDEREXPOSED, stops <= -bar)):
        run = _longest_run(features, flags & ~black, _SHORTEST_SECONDS)
        if run is not None:
            size = float(np.median(stops[run[0] : run[1]]))
            confidence = finding_confidence(max(abs(size), bar), bar)
            yield video_finding(check, features.camera, features.seconds[run[0]], size, confidence)


def _check_black(features: CameraFeatures, black: NDArray[np.bool_]) -> Iterator[QualityFinding]:
    runs = [
        run for run in find_runs(black).tolist() if run[1] - run[0] >= min(_BLACK_FRAMES, features.num_frames)
    ]
    if runs:
        start, stop = max(runs, key=lambda run: run[1] - run[0])
        seconds = (stop - start) / features.rate_hz
        confidence = finding_confidence(stop - start, _BLACK_FRAMES)
        yield video_finding(BLACK, features.camera, features.seconds[start], seconds, confidence)


def _check_blocks(features: CameraFeatures, black: NDArray[np.bool_]) -> Iterator[QualityFinding]:
    """Borders of blocks are seen for a time, and not in the rest of the episode."""
    import numpy as np

    usual, spread = _median_and_deviation(features.blocks[~black])
    bar = max(_BLOCKS_FACTOR * usual, usual + _BLUR_DEVIATIONS * spread)
    run = _longest_run(features, (features.blocks >= bar) & ~black, _BLOCKS_SECONDS)
    if run is not None:
        seconds = (run[1] - run[0]) / features.rate_hz
        confidence = finding_confidence(float(np.median(features.blocks[run[0] : run[1]])), bar)
        yield video_finding(
            COMPRESSION_DAMAGE, features.camera, features.seconds[run[0]], seconds, confidence
        )


def _check_damage(features: CameraFeatures) -> Iterator[QualityFinding]:
    import numpy as np

    if features.failure:
        second = features.seconds[-1] if features.num_frames else 0.0
        lost = max(features.expected_frames - features.num_frames, 0) / features.rate_hz
        yield video_finding(COMPRESSION_DAMAGE, features.camera, second, lost, 1.0)
    elif features.damaged:
        # A finding for each run of damaged frames, so that each is named by its second.
        seconds = np.array(features.damaged)
        runs = np.split(seconds, np.flatnonzero(np.diff(seconds) > _SAME_RUN_PERIODS / features.rate_hz) + 1)
        for run in runs[:_MOST_RUNS]:
            size = len(run) / features.rate_hz
            yield video_finding(COMPRESSION_DAMAGE, features.camera, float(run[0]), size, 1.0)
