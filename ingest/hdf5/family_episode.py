"""Loads an HDF5 episode by the row of its project in the table of families."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ares.episode import Json, Record
from ares.errors import SourceError
from ares.input import open_hdf5, open_hdf5_object
from ingest.hdf5.companions import EpisodeFacts
from ingest.hdf5.episode import ArrayRoles, EpisodeDetails, HDF5Entry, count_steps, make_record
from ingest.hdf5.families import BY_NAME, Family, choose_labels, matching
from ingest.hdf5.reader import HDF5EpisodeReader, find_datasets, read_small, small_values
from ingest.hdf5.videos import video_camera
from ingest.signals import resolve_rate


def load_family_episode(family_name: str, entry: HDF5Entry) -> Record:
    """Read an episode. Raises SourceError when it is damaged, or has no action where its project always has one."""
    import h5py  # type: ignore[import-untyped]

    family = BY_NAME[family_name]
    where = f"{entry.path} {entry.group}".strip()
    with open_hdf5(entry.path) as file:
        group = open_hdf5_object(file, entry.group)
        if not isinstance(group, h5py.Group):
            raise SourceError("episode is no group of the file", where)
        datasets = find_datasets(group)
        action = choose_labels(family.action, datasets)
        state = choose_labels(family.state, datasets)
        steps = count_steps(datasets, action if family.needs_action else [*action, *state], where)
        facts = family.facts(entry, group, datasets)
        rate_hz, rate_source = resolve_rate(
            entry.rate_hz, facts.rate_hz or family.rate_hz, "source" if facts.rate_hz else "format"
        )
        reader = HDF5EpisodeReader(
            entry.path,
            entry.group,
            steps,
            rate_hz,
            facts.channels or family.channels,
            family.has_final_observation,
        )
        reader.warnings += facts.warnings
        constants = _constants(family, datasets)
        roles = ArrayRoles(
            action=action,
            state=state,
            reward=family.reward,
            left_out=_left_out(family, datasets, {*action, *state}, reader) | frozenset(constants),
            image_names=family.image_names,
        )
        return make_record(entry, reader, datasets, roles, _details(facts, rate_source, constants, reader))


def _details(
    facts: EpisodeFacts, rate_source: Any, constants: Mapping[str, Json], reader: HDF5EpisodeReader
) -> EpisodeDetails:
    cameras = [video_camera(name, role, str(path), reader) for name, role, path in facts.videos]
    return EpisodeDetails(
        rate_source=rate_source,
        robot=facts.robot,
        instructions=facts.instructions,
        success=facts.success,
        success_source=facts.success_source,
        metadata={**facts.metadata, **constants},
        cameras=tuple(camera for camera in cameras if camera),
    )


def _constants(family: Family, datasets: Mapping[str, Any]) -> dict[str, Json]:
    labels = [label for pattern in family.constants for label in matching(pattern, datasets)]
    return small_values({label: read_small(datasets[label]) for label in labels})


def _left_out(
    family: Family, datasets: Mapping[str, Any], used: set[str], reader: HDF5EpisodeReader
) -> frozenset[str]:
    """The labels that are not stored; warns of those that hold values which are nowhere else."""
    labels: set[str] = set()
    for pattern, warning in family.left_out.items():
        matches = set(matching(pattern, datasets)) - used
        if warning and any(datasets[label].size for label in matches):
            reader.warnings.append(warning)
        labels |= matches
    return frozenset(labels)
