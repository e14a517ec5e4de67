"""What is known of families of models: the tokens that an image costs, and who shares a language model."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from annotators.models.base import MAX_IMAGE_SIDE, model_family
from ares.errors import RequestError, SourceError
from ares.input import parse_yaml

# Of a model that the table does not have.
UNKNOWN_IMAGE_TOKENS = 400
_ROUNDING = 1e-6
# Decimals to which transformers rounds a side in tokens.
_DIGITS = 7


class _ImageRule(BaseModel):
    """One entry of image_tokens.yaml, which says what the fields mean."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pattern: str
    kind: Literal["grid", "rows", "tiles", "enlarged", "padded", "fixed"]
    pixels: int = 1
    tokens: int = 0
    most_tiles: int = 1
    least_area: int = 0
    most_area: int = 1_000_000_000
    long_side: int = 0
    grids: tuple[tuple[int, int], ...] = ()
    extra: int = 0
    source: str

    def count(self, height: int, width: int) -> int:
        """Tokens of an image of so many pixels."""
        if self.kind == "grid":
            return self._count_grid(height, width) + self.extra
        if self.kind == "rows":
            return math.ceil(height / self.pixels) * (math.ceil(width / self.pixels) + 1) + self.extra
        if self.kind == "enlarged":
            return self._count_enlarged(height, width) + self.extra
        if self.kind == "padded":
            return self._count_padded(height, width) + self.extra
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

    def _count_enlarged(self, height: int, width: int) -> int:
        scale = self.long_side / max(height, width)
        # Short sides are rounded down, then up to an even number.
        sides = [int(side * scale + _ROUNDING) for side in (height, width)]
        rows, columns = (max(1, math.ceil((side + side % 2) / self.pixels)) for side in sides)
        # Each tile has two tokens more, and each row of tiles one.
        return rows * columns * (self.tokens + 2) + rows + self.tokens

    def _count_padded(self, height: int, width: int) -> int:
        rows, columns = self._best_grid(height, width)
        tokens_per_side = math.isqrt(self.tokens)
        high, wide = rows * tokens_per_side, columns * tokens_per_side
        # What is padding has no tokens: as much on both sides, in whole tokens.
        if width / height > wide / high:
            high -= (high - int(round(height * (wide / width), _DIGITS))) // 2 * 2
        else:
            wide -= (wide - int(round(width * (high / height), _DIGITS))) // 2 * 2
        return high * (wide + 1) + self.tokens

    def _best_grid(self, height: int, width: int) -> tuple[int, int]:
        """The grid in which the image keeps most of its pixels; of equal ones, that with the least padding."""

        def used_and_wasted(grid: tuple[int, int]) -> tuple[int, int]:
            high, wide = grid[0] * self.pixels, grid[1] * self.pixels
            scale = min(wide / width, high / height)
            used = min(int(width * scale) * int(height * scale), width * height)
            return used, used - high * wide

        return max(self.grids, key=used_and_wasted)


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

    file = resources.files("annotators.models").joinpath("families", "image_tokens.yaml")
    text = file.read_text(encoding="utf-8")
    return tuple(_ImageRule.model_validate(entry) for entry in yaml.safe_load(text)["images"])


# "same": trained from one release of a language model; "lineage": from releases of one family of them.
Closeness = Literal["same", "lineage", ""]


class ModelFamily(NamedTuple):
    """A family of vision-language models.

    Attributes:
        name: Its name ("internvl").
        language_model: Release of the language model that it was trained from ("qwen2.5"), or "" when not known.
    """

    name: str
    language_model: str

    @property
    def lineage(self) -> str:
        """Family of the language model, without the release ("qwen"), or ""."""
        return model_family(self.language_model) if self.language_model else ""


@dataclass(frozen=True, slots=True)
class ModelRelation:
    """What two models have in common.

    Attributes:
        closeness: How close they are; "" for models that are not known to share anything.
        language_model: The release, or the lineage, that they share.
    """

    closeness: Closeness
    language_model: str = ""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    pattern: str
    family: str
    language_model: str
    source: str = ""

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
        return pattern


class _Table(BaseModel):
    """The file table.yaml, and that of a user."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    families: tuple[_Entry, ...]


@cache
def find_family(name: str, file: str = "") -> ModelFamily:
    """The family of a model, by its name.

    Args:
        name: Hub id, folder or name with a fingerprint ("OpenGVLab/InternVL3-8B-hf@0f1e2d3c").
        file: A file of the user, whose entries come before those of the package, or "".

    Raises:
        RequestError: The file cannot be read.
    """
    base_name = name.partition("@")[0].rstrip("/").rpartition("/")[2].lower()
    for entry in (*_read_user_table(file), *_read_table()):
        if re.match(entry.pattern, base_name):
            return ModelFamily(entry.family, entry.language_model)
    return ModelFamily(model_family(base_name), "")


def compare_models(first: Iterable[str], second: Iterable[str], file: str = "") -> ModelRelation:
    """What two models have in common, each known by one or more names; the closest counts.

    Args:
        first: Names of one model: that of its server, and the hub id behind it.
        second: Names of the other.
        file: As for `find_family`. Raises RequestError as it does.
    """
    closest = ModelRelation("")
    for name, other_name in product(first, second):
        family, other_family = find_family(name, file), find_family(other_name, file)
        if family.language_model and family.language_model == other_family.language_model:
            return ModelRelation("same", family.language_model)
        if family.lineage and family.lineage == other_family.lineage:
            closest = ModelRelation("lineage", family.lineage)
    return closest


def find_shared_lineage(families: Iterable[str]) -> str:
    """The family of language models that some language models have in common, or ""."""
    lineages = {model_family(language_model) if language_model else "" for language_model in families}
    return lineages.pop() if len(lineages) == 1 else ""


@cache
def _read_table() -> tuple[_Entry, ...]:
    import yaml

    text = resources.files("annotators.models").joinpath("families", "table.yaml").read_text(encoding="utf-8")
    return _Table.model_validate(yaml.safe_load(text)).families


@cache
def _read_user_table(file: str) -> tuple[_Entry, ...]:
    if not file:
        return ()
    try:
        return _Table.model_validate(parse_yaml(Path(file).expanduser().read_text("utf-8"), file)).families
    except OSError as error:
        raise RequestError(
            "the table of model families cannot be read", f"{file}: {error.strerror}"
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise RequestError(
            "the table of model families is wrong", f"{file}: {field or 'file'}: {first['msg']}"
        ) from None
    except (SourceError, UnicodeDecodeError) as error:
        raise RequestError("the table of model families is no YAML", f"{file}: {error}") from None
