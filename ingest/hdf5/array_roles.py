"""Which arrays of an HDF5 episode are what: by the layout of its file, else by their names and shapes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from ares.console import count_are
from ares.episode import NotRead
from ares.errors import SourceError
from ares.io import file_state
from ares_ingest.array_roles import choose_complete_labels, guess_array_roles, match_labels, natural_key
from ares_ingest.episode_ends import count_array_rows, find_steps_key
from ares_ingest.signals import MAX_SIGNAL_WIDTH

if TYPE_CHECKING:
    from ares_ingest.spec import DatasetSpec, LayoutSpec


# No HDF5 filter compresses better than deflate on zeros. A damaged shape could otherwise claim all memory.
_LARGEST_COMPRESSION_RATIO = 1100
_SMALL_BYTES = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRoles:
    """Roles of the arrays of an episode, by label; all other arrays are cameras or extra signals.

    Attributes:
        action: Arrays that make up the action, joined in this order.
        state: Arrays that make up the state, joined in this order.
        action_names: Names of the action's dimensions, used when their number matches.
        state_names: Names of the state's dimensions, used when their number matches.
        reward: Array of the reward, or "".
        left_out: Labels that are not stored.
        image_names: Last parts of labels that every camera has; such a camera is named after its folder.
    """

    action: Sequence[str]
    state: Sequence[str]
    action_names: Sequence[str] = ()
    state_names: Sequence[str] = ()
    reward: str = ""
    left_out: frozenset[str] = frozenset()
    image_names: frozenset[str] = frozenset()


def roles_by_layout(layout: LayoutSpec, datasets: Mapping[str, Any], where: str) -> tuple[int, ArrayRoles]:
    """The number of steps and the roles of the arrays, as a layout says. Raises SourceError as `count_steps` does."""
    action, state = choose_complete_labels(layout.action, datasets), choose_state(layout, datasets)
    if layout.needs_action:
        steps = count_steps(datasets, action, "action", where)
    else:
        steps = count_steps(datasets, [*action, *state], "action and no state", where)
    left_out = (
        label for labels in _match_left_out(layout, datasets, {*action, *state}).values() for label in labels
    )
    return steps, ArrayRoles(
        action=action,
        state=state,
        action_names=layout.names.get("action", ()),
        state_names=layout.names.get("state", ()),
        reward=layout.reward,
        left_out=frozenset([*match_any(layout.constants, datasets), *left_out]),
        image_names=frozenset(layout.image_names),
    )


def roles_by_names(
    datasets: Mapping[str, Any], spec: DatasetSpec | None, where: str
) -> tuple[int, ArrayRoles]:
    """The number of steps and the roles of the arrays, as their names suggest. Raises SourceError for no step."""
    rows = count_array_rows(datasets)
    if not (key := find_steps_key(rows, spec)):
        empty = ", ".join(name for name, count in rows.items() if not count) or "no array of numbers"
        raise SourceError("episode holds no step", f"there is no row in {empty}")
    steps = count_steps(datasets, [key], "array with rows", where)
    guess = guess_array_roles(signal_widths(datasets, steps))
    return steps, ArrayRoles(action=guess.action, state=guess.state, reward=guess.reward)


def left_out_warnings(
    layout: LayoutSpec, datasets: Mapping[str, Any], used: Collection[str]
) -> Iterator[str]:
    """Warnings of arrays that are left out with values which are nowhere else, and of expected ones that are missing.

    Args:
        layout: The layout of the episode.
        datasets: Its datasets.
        used: Labels of the action and the state.
    """
    for pattern, labels in _match_left_out(layout, datasets, used).items():
        warning = layout.left_out[pattern]
        if warning and any(datasets[label].size for label in labels):
            yield NotRead(warning)
    for pattern, warning in layout.expected.items():
        if not match_labels(pattern, datasets):
            yield warning


def _match_left_out(
    layout: LayoutSpec, datasets: Mapping[str, Any], used: Collection[str]
) -> dict[str, set[str]]:
    """The labels that each pattern of the layout leaves out."""
    return {pattern: set(match_labels(pattern, datasets)) - {*used} for pattern in layout.left_out}


def match_any(patterns: Iterable[str], labels: Iterable[str]) -> list[str]:
    """The labels that match one of some patterns."""
    labels = list(labels)
    return list(dict.fromkeys(label for pattern in patterns for label in match_labels(pattern, labels)))


def choose_state(layout: LayoutSpec, labels: Iterable[str]) -> list[str]:
    """The arrays that make up the state: those of one robot after the other, else those of the choices."""
    labels = list(labels)
    matches = [match for label in labels if layout.robots and (match := re.fullmatch(layout.robots, label))]
    of_robots = [match for match in matches if match["name"] in layout.robot_arrays]
    of_robots.sort(
        key=lambda match: (natural_key(match["robot"]), layout.robot_arrays.index(match["name"]), match[0])
    )
    return [match[0] for match in of_robots] or choose_complete_labels(layout.state, labels)


def count_steps(datasets: Mapping[str, Any], labels: Sequence[str], what: str, where: str) -> int:
    """Steps of an episode, which are the rows of the first of some arrays that it has.

    Args:
        datasets: All arrays of the episode.
        labels: The arrays that may say it, such as those of the action.
        what: What they are, for the error: the episode holds none.
        where: The file and the episode.

    Raises SourceError when it has none of them, or no step.
    """
    array = next((datasets[label] for label in labels if label in datasets), None)
    if array is None or array.ndim == 0 or array.dtype.kind not in "biuf":
        raise SourceError(
            f"episode holds no {what}", f"{where}: there are {', '.join(datasets) or 'no arrays'}"
        )
    if not len(array):
        raise SourceError("episode holds no step", where)
    file_bytes = file_state(array.file.filename).size
    if array.nbytes > max(_LARGEST_COMPRESSION_RATIO * file_bytes, _SMALL_BYTES):
        raise SourceError(
            "HDF5 file is cut or damaged",
            f"{where}: {count_are(len(array), 'step')} more than it can hold",
        )
    return len(array)


def signal_widths(datasets: Mapping[str, Any], steps: int) -> dict[str, int]:
    """Numbers per step of each dataset that can be a signal."""
    widths = {
        label: prod(dataset.shape[1:])
        for label, dataset in datasets.items()
        if dataset.shape and dataset.dtype.kind in "biuf" and len(dataset) >= steps and dataset.ndim < 4
    }
    return {label: width for label, width in widths.items() if 0 < width <= MAX_SIGNAL_WIDTH}
