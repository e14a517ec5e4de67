"""Draws the world from the side: things on a table, two arms from above."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tests.simulated_world.events import Thing

SIZE, TABLE = 128, 112
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (205, 30, 35),
    "green": (25, 150, 60),
    "blue": (35, 60, 205),
    "yellow": (235, 205, 30),
    "purple": (150, 40, 175),
}
BACKGROUND, WOOD, GRAINS = (232, 232, 232), (96, 96, 96), (255, 140, 0)
ARMS = {"left": (20, 20, 20), "right": (150, 150, 150)}
# Width and height in pixels.
SHAPES = {
    "cube": (12, 12),
    "ball": (13, 13),
    "can": (9, 16),
    "cup": (12, 14),
    "box": (20, 12),
    "bin": (26, 14),
    "bowl": (26, 13),
    "tray": (20, 3),
}


@dataclass(slots=True)
class Placed:
    """A thing where it is now.

    Attributes:
        thing: The thing.
        x: Pixel column of its middle.
        bottom: Pixel row of its lower edge.
        lid: How far its lid is open, 0 to 1.
        is_tilted: Whether it is tilted, as a cup that pours.
    """

    thing: Thing
    x: float
    bottom: float
    lid: float = 0.0
    is_tilted: bool = False


@dataclass(slots=True)
class Picture:
    """All that is drawn.

    Attributes:
        placed: Things, those in front last.
        tips: Column and row of the finger tips of each arm.
        closed: How far each gripper is closed, 0 to 1.
        grains: Column and row of poured grains.
    """

    placed: list[Placed]
    tips: dict[str, tuple[float, float]]
    closed: dict[str, float]
    grains: list[tuple[float, float]] = field(default_factory=list)


def draw(picture: Picture) -> NDArray[np.uint8]:
    """The picture as (128, 128, 3) RGB."""
    pixels = np.full((SIZE, SIZE, 3), BACKGROUND, np.uint8)
    pixels[TABLE:] = WOOD
    for placed in picture.placed:
        _draw_thing(pixels, placed)
    for x, y in picture.grains:
        _fill(pixels, x - 3, y - 2, 6, 5, GRAINS)
    for arm, (x, y) in picture.tips.items():
        _draw_arm(pixels, x, y, picture.closed[arm], ARMS[arm])
    return pixels


def _draw_thing(pixels: NDArray[np.uint8], placed: Placed) -> None:
    width, height = SHAPES[placed.thing.kind]
    if placed.is_tilted:
        width, height = height, width
    left, top, colour = placed.x - width / 2, placed.bottom - height, COLOURS[placed.thing.colour]
    if placed.thing.kind == "ball":
        _fill_disc(pixels, placed.x, placed.bottom - height / 2, height / 2, colour)
    elif placed.thing.kind == "bowl":
        _fill_half_disc(pixels, placed.x, top, width / 2, colour)
    elif placed.thing.kind == "bin":
        _fill(pixels, left, top, 3, height, colour)
        _fill(pixels, left + width - 3, top, 3, height, colour)
        _fill(pixels, left, placed.bottom - 3, width, 3, colour)
    else:
        _fill(pixels, left, top, width, height, colour)
    if placed.thing.kind == "box":
        _fill(pixels, left, top - 4 - 16 * placed.lid, width, 3, colour)


def _draw_arm(
    pixels: NDArray[np.uint8], x: float, y: float, closed: float, colour: tuple[int, int, int]
) -> None:
    gap = 9 - 3 * closed
    _fill(pixels, x - 2, 0, 4, y - 10, colour)
    _fill(pixels, x - gap - 2, y - 12, 2 * gap + 4, 3, colour)
    for side in (-gap - 2, gap):
        _fill(pixels, x + side, y - 12, 2, 12, colour)


def _fill(
    pixels: NDArray[np.uint8],
    left: float,
    top: float,
    width: float,
    height: float,
    colour: tuple[int, int, int],
) -> None:
    rows = slice(max(0, round(top)), max(0, round(top + height)))
    columns = slice(max(0, round(left)), max(0, round(left + width)))
    pixels[rows, columns] = colour


def _fill_disc(
    pixels: NDArray[np.uint8], x: float, y: float, radius: float, colour: tuple[int, int, int]
) -> None:
    rows, columns = np.mgrid[:SIZE, :SIZE]
    pixels[(columns - x + 0.5) ** 2 + (rows - y + 0.5) ** 2 <= radius**2] = colour


def _fill_half_disc(
    pixels: NDArray[np.uint8], x: float, top: float, radius: float, colour: tuple[int, int, int]
) -> None:
    rows, columns = np.mgrid[:SIZE, :SIZE]
    inside = (columns - x + 0.5) ** 2 + (rows - top) ** 2 <= radius**2
    pixels[inside & (rows >= top)] = colour
