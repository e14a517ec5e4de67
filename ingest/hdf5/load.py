"""Loads an HDF5 episode: its arrays by their roles, its rate, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ares.console import count_of
from ares.episode import Json, NotRead, Record, SourceArray
from ares.errors import SourceError
from ares.input import open_hdf5, open_hdf5_object
from ares_ingest.episode_ends import EpisodeEnds
from ares_ingest.hdf5.array_roles import left_out_warnings, match_any, roles_by_layout, roles_by_names
from ares_ingest.hdf5.episode import HDF5Entry, make_record
from ares_ingest.hdf5.facts import EpisodeFacts, add_videos_to_reader, read_facts
from ares_ingest.hdf5.mujoco import name_mujoco_state, simulator_rate_hz
from ares_ingest.hdf5.reader import HDF5EpisodeReader, holds_images
from ares_ingest.hdf5.values import (
    LONGEST_LIST,
    TOO_LONG,
    RowsOfDataset,
    explain_unfit_value,
    find_datasets,
    read_small,
)
from ares_ingest.signals import resolve_rate

if TYPE_CHECKING:
    from ares.episode import RateSource


_CUT_PICTURES = "is not stored (its array holds several episodes: write a file for each)"


def load_hdf5_episode(entry: HDF5Entry) -> Record:
    """Read an episode by its layout, else by the names of its arrays; a spec is applied to its record afterwards.

    Raises SourceError when it is damaged, or has no action where its layout needs one.
    """
    import h5py  # type: ignore[import-untyped]

    with open_hdf5(entry.path) as file:
        group = open_hdf5_object(file, entry.group)
        where = f"{entry.path} {entry.group}".strip()
        if not isinstance(group, h5py.Group):
            raise SourceError("HDF5 link leads nowhere", where)
        datasets = find_datasets(group)
        lost: list[str] = []
        if entry.rows is not None:
            datasets, lost = _take_rows(datasets, entry.rows, entry.file_ends, where)
        facts = read_facts(entry, group, datasets)
        if entry.layout is None:
            steps, roles = roles_by_names(datasets, entry.spec, where)
        else:
            steps, roles = roles_by_layout(facts.layout, datasets, where)
        rate_hz, rate_source = resolve_rate(entry.rate_hz, *known_rate(facts))
        reader = HDF5EpisodeReader(
            entry.path, entry.group, steps, rate_hz, facts.channels(), facts.layout.final_observation
        )
        constants, constant_warnings = _read_constants(facts)
        texts, text_warnings = facts.instructions()
        success, success_source, success_warnings = facts.success()
        simulated = _simulator_names(facts, roles.state)
        cut = [NotRead(f"camera {label} {_CUT_PICTURES}", label) for label in lost]
        reader.warnings += [*facts.warnings, *cut]
        reader.missing += lost
        if entry.file_ends.key:
            reader.arrays.append(SourceArray(key=entry.file_ends.key, use="ends"))
        if entry.layout is None and rate_source == "assumed" and not (entry.spec and entry.spec.timestamps):
            reader.warnings.append(f"rate is not known, {rate_hz:g} Hz assumed (give --rate)")
        reader.warnings += facts.step_count_warnings(steps)
        reader.warnings += constant_warnings
        reader.warnings += [*text_warnings, *success_warnings]
        reader.warnings += left_out_warnings(facts.layout, datasets, {*roles.action, *roles.state})
        cameras = add_videos_to_reader(facts, reader)
        fields = {
            "rate_source": rate_source,
            "robot": facts.robot(),
            "texts": texts,
            "success": success,
            "success_source": success_source,
            "metadata": {**facts.metadata(), **constants},
            "cameras": cameras,
        }
        roles = replace(roles, state_names=simulated or roles.state_names)
        record = make_record(entry, reader, datasets, roles, fields)
    if simulated:
        arrays = (replace(array, names_vary=array.use == "state") for array in record.arrays)
        record = replace(record, arrays=tuple(arrays))
    remark = facts.turn_remark() if record.episode.cameras else ()
    return replace(record, warnings=(*record.warnings, *remark))


def _take_rows(
    datasets: Mapping[str, Any], rows: tuple[int, int], ends: EpisodeEnds, where: str
) -> tuple[dict[str, Any], list[str]]:
    """The datasets with the rows of one episode of those that have all, and the pictures that are left out.

    Raises SourceError where they end before the episode does.
    """
    if rows[1] > ends.steps:
        raise SourceError(
            "arrays end before the episode does",
            f"{where}: {ends.key} says {rows[1]}, there are {count_of(ends.steps, 'row')}",
        )
    parts, lost = dict[str, Any](), list[str]()
    for label, dataset in datasets.items():
        if not (dataset.shape and len(dataset) == ends.steps):
            parts |= {label: dataset} if label != ends.key else {}
        elif holds_images(dataset):
            lost.append(label)
        else:
            parts[label] = RowsOfDataset(dataset, rows)
    return parts, lost


def known_rate(facts: EpisodeFacts) -> tuple[float | None, RateSource]:
    """Steps per second by the source, else by the layout, else by the clock of the simulator; and which it is."""
    layout = facts.layout
    if stated := facts.rate_hz():
        return stated, "source"
    if layout.rate_hz:
        return layout.rate_hz, "format"
    state, model = facts.datasets.get(layout.simulator_state), facts.document["attributes"].get("model_file")
    return simulator_rate_hz(state, model, str(facts.where)), "source"


def _simulator_names(facts: EpisodeFacts, state: Sequence[str]) -> tuple[str, ...]:
    """Names of the state where it is that of the simulator, by its model; () otherwise."""
    key = facts.layout.simulator_state
    if not key or list(state) != [key] or facts.datasets[key].ndim != 2:
        return ()
    model = facts.document["attributes"].get("model_file")
    return name_mujoco_state(model, str(facts.where), facts.datasets[key].shape[1])


def _read_constants(facts: EpisodeFacts) -> tuple[dict[str, Json], list[str]]:
    """What holds for the whole episode, as metadata, and a warning for each array that the metadata cannot hold."""
    constants, warnings = dict[str, Json](), list[str]()
    for label in match_any(facts.layout.constants, facts.datasets):
        array, value = facts.datasets[label], None
        if array.shape is None:
            reason = "it has no value"
        elif array.size > LONGEST_LIST:
            reason = TOO_LONG
        else:
            value = read_small(array)
            reason = explain_unfit_value(value)
        if reason:
            warnings.append(NotRead(f"{label} is not stored ({reason})", label))
        else:
            constants[label] = value
    return constants, warnings
