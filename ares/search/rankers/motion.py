"""Ranks episodes by how similarly their robot moves, the trajectory of a signal being one vector."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal

from ares.annotation import short_hash
from ares.errors import RequestError
from ares.search.rankers.base import RankerScores, VectorQuery

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Episode, Signal
    from ares.search.query import Query, QueryPart
    from ares.store import Moment, Stores


SignalKind = Literal["state", "action"]
SIGNAL_KINDS: tuple[SignalKind, ...] = ("state", "action")
SPACE_PREFIX = "motion-"

_NAME = re.compile(r"(?:(.*)[_./ -])?(q?[xyzw]|r[xyz]|roll|pitch|yaw|gripper)", re.IGNORECASE)
_ROTATIONS = (("qx", "qy", "qz", "qw"), ("rx", "ry", "rz"), ("roll", "pitch", "yaw"))
_POSITION = ("x", "y", "z")
_HAND_PREFIXES = {"", "ee", "eef", "pos", "tcp", "end_effector"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalLayout:
    """Meaning of the dimensions of a signal; signals with one layout are comparable whatever their order or names.

    Attributes:
        name: Equal for comparable signals: "xyz-rotation-gripper", or a hash of the names for a signal without a hand.
        numbers: Indices of the columns used unchanged.
        rotations: Column indices of each rotation, in the order of its kind.
        kinds: Kind of each rotation: "qx" quaternion xyzw, "rx" rotation vector, "roll" angles roll, pitch, yaw.
    """

    name: str
    numbers: tuple[int, ...]
    rotations: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]

    @property
    def width(self) -> int:
        """Number of features per sample, W: a rotation has six."""
        return len(self.numbers) + 6 * len(self.rotations)


def name_motion_space(kind: SignalKind, layout: SignalLayout, episode: Episode) -> str:
    """Name of the vector table for comparable signals: of one robot, or of one dataset that names no robot."""
    source = episode.robot or episode.dataset
    slug = re.sub(r"[^a-z0-9]+", "_", source.lower()).strip("_")
    return f"{SPACE_PREFIX}{kind}-{layout.name}-{slug or short_hash(source)}"


def find_signal_layout(names: Sequence[str]) -> SignalLayout | None:
    """The layout of a signal by the names of its dimensions; None without names.

    If there is a hand (x, y, z with or without "ee_" before them), the layout is its position, rotation and gripper.
    Joints are ignored then, so that datasets of one robot can be compared although only some record joints. Without
    a hand every dimension counts, under its name.
    """
    return _cached_layout(tuple(names)) if names else None


@lru_cache(maxsize=1_000)
def _cached_layout(names: tuple[str, ...]) -> SignalLayout:
    parts = [_split_name(name) for name in names]
    hand = {
        suffix: column
        for column, (prefix, suffix) in reversed(list(enumerate(parts)))
        if prefix in _HAND_PREFIXES
    }
    if all(suffix in hand for suffix in _POSITION):
        return _hand_layout(hand)
    return _named_layout(names, parts)


def compute_motion_features(signal: Signal, layout: SignalLayout) -> NDArray[np.float64]:
    """Features (T, W) of a signal: rotations as the first two columns of their matrix, which are continuous
    (Zhou, Barnes, Lu, Yang and Li, "On the continuity of rotation representations", CVPR 2019)."""
    import numpy as np

    values = signal.values.astype(np.float64)
    blocks = [values[:, list(layout.numbers)]]
    for columns, kind in zip(layout.rotations, layout.kinds, strict=True):
        blocks.append(_matrix_columns(values[:, list(columns)], kind))
    return np.concatenate(blocks, axis=1)


def _split_name(name: str) -> tuple[str, str]:
    """Prefix and suffix of a dimension name: ("ee", "x") for "ee_x"; ("joint_1", "") for any other name."""
    match = _NAME.fullmatch(name)
    return ((match[1] or "").lower(), match[2].lower()) if match else (name, "")


def _hand_layout(hand: Mapping[str, int]) -> SignalLayout:
    rotations = [suffixes for suffixes in _ROTATIONS if all(suffix in hand for suffix in suffixes)][:1]
    gripper = [hand["gripper"]] if "gripper" in hand else []
    name = "-".join(["xyz", *("rotation" for _ in rotations), *("gripper" for _ in gripper)])
    return SignalLayout(
        name=name,
        numbers=(*(hand[suffix] for suffix in _POSITION), *gripper),
        rotations=tuple(tuple(hand[suffix] for suffix in suffixes) for suffixes in rotations),
        kinds=tuple(suffixes[0] for suffixes in rotations),
    )


def _named_layout(names: tuple[str, ...], parts: Sequence[tuple[str, str]]) -> SignalLayout:
    column_of = {part: column for column, part in enumerate(parts)}
    prefixes = sorted({prefix for prefix, suffix in parts if suffix})
    rotation_names = [
        (prefix, suffixes)
        for prefix in prefixes
        for suffixes in _ROTATIONS
        if all((prefix, suffix) in column_of for suffix in suffixes)
    ]
    rotations = [
        tuple(column_of[prefix, suffix] for suffix in suffixes) for prefix, suffixes in rotation_names
    ]
    rotation_columns = {column for columns in rotations for column in columns}
    numbers = [column for column in range(len(names)) if column not in rotation_columns]
    numbers.sort(key=lambda column: names[column])
    # The hash is part of the names of stored tables.
    hashed = [names[column] for column in numbers] + [f"{prefix} rotation" for prefix, _ in rotation_names]
    return SignalLayout(
        name=f"names-{short_hash(list(hashed))}",
        numbers=tuple(numbers),
        rotations=tuple(rotations),
        kinds=tuple(suffixes[0] for _, suffixes in rotation_names),
    )


def _matrix_columns(values: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    """First two columns of the rotation matrices, (T, 6)."""
    import numpy as np

    x, y, z, w = {"qx": _unit_quaternions, "rx": _from_vector, "roll": _from_angles}[kind](values).T
    first = (1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w))
    second = (2 * (x * y - z * w), 1 - 2 * (x * x + z * z), 2 * (y * z + x * w))
    return np.stack([*first, *second], axis=1)


def _unit_quaternions(quaternions: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    length = np.linalg.norm(quaternions, axis=1, keepdims=True)
    unit: NDArray[np.float64] = quaternions / np.where(length == 0, 1.0, length)
    return unit


def _from_vector(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quaternions xyzw (T, 4) of rotation vectors: axis times angle."""
    import numpy as np

    angle = np.linalg.norm(vectors, axis=1, keepdims=True)
    # sinc keeps the quotient finite for an angle of 0.
    return np.concatenate([vectors * np.sinc(angle / (2 * np.pi)) / 2, np.cos(angle / 2)], axis=1)


