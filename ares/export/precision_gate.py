"""Which episodes may leave where people must have shown that enough captions are true."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.errors import RequestError
from ares.review import (
    Measurements,
    check_share,
    find_measured_question,
    format_share,
    list_drawings,
    read_measured_shares,
)
from ares.store import batched, ids_filter

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


_CAPTION, _EPISODES_PER_READ = "caption", 10_000


def describe_measured(stores: Stores, episode_ids: Iterable[str]) -> dict[str, Json]:
    """What was measured of each dataset that some episodes are of, by question: the numbers, and "says", the line."""
    if not list_drawings(stores):
        # What could be measured is counted where somebody measures: that reads all captions.
        return {}
    datasets, shares = _list_datasets(stores, episode_ids), read_measured_shares(stores)
    return {
        dataset: {share.question: share.to_json() for share in shares[dataset]}
        for dataset in sorted(datasets & shares.keys())
    }


def keep_measured_episodes(
    stores: Stores, episode_ids: Iterable[str], at_least: float, accepts_refuted: bool = False
) -> list[str]:
    """Those of some episodes whose captions were measured or accepted by people, where the bounds are enough.

    Args:
        stores: Stores of the workspace.
        episode_ids: The episodes; each of their datasets has to be measured.
        at_least: Share of true captions that is asked for.
        accepts_refuted: Whether captions of a refuted judge are among them.

    Raises:
        RequestError: The bound of a dataset is lower: says how many answers are missing.
    """
    ids = list(episode_ids)
    measurements = _read_measurements(stores, at_least)
    measured = _find_measured(stores, measurements, ids, at_least, accepts_refuted)
    return [episode_id for episode_id in ids if episode_id in measured]


def refuse_unmeasured(
    stores: Stores, episode_ids: Iterable[str], at_least: float, accepts_refuted: bool = False
) -> None:
    """Raise RequestError as `keep_measured_episodes`, and for accepted captions that were not measured."""
    ids = list(episode_ids)
    measurements = _read_measurements(stores, at_least)
    measured = _find_measured(stores, measurements, ids, at_least, accepts_refuted)
    rows = measurements.subjects.accepted(accepts_refuted)
    accepted = set(rows["episode_id"].to_pylist()).intersection(ids)
    if others := len(accepted - measured):
        remedy = (
            f"`ares set create NAME --set SET --min-precision {at_least:g}` makes the set of the measured"
        )
        raise RequestError(
            f"{count_of(others, 'accepted caption')} of {len(accepted):,} not measured, as they came later",
            remedy,
        )


def _read_measurements(stores: Stores, at_least: float) -> Measurements:
    """What was measured of captions. Raises RequestError for a share that nothing can show."""
    check_share(at_least)
    return Measurements(stores, find_measured_question(_CAPTION))


def _find_measured(
    stores: Stores, measurements: Measurements, ids: Sequence[str], at_least: float, accepts_refuted: bool
) -> set[str]:
    """The episodes of measured captions in the datasets of some episodes; errors are those of the gate."""
    refusals, measured = list[str](), set[str]()
    for dataset in sorted(_list_datasets(stores, ids)):
        population = measurements.populations.get(dataset)
        if population is None or not population.makers.judge:
            refusals.append(f"{dataset}: no accepted captions")
            continue
        share, drawing = measurements.read(dataset)
        if drawing is None or share.bound < at_least:
            missing, name = share.describe_missing(at_least), shlex.quote(dataset)
            bound = f"at least {format_share(share.bound)} ({count_of(share.answers, 'answer')})"
            now = bound if share.answers else "not measured"
            refusals.append(f"{dataset}: {now}; {missing}: ares review measure {name}")
        else:
            rows = measurements.subjects.measured(drawing, accepts_refuted)
            measured.update(rows["episode_id"].to_pylist())
    if refusals:
        raise RequestError(f"{format_share(at_least)} of true captions is not shown", "; ".join(refusals))
    return measured


def _list_datasets(stores: Stores, episode_ids: Iterable[str]) -> set[str]:
    datasets = set[str]()
    for ids in batched(episode_ids, _EPISODES_PER_READ):
        rows = stores.tables.episodes.read_columns(["dataset"], ids_filter(ids))
        datasets.update(rows["dataset"].unique().to_pylist())
    return datasets
