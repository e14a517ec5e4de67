"""What the player draws of an episode: its cameras, its clock, and plots of grouped signals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from ares.clock import time_tolerance
from ares.episode import Episode, Json, Signal, Trajectory
from ares.signals import classify_by_name
from ares_app.dashboard import cached_reads
from ares_app.dashboard.cards import lost_reason, make_poster_url, make_video_url

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# "kLeftShoulderPitch", "LShoulder", "L_SHOULDER_PITCH" and "left_shoulder.pos" have the same words.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SIDES = {"left": "left", "l": "left", "lft": "left", "right": "right", "r": "right", "rgt": "right"}
_FINGERS = ("thumb", "index", "middle", "ring", "pinky", "little", "finger", "fingers", "palm")
# Part by the words that name it; the first word of a name that is here decides.
_PARTS = {
    **dict.fromkeys(("shoulder", "clavicle", "scapula"), "shoulder"),
    **dict.fromkeys(("elbow", "forearm"), "elbow"),
    **{word: word for word in ("wrist", "gripper", "hip", "knee", "ankle", "arm", "leg")},
    **dict.fromkeys(("hand", *_FINGERS), "hand"),
    **dict.fromkeys(("foot", "toe"), "foot"),
    **dict.fromkeys(("head", "neck"), "head"),
    **dict.fromkeys(("torso", "waist", "trunk", "spine", "chest"), "torso"),
}
# A word that is a part only where nothing else in the name is one: "left_arm_shoulder" is a shoulder.
_WIDE_PARTS = frozenset({"arm", "leg"})
_GLUED = re.compile(
    rf"^(left|right|l|r)?({'|'.join(sorted(_PARTS, key=len, reverse=True))})(pitch|roll|yaw|l|r)?$"
)
_SIGNALS = frozenset(
    ("observation", "state", "action", "actions", "qpos", "pos", "position", "joint", "joints")
)


# What several parts of a body belong to: their dimensions share a plot.
_LIMBS = {
    **dict.fromkeys(("shoulder", "elbow", "wrist", "arm"), "arm"),
    **dict.fromkeys(("hip", "knee", "ankle", "foot", "leg"), "leg"),
}


def group_dimensions(names: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Group dimensions by side and limb, by what they are (gripper, base), or by the first word that several share.

    Returns:
        (group, positions in `names`), in order of first appearance; the group "" has those that share nothing.
    """
    groups = [find_plot_group(name) for name in names]
    words = [split_name_into_words(name) for name in names]
    heads = [split[0] if len(split) > 1 else "" for split in words]
    rest = [head for head, group in zip(heads, groups, strict=True) if not group]
    by_group: dict[str, list[int]] = {}
    for position, group in enumerate(groups):
        shared = heads[position] if rest.count(heads[position]) > 1 else ""
        by_group.setdefault(group or shared, []).append(position)
    # A plot of each dimension says no more than its name.
    return list(by_group.items()) if 1 < len(by_group) < len(names) else [("", list(range(len(names))))]


def find_plot_group(name: str) -> str:
    """Side and limb of a dimension, such as "left arm", "head" or "gripper", or "base"; "" where its name has none."""
    *side, part = find_body_part(name).split() or [""]
    if not part:
        (kind,) = classify_by_name((name,))
        return kind if kind in ("gripper", "base") else ""
    return " ".join([*side, _LIMBS.get(part, part)])


def split_name_into_words(name: str) -> list[str]:
    """Lower-case words of a name, without a leading "k" of a constant, and with words that are glued apart."""
    parts = _WORD.findall(name)
    if len(parts) > 1 and parts[0] == "k":
        parts = parts[1:]
    return [word for part in parts for word in _split_glued_word(part.lower())]


def find_body_part(name: str) -> str:
    """Side and part of the body of a dimension, such as "left shoulder" or "torso"; "" where its name has no part."""
    words = split_name_into_words(name)
    named = [_PARTS[word] for word in words if word in _PARTS]
    narrow = [part for part in named if part not in _WIDE_PARTS]
    side = next((_SIDES[word] for word in words if word in _SIDES), "")
    is_finger = any(word in _FINGERS for word in words)
    if is_finger and not side and "hand" not in words:
        return ""  # "index" and "middle" alone are seldom fingers
    part = "hand" if is_finger else (narrow or named or [""])[0]
    return f"{side} {part}".strip() if part else ""


