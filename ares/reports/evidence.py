"""Shows what a finding looks like: a plot of its signal, and the frames around its second."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from ares.checks import CODES, QualityFinding
from ares.media import frames_at
from ares.signals import EpisodeSignals, paired_dimensions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Camera, Episode


# Seconds before and after the finding.
_OFFSETS = (-1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0)
_HEIGHT = 140
_MOST_CAMERAS = 2


def frame_strip(episode: Episode, finding: QualityFinding) -> bytes:
    """A JPEG with a row of frames for each camera, at most two, or the one that the finding names; b"" without one.

    Frames are those from a second before the finding to a second after. Raises MediaError when one cannot be decoded.
    """
    import numpy as np
    from PIL import Image

    rows = [_camera_row(camera, finding.seconds) for camera in _cameras_of_finding(episode, finding)]
    if not rows:
        return b""
    width = max(row.shape[1] for row in rows)
    padded = [np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0))) for row in rows]
    file = io.BytesIO()
    Image.fromarray(np.concatenate(padded)).save(file, "JPEG", quality=85)
    return file.getvalue()


def _cameras_of_finding(episode: Episode, finding: QualityFinding) -> Sequence[Camera]:
    named = [c for c in episode.cameras if c.name in (finding.dimension, finding.signal)]
    return named or episode.cameras[:_MOST_CAMERAS]


def _camera_row(camera: Camera, second: float) -> NDArray[np.uint8]:
    """(140, W, 3): the frames side by side."""
    import numpy as np
    from PIL import Image

    frames = frames_at(camera.media, [second + offset for offset in _OFFSETS])
    width = max(1, round(frames.shape[2] * _HEIGHT / frames.shape[1]))
    resized = [np.asarray(Image.fromarray(frame).resize((width, _HEIGHT))) for frame in frames]
    return np.concatenate(resized, axis=1)


# Pixels.
# The margin left of a panel holds values such as -1.23e-05.
_WIDTH, _ROW, _TOP, _MARGIN, _GAP = 900, 130, 34, 76, 30
_WHOLE, _DETAIL = 450, 290
_DETAIL_SECONDS = 1.0
_MOST_ROWS = 3
_STYLE = (
    "text{font:12px sans-serif;fill:#222}rect{fill:none;stroke:#bbb}path{fill:none;stroke-width:1.3}"
    ".state{stroke:#1f6fb4}.action{stroke:#d9730d}.finding{stroke:#d11;stroke-dasharray:4 3}"
    ".state-text{fill:#1f6fb4}.action-text{fill:#d9730d}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}rect{stroke:#666}.state{stroke:#6db3f2}.state-text{fill:#6db3f2}}"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlotRow:
    """One row of a plot.

    Attributes:
        label: Name of the dimension.
        state: (T,) values, or None.
        action: (T,) values, or None.
    """

    label: str
    state: NDArray[np.float64] | None
    action: NDArray[np.float64] | None


def plot_finding(signals: EpisodeSignals, finding: QualityFinding, episode: str) -> str:
    """The SVG of a finding: state and action over seconds, with a line at the second of the finding.

    A finding without a dimension shows the three dimensions that move most, or the periods of the clock.
    """
    rows = _plot_rows(signals, finding)
    height = _TOP + len(rows) * (_ROW + _GAP)
    check = CODES[finding.code]
    title = f"{check.code} {check.name}, {episode}, {finding.seconds:g} s, size {finding.size:g} {check.size_unit}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}">',
        f"<style>{_STYLE}</style>",
        f'<text x="8" y="16">{escape(title)}</text>',
        f'<text class="state-text" x="{_WIDTH - 110}" y="16">state</text>',
        f'<text class="action-text" x="{_WIDTH - 60}" y="16">action</text>',
    ]
    for number, row in enumerate(rows):
        parts += _row_svg(signals, row, finding.seconds, _TOP + number * (_ROW + _GAP))
    return "\n".join([*parts, "</svg>\n"])


def _plot_rows(signals: EpisodeSignals, finding: QualityFinding) -> list[PlotRow]:
    import numpy as np

    if finding.signal == "clock":
        periods = np.diff(signals.seconds, append=np.nan)
        return [PlotRow(label="seconds to the next step", state=periods, action=None)]
    pairs = dict(paired_dimensions(signals.state_names, signals.action_names))
    commands = {action: state for state, action in pairs.items()}
    if finding.signal == "action" and finding.dimension in signals.action_names:
        action = signals.action_names.index(finding.dimension)
        return [_make_plot_row(signals, commands.get(action), action)]
    if finding.dimension in signals.state_names:
        state = signals.state_names.index(finding.dimension)
        return [_make_plot_row(signals, state, pairs.get(state))]
    return [_make_plot_row(signals, state, pairs.get(state)) for state in _moving_most(signals)]


def _moving_most(signals: EpisodeSignals) -> list[int]:
    """Dimensions of the state with the largest ranges, paired dimensions first."""
    import numpy as np

    if not signals.state.size:
        return []
    values = np.where(np.isfinite(signals.state), signals.state, 0.0)
    pairs = dict(paired_dimensions(signals.state_names, signals.action_names))
    order = np.argsort(-np.ptp(values, axis=0), kind="stable")
    return sorted(map(int, order), key=lambda number: number not in pairs)[:_MOST_ROWS]


def _make_plot_row(signals: EpisodeSignals, state: int | None, action: int | None) -> PlotRow:
    name = signals.state_names[state] if state is not None else signals.action_names[action or 0]
    return PlotRow(
        label=name,
        state=signals.state[:, state] if state is not None else None,
        action=signals.action[:, action] if action is not None else None,
    )


def _row_svg(signals: EpisodeSignals, row: PlotRow, second: float, top: int) -> Iterator[str]:
    yield f'<text x="{_MARGIN}" y="{top - 4}">{escape(row.label)}</text>'
    start, stop = float(signals.seconds[0]), float(signals.seconds[-1])
    yield from _draw_panel(signals, row, second, (start, stop), (_MARGIN, top, _WHOLE))
    around = (max(start, second - _DETAIL_SECONDS), min(stop, second + _DETAIL_SECONDS))
    yield from _draw_panel(signals, row, second, around, (2 * _MARGIN + _WHOLE, top, _DETAIL))


def _draw_panel(
    signals: EpisodeSignals,
    row: PlotRow,
    second: float,
    span: tuple[float, float],
    box: tuple[int, int, int],
) -> Iterator[str]:
    """A panel of some seconds; `box` is its left, top and width in pixels."""
    import numpy as np

    left, top, width = box
    inside = (signals.seconds >= span[0]) & (signals.seconds <= span[1])
    curves = {"state": row.state, "action": row.action}
    values = [curve[inside] for curve in curves.values() if curve is not None]
    finite = np.concatenate([part[np.isfinite(part)] for part in values]) if values else np.zeros(0)
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    seconds_scale, value_scale = width / max(span[1] - span[0], 1e-9), (_ROW - 8) / max(high - low, 1e-9)
    x = left + (signals.seconds[inside] - span[0]) * seconds_scale
    yield f'<rect x="{left}" y="{top}" width="{width}" height="{_ROW}"/>'
    for name, curve in curves.items():
        if curve is not None:
            y = top + _ROW - 4 - (curve[inside] - low) * value_scale
            yield f'<path class="{name}" d="{_curve_path(x, y, width)}"/>'
    at = left + (second - span[0]) * seconds_scale
    yield f'<path class="finding" d="M{at:.1f} {top}V{top + _ROW}"/>'
    for text, anchor, across, down in (
        (f"{high:.3g}", "end", left - 6, top + 12),
        (f"{low:.3g}", "end", left - 6, top + _ROW),
        (f"{span[0]:.2f} s", "start", left, top + _ROW + 13),
        (f"{span[1]:.2f} s", "end", left + width, top + _ROW + 13),
    ):
        yield f'<text x="{across}" y="{down}" text-anchor="{anchor}">{text}</text>'


def _curve_path(x: NDArray[np.float64], y: NDArray[np.float64], width: int) -> str:
    """The path of a curve, broken where values are not finite, with at most four points for each pixel."""
    import numpy as np

    keep = _points_to_draw(y, 2 * width)
    commands, is_drawn = [], False
    for across, down in zip(x[keep], y[keep], strict=True):
        if np.isfinite(down):
            commands.append(f"{'L' if is_drawn else 'M'}{across:.1f} {down:.1f}")
        is_drawn = bool(np.isfinite(down))
    return "".join(commands)


def _points_to_draw(y: NDArray[np.float64], bins: int) -> NDArray[np.intp]:
    """Numbers of the points to draw: all, or lowest and highest of each bin, and all that are not finite."""
    import numpy as np

    if len(y) <= 2 * bins:
        return np.arange(len(y))
    starts = np.linspace(0, len(y), bins + 1).astype(int)[:-1]
    bin_of = np.searchsorted(starts, np.arange(len(y)), side="right") - 1
    low, high = np.where(np.isfinite(y), y, np.inf), np.where(np.isfinite(y), y, -np.inf)
    is_low = low == np.minimum.reduceat(low, starts)[bin_of]
    is_high = high == np.maximum.reduceat(high, starts)[bin_of]
    return np.flatnonzero(is_low | is_high | ~np.isfinite(y))
