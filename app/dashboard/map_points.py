"""The map as the browser gets it: points of a part of it, their colours, and a picture of the density behind them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ares.episode import Json

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store import EpisodeTable


AXES = ("map_x", "map_y")
# More points than this only cover each other: of more, those with the smallest ids, a fair sample, are sent.
MOST_POINTS = 10_000
# Cells of the picture of the density, across and up.
_CELLS = (160, 120)
# Colours of values; a code behind them is "other values", and one is "no value".
COLOURS, OTHER, MISSING = 9, 9, 255
_SCALE = 254
# The ends of a scale of colours leave out so much of the values on each side.
_TAIL = 0.02
_MARGIN = 0.04


class View(NamedTuple):
    """A part of the map.

    Attributes:
        left: Least x.
        bottom: Least y.
        right: Largest x.
        top: Largest y.
    """

    left: float
    bottom: float
    right: float
    top: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPoints:
    """The episodes of a filter on the map, in columns.

    Attributes:
        x: (N,) NaN where an episode has no place.
        y: (N,)
        ids: (N,) the ids as numbers.
        extent: The part that shows every point, with a margin.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    ids: NDArray[np.uint64]
    extent: View


@dataclass(frozen=True, slots=True, kw_only=True)
class MapColours:
    """The colours of the same episodes, in the same order.

    Attributes:
        codes: (N,) uint8, a colour; `OTHER` and `MISSING` are no values.
        values: Values that have a separate colour by their number, with the number of episodes.
        low: Lowest value of the scale of a column of numbers, else None.
        high: Its highest value.
    """

    codes: NDArray[np.uint8]
    values: tuple[tuple[str, int], ...] = ()
    low: float | None = None
    high: float | None = None