def short_name(name: str, group: str) -> str:
    """The name of a dimension without what its group says: "pitch" for "kLeftShoulderPitch" of "left shoulder"."""
    terms = set(group.split())
    rest = [
        word
        for word in split_name_into_words(name)
        if word in _FINGERS or not {_SIDES.get(word), _PARTS.get(word), word} & terms
    ]
    rest = [word for word in rest if word not in _SIGNALS]
    return " ".join(rest) if group and rest else name


def make_joint_match_key(name: str) -> tuple[str, ...]:
    """What two dimensions share that are the state and the action of the same joint."""
    words = split_name_into_words(name)
    return tuple(word for word in words if word not in _SIGNALS) or tuple(words)


def _split_glued_word(word: str) -> list[str]:
    """ "lshoulderpitch" as "l", "shoulder", "pitch"; any other word as it is."""
    match = _GLUED.match(word)
    return [part for part in match.groups() if part] if match else [word]


def make_player_source(episode: Episode, trajectory: Trajectory, start: float) -> dict[str, Json]:
    """The cameras and the clock of an episode as a player reads them, with posters of a second."""
    reasons = cached_reads.limited(lambda: [lost_reason(camera) for camera in episode.cameras])
    cameras: list[Json] = [
        {
            "lost": lost,
            "name": camera.name,
            "about": f"{camera.role} · {camera.width}×{camera.height} · {camera.codec}",
            "video": make_video_url(episode, camera.name),
            "poster": make_poster_url(episode, camera.name, start, 640),
            "flags": list(camera.flags),
            "rate": camera.media.rate_hz,
        }
        for camera, lost in zip(episode.cameras, reasons, strict=True)
    ]
    is_uneven = episode.clock_shift_seconds > time_tolerance(episode.rate_hz)
    return {
        "episode": episode.episode_id,
        "dataset": f"{episode.format} {episode.dataset}",
        "duration": episode.duration_seconds,
        "rate": episode.rate_hz,
        # Only where the clock is not even; the player then finds steps and frames by them.
        "stamps": trajectory.timestamps.tolist() if is_uneven else [],
        "paired_by_index": is_uneven and episode.frame_pairing == "index",
        "cameras": cameras,
    }


MOST_POINTS = 2000


def make_signal_plots(trajectory: Trajectory) -> list[Json]:
    """Return state, action and reward as the player draws them.

    The action is drawn over the state where it commands the same dimensions in the same numbers: their names are
    equal, and the action stays nearer to the state than the state or the action ranges.

    Returns:
        One object per plot: title, times (P,) in seconds, groups of lines, and the seconds of a block of which only the
        extremes are drawn, or 0. A line has a name, a label, values (P,), and action (P,) or None; P is at most 2000,
        and a value that is not finite is None. Of blocks it also has their means (P / 2,).
    """
    state, action = trajectory.state, trajectory.action
    pairs = paired_dimensions(state, action) if state and action else {}
    plots = []
    if state and state.names:
        title = "State and action" if pairs else "State"
        plots.append(make_plot(title, trajectory.timestamps, state, action, pairs))
    if action and action.names and len(pairs) < len(action.names):
        rest = [number for number in range(len(action.names)) if number not in pairs.values()]
        unpaired = Signal(values=action.values[:, rest], names=tuple(action.names[number] for number in rest))
        plots.append(make_plot("Action", trajectory.timestamps, unpaired))
    if trajectory.reward is not None and len(set(trajectory.reward.tolist())) > 1:
        reward = Signal(values=trajectory.reward[:, None], names=("reward",))
        plots.append(make_plot("Reward", trajectory.timestamps, reward))
    return list[Json](plots)


def paired_dimensions(state: Signal, action: Signal) -> dict[int, int]:
    """Numbers of the dimensions of a state by those of the action that commands the same in the same numbers.

    Returns:
        Empty where less than half of the dimensions with equal names agree: the action is then a difference, a speed
        or in another unit.
    """
    keys = [make_joint_match_key(name) for name in state.names]
    action_keys = [make_joint_match_key(name) for name in action.names]
    named = {
        number: action_keys.index(key)
        for number, key in enumerate(keys)
        if keys.count(key) == action_keys.count(key) == 1
    }
    near = [
        number
        for number, other in named.items()
        if _are_near(state.values[:, number], action.values[:, other])
    ]
    return named if 2 * len(near) >= len(named) else {}