def _from_angles(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quaternions xyzw (T, 4) of roll, pitch and yaw about fixed axes x, y and z."""
    import numpy as np

    (cr, cp, cy), (sr, sp, sy) = np.cos(angles / 2).T, np.sin(angles / 2).T
    parts = (
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    )
    return np.stack(parts, axis=1)


class _MotionRanker:
    query_parts: ClassVar[tuple[QueryPart, ...]] = ("like",)
    signal: ClassVar[SignalKind]

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def encode(self, query: Query) -> list[VectorQuery]:
        """The stored motion vector of the episode. Raises RequestError when it has none."""
        if not query.like.strip():
            return []
        episode = self._stores.tables.episodes.get_episode(query.like)
        layout = find_signal_layout(episode.state_names if self.signal == "state" else episode.action_names)
        if layout is None:
            raise RequestError(
                f"the episode has no {self.signal}", f"{episode.episode_id!r} of {episode.dataset}"
            )
        space = name_motion_space(self.signal, layout, episode)
        vectors = self._stores.tables.vectors(space).read(episode.episode_id).vectors
        if not len(vectors):
            raise RequestError(
                f"the {self.signal} of the episode cannot be compared",
                f"{episode.episode_id!r}; run `ares annotate motion`, which leaves out signals that are not finite",
            )
        return [VectorQuery(space, vectors[0])]

    def rank(self, encoded: VectorQuery, candidates: Collection[str] | None, limit: int) -> Sequence[Moment]:
        """Episodes by cosine similarity of their motion vectors, of which each has one."""
        return self._stores.tables.vectors(encoded.space).search(encoded.vector, limit, candidates)

    def score_episodes(self, encoded: VectorQuery, limit: int) -> RankerScores:
        """The episodes that move most alike; all of them where the vectors have no index."""
        table = self._stores.tables.vectors(encoded.space)
        return RankerScores(*table.score_episodes(encoded.vector, limit), "absolute")


class StateRanker(_MotionRanker):
    """Compares the trajectory of the robot state with that of an episode."""

    signal: ClassVar[SignalKind] = "state"


class ActionRanker(_MotionRanker):
    """Compares the trajectory of the actions with that of an episode."""

    signal: ClassVar[SignalKind] = "action"
