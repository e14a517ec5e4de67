"""Checks of single pictures against the rest of their camera: blur, exposure, black frames, blocks and damage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.quality.code_definition import CheckCode
from ares.quality.finding import QualityFinding, confidence_of
from ares.quality.video.codes import BLACK, BLUR, COMPRESSION_DAMAGE, OVEREXPOSED, UNDEREXPOSED
from ares.quality.video.features import CameraFeatures

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
_BLOCKS_FACTOR = 1.6
_BLOCKS_SECONDS = 0.2
_GAMMA = 2.2


def check_pictures(features: CameraFeatures) -> Iterator[QualityFinding]:
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
    return QualityFinding(
        code=check.code,
        signal="video",
        dimension=camera,
        seconds=round(max(float(seconds), 0.0), 3),
        size=round(float(size), 4),
        confidence=confidence,
    )


def runs_where(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Runs [start, stop) of true values."""
    import numpy as np

    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def black_frames(features: CameraFeatures) -> NDArray[np.bool_]:
    """(T,) whether a frame is black everywhere."""
    import numpy as np

    return np.asarray(features.thumbs.max(axis=(1, 2)) <= _BLACK_LEVEL)


def light_of(features: CameraFeatures) -> NDArray[np.float64]:
    """(T, 48) linear light of the cells of each frame, from 0 to 1."""
    grey = features.colours.reshape(features.num_frames, -1, 3).mean(axis=2)
    return (grey / 255 + 0.004) ** _GAMMA  # type: ignore[no-any-return]


def _longest(
    features: CameraFeatures, flags: NDArray[np.bool_], shortest_seconds: float
) -> tuple[int, int] | None:
    """The longest run of at least so many seconds."""
    runs = [
        run
        for run in runs_where(flags)
        if (run[1] - run[0] + 0.5) / features.rate_hz >= shortest_seconds and run[1] - run[0] >= 2
    ]
    return max(runs, key=lambda run: run[1] - run[0], default=None)


def _robust(values: NDArray[np.float64]) -> tuple[float, float]:
    """Median, and standard deviation by the median deviation."""
    import numpy as np

    middle = float(np.median(values))
    return middle, 1.4826 * float(np.median(np.abs(values - middle)))


def _check_blur(features: CameraFeatures, black: NDArray[np.bool_]) -> Iterator[QualityFinding]:
    """The detail falls for a time, further than motion lets it fall in the rest of the episode."""
    import numpy as np

    detail = np.log(features.detail)
    middle, spread = _robust(detail[~black])
    bar = max(-float(np.log(_BLURRED_SHARE)), _BLUR_DEVIATIONS * spread)
    lost = middle - detail
    run = _longest(features, (lost >= bar) & ~black, _SHORTEST_SECONDS)
    if run is not None:
        seconds = (run[1] - run[0]) / features.rate_hz
        confidence = confidence_of(float(np.median(lost[run[0] : run[1]])), bar)
        yield video_finding(BLUR, features.camera, features.seconds[run[0]], seconds, confidence)


def _check_exposure(features: CameraFeatures, black: NDArray[np.bool_]) -> Iterator[QualityFinding]:
    """The light of most cells changes by one factor, further than in the rest of the episode."""
    import numpy as np

    light = np.log2(light_of(features))
    stops = np.median(light - np.median(light[~black], axis=0), axis=1)
    _, spread = _robust(stops[~black])
    bar = max(_STOPS, _STOPS_DEVIATIONS * spread)
    usual, clipped_spread = _robust(features.clipped[~black])
    clipped = features.clipped - usual
    clipped_bar = max(_CLIPPED_MORE, _STOPS_DEVIATIONS * clipped_spread)
    over = (stops >= bar) | ((stops >= min(_CLIPPED_STOPS, bar)) & (clipped >= clipped_bar))
    for check, flags in ((OVEREXPOSED, over), (UNDEREXPOSED, stops <= -bar)):
        run = _longest(features, flags & ~black, _SHORTEST_SECONDS)
        if run is not None:
            size = float(np.median(stops[run[0] : run[1]]))
            confidence = confidence_of(max(abs(size), bar), bar)
            yield video_finding(check, features.camera, features.seconds[run[0]], size, confidence)


def _check_black(features: CameraFeatures, black: NDArray[np.bool_]) -> Iterator[QualityFinding]:
    runs = [run for run in runs_where(black) if run[1] - run[0] >= min(_BLACK_FRAMES, features.num_frames)]
    if runs:
        start, stop = max(runs, key=lambda run: run[1] - run[0])
        seconds = (stop - start) / features.rate_hz
        confidence = confidence_of(stop - start, _BLACK_FRAMES)
        yield video_finding(BLACK, features.camera, features.seconds[start], seconds, confidence)


def _check_blocks(features: CameraFeatures, black: NDArray[np.bool_]) -> Iterator[QualityFinding]:
    """Borders of blocks are seen for a time, and not in the rest of the episode."""
    import numpy as np

    usual, spread = _robust(features.blocks[~black])
    bar = max(_BLOCKS_FACTOR * usual, usual + _BLUR_DEVIATIONS * spread)
    run = _longest(features, (features.blocks >= bar) & ~black, _BLOCKS_SECONDS)
    if run is not None:
        seconds = (run[1] - run[0]) / features.rate_hz
        confidence = confidence_of(float(np.median(features.blocks[run[0] : run[1]])), bar)
        yield video_finding(
            COMPRESSION_DAMAGE, features.camera, features.seconds[run[0]], seconds, confidence
        )


def _check_damage(features: CameraFeatures) -> Iterator[QualityFinding]:
    if features.failure:
        second = features.seconds[-1] if features.num_frames else 0.0
        lost = max(features.expected_frames - features.num_frames, 0) / features.rate_hz
        yield video_finding(COMPRESSION_DAMAGE, features.camera, second, lost, 1.0)
    elif features.damaged:
        size = len(features.damaged) / features.rate_hz
        yield video_finding(COMPRESSION_DAMAGE, features.camera, features.damaged[0], size, 1.0)