def _are_near(state: NDArray[np.float32], action: NDArray[np.float32]) -> bool:
    import numpy as np

    finite = np.isfinite(state) & np.isfinite(action)
    if not finite.any():
        return False
    distance = float(np.median(np.abs(state[finite] - action[finite])))
    return distance <= max(float(np.ptp(state[finite])), float(np.ptp(action[finite])), 1e-6)


def thin_values(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the extremes of a long signal, so that no spike of any dimension is lost.

    Args:
        values: (T, D) float32.

    Returns:
        (P, D) float32, P <= 2000. Two rows for every block of steps: the lowest and the highest value that each
        dimension has there; NaN where it has none. The values themselves where T <= 2000.
    """
    import numpy as np

    if len(values) <= MOST_POINTS:
        return values
    finite, starts = np.where(np.isfinite(values), values, np.nan), _block_edges(len(values))[:-1]
    ends = [extreme.reduceat(finite, starts, axis=0) for extreme in (np.fmin, np.fmax)]
    return np.stack(ends, axis=1).reshape(-1, values.shape[1])


def block_means(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean of each block of which `thin_values` has the extremes (P / 2, D); empty where it has all."""
    import numpy as np

    if len(values) <= MOST_POINTS:
        return values[:0]
    is_finite, starts = np.isfinite(values), _block_edges(len(values))[:-1]
    counts = np.add.reduceat(is_finite, starts, axis=0, dtype=np.int64)
    sums = np.add.reduceat(np.where(is_finite, values, 0), starts, axis=0, dtype=np.float64)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).astype(np.float32)


def thin_times(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the seconds (P,) at which `thin_values` is drawn: start and middle of each block, and both ends."""
    import numpy as np

    if len(times) <= MOST_POINTS:
        return times
    edges = np.array(_block_edges(len(times)))
    steps: NDArray[np.int64] = np.stack([edges[:-1], (edges[:-1] + edges[1:]) // 2], axis=1).ravel()
    steps[-1] = len(times) - 1
    return times[steps]


def _block_edges(steps: int) -> list[int]:
    import numpy as np

    return [int(edge) for edge in np.linspace(0, steps, MOST_POINTS // 2 + 1)]


def make_plot(
    title: str,
    times: NDArray[np.float64],
    signal: Signal,
    action: Signal | None = None,
    pairs: Mapping[int, int] = MappingProxyType({}),
) -> dict[str, Json]:
    """One object of `make_signal_plots`; of the action the dimensions that `pairs` has by those of the signal."""
    values, means, drawn = thin_values(signal.values), block_means(signal.values), thin_times(times)
    commanded = thin_values(action.values) if action else values
    commanded_means = block_means(action.values) if action else means
    grouped = group_dimensions(signal.names)
    group_of = {position: group for group, positions in grouped for position in positions}
    lines: list[Json] = [
        {
            "name": name,
            "label": short_name(name, group_of[number]),
            "values": _drawn_values(values, number),
            "mean": _drawn_values(means, number),
            "action": _drawn_values(commanded, pairs.get(number)),
            "action_mean": _drawn_values(commanded_means, pairs.get(number)),
        }
        for number, name in enumerate(signal.names)
    ]
    groups: list[Json] = [
        {"name": name, "lines": [lines[position] for position in positions]} for name, positions in grouped
    ]
    seconds = [round(float(time), 6) for time in drawn]
    # How long the block is of which two points are the extremes; 0 where every step is a point.
    block = 2 * (seconds[-1] - seconds[0]) / len(seconds) if len(drawn) < len(times) else 0.0
    return {"title": title, "times": list[Json](seconds), "groups": groups, "block": block}


def _drawn_values(values: NDArray[np.float32], number: int | None) -> list[Json] | None:
    """A dimension as the player draws it; None without a number, or without values."""
    import numpy as np

    if number is None or not len(values):
        return None
    values = values[:, number]
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]