def read_map_points(table: EpisodeTable, where: str) -> MapPoints:
    """Read the episodes of a filter that have a place on the map, batch by batch into 24 bytes each."""
    import numpy as np

    parts = [(np.zeros(0), np.zeros(0), np.zeros(0, np.uint64))]
    for batch in table.scan(["episode_id", *AXES], where):
        x, y = (batch[axis].to_numpy(zero_copy_only=False).astype(np.float64) for axis in AXES)
        digits = "".join(batch["episode_id"].to_pylist())
        parts.append((x, y, np.frombuffer(bytes.fromhex(digits), ">u8").astype(np.uint64)))
    x, y, ids = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    sides = []
    for axis in (x, y):
        finite = axis[np.isfinite(axis)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        margin = _MARGIN * (high - low) or 1.0
        sides.append((low - margin, high + margin))
    (left, right), (bottom, top) = sides
    return MapPoints(x=x, y=y, ids=ids, extent=View(left, bottom, right, top))


def read_map_colours(table: EpisodeTable, where: str, column: str) -> MapColours:
    """Read a column of the same episodes as colours, a byte each."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    values: pa.ChunkedArray = table.read_columns([column], where)[column]
    if pa.types.is_timestamp(values.type):
        values = pc.divide(pc.cast(pc.cast(values, pa.timestamp("us")), pa.int64()), 1_000_000)
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return _scale_colours(pc.cast(values, pa.float64()).to_numpy())
    if pa.types.is_list(values.type):
        # A colour shows one of several tags.
        values = pa.chunked_array(
            [[texts[0] if texts else None for texts in values.to_pylist()]], pa.string()
        )
    encoded = pc.cast(values, pa.string()).combine_chunks().dictionary_encode()
    indices = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
    counts = np.bincount(indices, minlength=len(encoded.dictionary) + 1)
    order = np.argsort(-counts[:-1], kind="stable")
    codes = np.full(len(counts), OTHER, np.uint8)
    codes[order[:COLOURS]] = np.arange(len(order[:COLOURS]))
    codes[-1] = MISSING
    names = encoded.dictionary.to_pylist()
    legend = tuple((str(names[index]), int(counts[index])) for index in order[:COLOURS])
    return MapColours(codes=codes[indices], values=legend)


def _scale_colours(numbers: NDArray[np.float64]) -> MapColours:
    import numpy as np

    finite = np.isfinite(numbers)
    codes = np.full(len(numbers), MISSING, np.uint8)
    if not finite.any():
        return MapColours(codes=codes)
    low, high = (float(end) for end in np.quantile(numbers[finite], (_TAIL, 1 - _TAIL)))
    shares = (numbers[finite] - low) / (high - low) if high > low else np.zeros(finite.sum())
    codes[finite] = np.rint(np.clip(shares, 0, 1) * _SCALE).astype(np.uint8)
    return MapColours(codes=codes, low=low, high=high)


def make_tile(points: MapPoints, colours: MapColours, view: View) -> dict[str, Json]:
    """The points of a part of the map as binary text, and where there are more than are sent, their density.

    Args:
        points: All points.
        colours: Their colours; where an episode was added in between they are those of no value.
        view: The part.
    """
    import numpy as np

    inside = (
        (points.x >= view.left)
        & (points.x <= view.right)
        & (points.y >= view.bottom)
        & (points.y <= view.top)
    )
    rows = np.flatnonzero(inside)
    is_same = len(colours.codes) == len(points.x)
    codes = colours.codes if is_same else np.full(len(points.x), MISSING, np.uint8)
    tile: dict[str, Json] = {"box": list[Json](view), "count": len(rows), "grid": None}
    if len(rows) > MOST_POINTS:
        tile["grid"] = _make_grid(points, codes, rows, view)
        rows = rows[np.argpartition(points.ids[rows], MOST_POINTS)[:MOST_POINTS]]
    tile["positions"] = _to_text(np.stack([points.x[rows], points.y[rows]], axis=1).astype("<f4"))
    tile["codes"] = _to_text(codes[rows])
    tile["ids"] = _to_text(points.ids[rows].astype(">u8"))
    return tile


def _make_grid(
    points: MapPoints, codes: NDArray[np.uint8], rows: NDArray[np.int64], view: View
) -> dict[str, Json]:
    """For each cell how many points it holds, 0 to 255 by logarithm, and the colour of one of them."""
    import numpy as np

    columns, lines = _CELLS
    across = (points.x[rows] - view.left) / ((view.right - view.left) or 1.0) * columns
    up = (points.y[rows] - view.bottom) / ((view.top - view.bottom) or 1.0) * lines
    cells = np.clip(up, 0, lines - 1).astype(np.int32) * columns + np.clip(across, 0, columns - 1).astype(
        np.int32
    )
    counts = np.bincount(cells, minlength=columns * lines)
    colours = np.full(columns * lines, MISSING, np.uint8)
    colours[cells] = codes[rows]
    levels = np.log1p(counts) / np.log1p(max(1, counts.max())) * 255
    return {
        "columns": columns,
        "lines": lines,
        "levels": _to_text(np.ceil(levels).astype(np.uint8)),
        "codes": _to_text(colours),
    }


def _to_text(array: NDArray[np.generic]) -> str:
    return base64.b64encode(array.tobytes()).decode()


def read_ticked_positions(table: EpisodeTable, ids: Sequence[str]) -> str:
    """Places of some episodes as binary text."""
    import numpy as np

    id_list = ", ".join(f"'{episode_id}'" for episode_id in ids)
    where = f"episode_id IN ({id_list}) AND map_x IS NOT NULL"
    rows = table.read_columns(list(AXES), where) if ids else None
    columns = [rows[axis].to_numpy() for axis in AXES] if rows is not None else [np.zeros(0), np.zeros(0)]
    return _to_text(np.stack(columns, axis=1).astype("<f4"))


def parse_view(sides: object) -> View | None:
    """The part of the map that the browser asks for; None for what is none."""
    import math

    if not isinstance(sides, Sequence) or len(sides) != 4:
        return None
    if not all(isinstance(side, int | float) and math.isfinite(side) for side in sides):
        return None
    view = View(*map(float, sides))
    return view if view.left < view.right and view.bottom < view.top else None


def format_corners(corners: object) -> str:
    """The corners that the browser sent as the text of a region; "" for what is none."""
    if not isinstance(corners, Sequence):
        return ""
    pairs = [(corner["x"], corner["y"]) for corner in corners if isinstance(corner, Mapping)]
    return ", ".join(f"{float(x):.6g} {float(y):.6g}" for x, y in pairs)
