"""Motion: a signal's course as one vector, so that episodes that move alike lie together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ares.annotation import short_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Episode, Json, Signal

Kind = Literal["state", "action"]
KINDS: tuple[Kind, ...] = ("state", "action")
MOTION = "motion-"

# Moments at which a course is looked at, evenly over its duration: slow and quick ways of doing the same are alike.
_STEPS = 32
# Beyond so many robust standard deviations a value is an outlier and says no more than one there.
_CLIP = 4.0
# Interquartile range of a normal distribution, in standard deviations.
_IQR = 1.349
_PART = re.compile(r"(?:(.*)[_./ -])?(q?[xyzw]|r[xyz]|roll|pitch|yaw|gripper)", re.IGNORECASE)
_ROTATIONS = (("qx", "qy", "qz", "qw"), ("rx", "ry", "rz"), ("roll", "pitch", "yaw"))
_POSITION = ("x", "y", "z")
_HAND = {"", "ee", "eef", "pos", "tcp", "end_effector"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the numbers of a signal are read; signals of one layout can be compared whatever their order or names.

    Attributes:
        name: The same for comparable signals: "xyz-rotation-gripper", or a hash of names where there is no hand.
        numbers: Positions of the columns taken as they are.
        rotations: Columns of each rotation, in the order of its kind.
        kinds: Kind of each rotation: "qx" quaternion xyzw, "rx" rotation vector, "roll" angles roll, pitch, yaw.
    """

    name: str
    numbers: tuple[int, ...]
    rotations: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]

    @property
    def width(self) -> int:
        """Features per moment: a rotation takes six."""
        return len(self.numbers) + 6 * len(self.rotations)


def space_name(kind: Kind, layout: Layout, episode: Episode) -> str:
    """Name of the vector table of comparable signals: those of one robot, or of one dataset that names none."""
    who = re.sub(r"[^a-z0-9]+", "_", (episode.robot or episode.dataset).lower()).strip("_")
    return f"{MOTION}{kind}-{layout.name}-{who or short_hash(episode.robot or episode.dataset)}"


def layout_of(names: Sequence[str]) -> Layout | None:
    """The layout of a signal by the names of its dimensions; None for none.

    A hand (x, y, z with or without "ee_" before them) makes the layout: its rotation and gripper belong to it, joints
    do not, so that datasets of one robot can be compared although only some hold its joints. Without one every
    dimension counts, under its name.
    """
    if not names:
        return None
    parts = [_split(name) for name in names]
    hand = {tail: at for at, (prefix, tail) in reversed(list(enumerate(parts))) if prefix in _HAND}
    if all(tail in hand for tail in _POSITION):
        return _hand_layout(hand)
    return _whole_layout(names, parts)


