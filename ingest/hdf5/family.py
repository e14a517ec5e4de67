"""Loads HDF5 episodes of a known layout: which of their arrays are what, by the layout."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ares.episode import Json, Record
from ares.errors import SourceError
from ares.input import open_hdf5, open_hdf5_object
from ingest.array_episode import choose_complete_labels, guess_array_roles, match_labels, natural_key
from ingest.hdf5.episode import (
    ArrayRoles,
    HDF5Entry,
    count_steps,
    find_steps_key,
    make_record,
    signal_widths,
)
from ingest.hdf5.facts import EpisodeFacts, read_facts, read_video_cameras
from ingest.hdf5.mujoco import name_mujoco_state, simulator_rate_hz
from ingest.hdf5.reader import HDF5EpisodeReader
from ingest.hdf5.values import LONGEST_LIST, find_datasets, keep_small_values, read_child_classes, read_small
from ingest.signals import resolve_rate

if TYPE_CHECKING:
    from ares.episode import RateSource
    from ingest.spec import LayoutSpec


def load_hdf5_episode(entry: HDF5Entry) -> Record:
    """Read an episode by its layout, else by the names of its arrays; a spec is applied to its record afterwards.

    Raises SourceError when it is damaged, or has no action where its layout needs one.
    """
    import h5py  # type: ignore[import-untyped]

    with open_hdf5(entry.path) as file:
        group = open_hdf5_object(file, entry.group)
        if not isinstance(group, h5py.Group):
            raise SourceError("HDF5 link leads nowhere", f"{entry.path} {entry.group}".strip())
        datasets = find_datasets(group)
        facts = read_facts(entry, group, datasets)
        steps, roles = _choose_roles(facts, entry)
        rate_hz, rate_source = resolve_rate(entry.rate_hz, *known_rate(facts))
        reader = HDF5EpisodeReader(
            entry.path, entry.group, steps, rate_hz, facts.channels(), facts.layout.final_observation
        )
        if entry.layout is None and rate_source == "assumed" and not (entry.spec and entry.spec.timestamps):
            facts.warnings.append(f"rate is not known, {rate_hz:g} Hz assumed (give --rate)")
        facts.check_steps(steps)
        constants = _read_constants(facts)
        instructions, (success, success_source) = facts.instructions(), facts.success()
        roles = replace(roles, left_out=roles.left_out | _find_left_out(facts, {*roles.action, *roles.state}))
        simulated = _simulator_names(facts, roles.state)
        reader.warnings += facts.warnings
        fields = {
            "rate_source": rate_source,
            "robot": facts.robot(),
            "texts": instructions,
            "success": success,
            "success_source": success_source,
            "metadata": {**facts.metadata(), **constants},
            "cameras": tuple(read_video_cameras(facts, reader)),
        }
        roles = replace(roles, state_names=simulated or roles.state_names)
        record = make_record(entry, reader, datasets, roles, fields)
    if simulated:
        arrays = (replace(array, names_vary=array.use == "state") for array in record.arrays)
        record = replace(record, arrays=tuple(arrays))
    remark = facts.turn_remark() if record.episode.cameras else ()
    return replace(record, warnings=(*record.warnings, *remark))


def _choose_roles(facts: EpisodeFacts, entry: HDF5Entry) -> tuple[int, ArrayRoles]:
    """The number of steps and the roles of the arrays, by the layout, else by their names. Raises SourceError."""
    layout, datasets, where = facts.layout, facts.datasets, f"{entry.path} {entry.group}".strip()
    if entry.layout is None:
        steps = count_steps(datasets, [find_steps_key(datasets, entry.spec)], where)
        guess = guess_array_roles(signal_widths(datasets, steps))
        return steps, ArrayRoles(action=guess.action, state=guess.state, reward=guess.reward)
    action, state = choose_complete_labels(layout.action, datasets), choose_state(layout, datasets)
    steps = count_steps(datasets, action if layout.needs_action else [*action, *state], where)
    return steps, ArrayRoles(
        action=action,
        state=state,
        action_names=layout.names.get("action", ()),
        state_names=layout.names.get("state", ()),
        reward=layout.reward,
        left_out=frozenset(match_any(layout.constants, datasets)),
        image_names=frozenset(layout.image_names),
    )


def known_rate(facts: EpisodeFacts) -> tuple[float | None, RateSource]:
    """Steps per second by the source, else by the layout, else by the clock of the simulator; and which it is."""
    layout = facts.layout
    if stated := facts.rate_hz():
        return stated, "source"
    if layout.rate_hz:
        return layout.rate_hz, "format"
    state, model = facts.datasets.get(layout.simulator_state), facts.document["attributes"].get("model_file")
    return simulator_rate_hz(state, model, str(facts.where)), "source"


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


def _simulator_names(facts: EpisodeFacts, state: Sequence[str]) -> tuple[str, ...]:
    """Names of the state where it is that of the simulator, by its model; () otherwise."""
    key = facts.layout.simulator_state
    if not key or list(state) != [key] or facts.datasets[key].ndim != 2:
        return ()
    model = facts.document["attributes"].get("model_file")
    return name_mujoco_state(model, str(facts.where), facts.datasets[key].shape[1])


def _read_constants(facts: EpisodeFacts) -> dict[str, Json]:
    """What holds for the whole episode, as metadata where it is small."""
    metadata: dict[str, Json] = {}
    for label in match_any(facts.layout.constants, facts.datasets):
        values = facts.datasets[label]
        is_small = values.shape is not None and values.size <= LONGEST_LIST
        note = keep_small_values({label: read_small(values)}) if is_small else {}
        metadata |= note
        if not note:
            facts.warnings.append(f"{label} is not stored (too long for the metadata)")
    return metadata


def _find_left_out(facts: EpisodeFacts, used: set[str]) -> frozenset[str]:
    """The labels that are not stored; warns of those that hold values which are nowhere else."""
    labels: set[str] = set()
    for pattern, warning in facts.layout.left_out.items():
        matches = set(match_labels(pattern, facts.datasets)) - used
        if warning and any(facts.datasets[label].size for label in matches):
            facts.warnings.append(warning)
        labels |= matches
    for pattern, warning in facts.layout.expected.items():
        if not match_labels(pattern, facts.datasets):
            facts.warnings.append(warning)
    return frozenset(labels)


def list_episodes(file: Any, layout: LayoutSpec) -> dict[str, tuple[str, ...]]:
    """The groups of a file that are episodes, in natural order, with the masks that list each; "" for the file.

    Raises SourceError when the file is damaged.
    """
    import h5py

    if not layout.episodes:
        return {"": ()}
    folder, slash, name = layout.episodes.rpartition("/")
    parts = (
        "[^/]*" if part == "*" else r"\d{1,18}" if part == "{number}" else re.escape(part)
        for part in re.split(r"(\*|\{number\})", name)
    )
    expression = re.compile("".join(parts))
    parent = open_hdf5_object(file, folder)
    if not isinstance(parent, h5py.Group):
        return {}
    # A broken link has the class None: an episode that is missing.
    names = [
        child
        for child, cls in read_child_classes(parent).items()
        if cls in (h5py.Group, None)
        and expression.fullmatch(child)
        and f"{folder}{slash}{child}" != layout.masks
    ]
    masks: dict[str, list[str]] = {child: [] for child in sorted(names, key=natural_key)}
    for mask, members in read_masks(file, layout).items():
        for child in members:
            if child in masks:
                masks[child].append(mask)
    return {f"{folder}{slash}{child}": tuple(of_child) for child, of_child in masks.items()}


def read_masks(file: Any, layout: LayoutSpec) -> dict[str, list[str]]:
    """The names of episodes in each list of the masks. Raises SourceError."""
    import h5py

    group = open_hdf5_object(file, layout.masks) if layout.masks else None
    if not isinstance(group, h5py.Group):
        return {}
    classes = read_child_classes(group)
    values = {
        mask: read_small(open_hdf5_object(group, mask))
        for mask, cls in classes.items()
        if cls is h5py.Dataset
    }
    return {
        mask: [name for name in names if isinstance(name, str)]
        for mask, names in values.items()
        if isinstance(names, list)
    }
