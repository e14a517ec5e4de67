"""The tokens that an image costs, by the family of the model and the size of the image, for estimates."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ares_annotators.models.base import MAX_IMAGE_SIDE

# Of a model that the table does not have.
UNKNOWN_IMAGE_TOKENS = 400


class _ImageRule(BaseModel):
    """One entry of image_tokens.yaml, which says what the fields mean."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pattern: str
    kind: Literal["grid", "rows", "tiles", "fixed"]
    pixels: int = 1
    tokens: int = 0
    most_tiles: int = 1
    least_area: int = 0
    most_area: int = 1_000_000_000
    extra: int = 0
    source: str

    def count(self, height: int, width: int) -> int:
        """Tokens of an image of so many pixels."""
        if self.kind == "grid":
            return self._count_grid(height, width) + self.extra
        if self.kind == "rows":
            return math.ceil(height / self.pixels) * (math.ceil(width / self.pixels) + 1) + self.extra
        if self.kind == "fixed":
            return self.tokens + self.extra
        tiles = _count_tiles(height, width, self.pixels, self.most_tiles)
        return self.tokens * (tiles + (tiles > 1)) + self.extra

    def _count_grid(self, height: int, width: int) -> int:
        rows, columns = max(1, round(height / self.pixels)), max(1, round(width / self.pixels))
        area = rows * columns * self.pixels**2
        if self.least_area <= area <= self.most_area:
            return rows * columns
        is_small = area < self.least_area
        scale = math.sqrt((self.least_area if is_small else self.most_area) / (height * width))
        to_integer = math.ceil if is_small else math.floor
        return to_integer(height * scale / self.pixels) * to_integer(width * scale / self.pixels)


def count_image_tokens(name: str, height: int, width: int) -> int | None:
    """Tokens of an image of so many pixels for a model, by its name; None where the table does not have its family."""
    base_name = name.partition("@")[0].rstrip("/").rpartition("/")[2].lower()
    rule = next((rule for rule in _read_rules() if re.match(rule.pattern, base_name)), None)
    return rule.count(height, width) if rule else None


def estimate_image_tokens(name: str, sizes: Iterable[tuple[int, int]]) -> int:
    """Tokens of the images of one request, for an estimate.

    Args:
        name: Name of the model.
        sizes: (height, width) of each image in pixels, before it is made smaller for the model.
    """
    bounded = (_bounded_size(height, width) for height, width in sizes)
    counts = (count_image_tokens(name, height, width) for height, width in bounded)
    return sum(UNKNOWN_IMAGE_TOKENS if count is None else count for count in counts)


def _bounded_size(height: int, width: int) -> tuple[int, int]:
    scale = min(1.0, MAX_IMAGE_SIDE / max(height, width, 1))
    return max(1, round(height * scale)), max(1, round(width * scale))


def _count_tiles(height: int, width: int, pixels: int, most: int) -> int:
    """Tiles of the grid whose proportions are nearest to those of the image; of two, the larger for large images."""
    grids = [
        (columns, rows)
        for columns in range(1, most + 1)
        for rows in range(1, most + 1)
        if columns * rows <= most
    ]
    best, smallest_difference = (1, 1), math.inf
    for columns, rows in sorted(grids, key=lambda grid: grid[0] * grid[1]):
        difference = abs(width / height - columns / rows)
        is_filled = height * width > 0.5 * pixels**2 * columns * rows
        if difference < smallest_difference or (difference == smallest_difference and is_filled):
            best, smallest_difference = (columns, rows), difference
    return best[0] * best[1]


@cache
def _read_rules() -> tuple[_ImageRule, ...]:
    import yaml

    file = resources.files("ares_annotators.models").joinpath("families", "image_tokens.yaml")
    text = file.read_text(encoding="utf-8")
    return tuple(_ImageRule.model_validate(entry) for entry in yaml.safe_load(text)["images"])