def features(signal: Signal, layout: Layout) -> NDArray[np.float64]:
    """(T, W) numbers to compare: rotations as the first two columns of their matrix, which never jump
    (Zhou, Barnes, Lu, Yang and Li, "On the continuity of rotation representations", CVPR 2019)."""
    import numpy as np

    values = signal.values.astype(np.float64)
    blocks = [values[:, list(layout.numbers)]]
    for columns, kind in zip(layout.rotations, layout.kinds, strict=True):
        blocks.append(_two_columns(values[:, list(columns)], kind))
    return np.concatenate(blocks, axis=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Centre and spread of each feature over a dataset, by median and quartiles.

    Attributes:
        centre: W medians.
        spread: W robust standard deviations; 0 for a feature that never changes, which then says nothing.
    """

    centre: tuple[float, ...]
    spread: tuple[float, ...]

    def to_json(self) -> dict[str, Json]:
        """The document that is kept."""
        return {"centre": list(self.centre), "spread": list(self.spread)}


def scale_from(document: Mapping[str, Json]) -> Scale:
    """The scale of `to_json`."""
    return Scale(centre=tuple(document["centre"]), spread=tuple(document["spread"]))  # type: ignore[arg-type]


def scale_of(rows: NDArray[np.float64]) -> Scale:
    """The scale of the features (N, W) of a sample of steps; rows that are not finite are passed over."""
    import numpy as np

    rows = rows[np.isfinite(rows).all(axis=1)]
    if not len(rows):
        nothing = (0.0,) * rows.shape[1]
        return Scale(centre=nothing, spread=nothing)
    low, centre, high = np.percentile(rows, [25, 50, 75], axis=0)
    robust, plain = (high - low) / _IQR, rows.std(axis=0)
    # A gripper that is open most of the time has no quartiles, but moves.
    spread = np.where(robust > 1e-3 * plain, robust, plain)
    spread[plain <= 1e-6 * np.maximum(1.0, np.abs(centre))] = 0.0
    return Scale(centre=tuple(centre.tolist()), spread=tuple(spread.tolist()))


def course(
    values: NDArray[np.float64], seconds: NDArray[np.float64], scale: Scale
) -> NDArray[np.float32] | None:
    """The unit vector (32 * W + 1,) of a course: resampled in time, scaled robustly, and lifted onto a sphere.

    The last number is a constant before the vector is brought to length 1: the cosine of two courses then falls with
    their distance, also between two that hardly leave the middle, where the cosine alone would compare noise.

    Args:
        values: (T, W) features.
        seconds: (T,) rising.
        scale: Of the dataset.

    Returns:
        None for a course that is not finite.
    """
    import numpy as np

    if not len(values) or not np.isfinite(values).all():
        return None
    at = np.linspace(seconds[0], seconds[-1], _STEPS)
    sampled = np.stack([np.interp(at, seconds, column) for column in values.T], axis=1)
    centre, spread = np.array(scale.centre), np.array(scale.spread)
    steady = spread == 0
    scores = np.clip((sampled - centre) / np.where(steady, 1.0, spread), -_CLIP, _CLIP)
    scores[:, steady] = 0.0
    flat = np.append(scores.ravel() / np.sqrt(scores.size), 1.0)
    unit: NDArray[np.float32] = (flat / np.linalg.norm(flat)).astype(np.float32)
    return unit


def _split(name: str) -> tuple[str, str]:
    found = _PART.fullmatch(name)
    return ((found[1] or "").lower(), found[2].lower()) if found else (name, "")


def _hand_layout(hand: Mapping[str, int]) -> Layout:
    turns = [kind for kind in _ROTATIONS if all(tail in hand for tail in kind)][:1]
    grip = [hand["gripper"]] if "gripper" in hand else []
    name = "-".join(["xyz", *("rotation" for _ in turns), *("gripper" for _ in grip)])
    return Layout(
        name=name,
        numbers=(*(hand[tail] for tail in _POSITION), *grip),
        rotations=tuple(tuple(hand[tail] for tail in kind) for kind in turns),
        kinds=tuple(kind[0] for kind in turns),
    )


def _whole_layout(names: Sequence[str], parts: Sequence[tuple[str, str]]) -> Layout:
    places = {part: at for at, part in enumerate(parts)}
    prefixes = sorted({prefix for prefix, tail in parts if tail})
    turns = [
        (prefix, kind)
        for prefix in prefixes
        for kind in _ROTATIONS
        if all((prefix, tail) in places for tail in kind)
    ]
    rotations = [tuple(places[prefix, tail] for tail in kind) for prefix, kind in turns]
    turned = {at for columns in rotations for at in columns}
    numbers = sorted((at for at in range(len(names)) if at not in turned), key=lambda at: names[at])
    said = [names[at] for at in numbers] + [f"{prefix} rotation" for prefix, _ in turns]
    return Layout(
        name=f"names-{short_hash(list(said))}",
        numbers=tuple(numbers),
        rotations=tuple(rotations),
        kinds=tuple(kind[0] for _, kind in turns),
    )


def _two_columns(values: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    """(T, 6) first two columns of the rotation matrices."""
    import numpy as np

    x, y, z, w = {"qx": _unit, "rx": _from_vector, "roll": _from_angles}[kind](values).T
    first = (1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w))
    second = (2 * (x * y - z * w), 1 - 2 * (x * x + z * z), 2 * (y * z + x * w))
    return np.stack([*first, *second], axis=1)


def _unit(quaternions: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    length = np.linalg.norm(quaternions, axis=1, keepdims=True)
    unit: NDArray[np.float64] = quaternions / np.where(length == 0, 1.0, length)
    return unit


def _from_vector(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T, 4) quaternions xyzw of rotation vectors: axis times angle."""
    import numpy as np

    angle = np.linalg.norm(vectors, axis=1, keepdims=True)
    # sinc keeps the quotient finite where there is no turn.
    return np.concatenate([vectors * np.sinc(angle / (2 * np.pi)) / 2, np.cos(angle / 2)], axis=1)


def _from_angles(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T, 4) quaternions xyzw of roll, pitch and yaw about fixed axes x, y and z."""
    import numpy as np

    (cr, cp, cy), (sr, sp, sy) = np.cos(angles / 2).T, np.sin(angles / 2).T
    parts = (
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    )
    return np.stack(parts, axis=1)
