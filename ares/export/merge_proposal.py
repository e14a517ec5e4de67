"""Writes the plan of a merge: equal names are the same, and what no name tells is listed, empty."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from ares.curation import Sets
from ares.episode import Role
from ares.errors import RequestError
from ares.export.base import MASK_SIGNALS
from ares.export.merge_apply import unique_names
from ares.export.merge_plan import MergePlan, PaddedKind, PlannedCamera, PlannedSource
from ares.export.retime import round_rate
from ares.store import TempDatabase, ids_filter

if TYPE_CHECKING:
    from ares.curation import CurationSet
    from ares.store import Stores


_BATCH_IDS = 10_000
_COLUMNS = ("episode_id", "format", "dataset", "version", "rate_hz", "rate_source", "instruction", "state_names",
            "action_names", "cameras")  # fmt: skip
_SOURCES = """
SELECT format, dataset, version, rate_hz, rate_source, state_names, action_names,
       list_transform(list_filter(cameras, lambda c: NOT list_contains(c.flags, 'black')),
                      lambda c: struct_pack(name := c.name, role := c.role, width := c.width,
                                            height := c.height)) AS views,
       count(*) AS episodes, min(episode_id) AS example
FROM new_rows GROUP BY ALL
"""
_TEXTS = "SELECT instruction, count(*) AS episodes FROM new_rows WHERE instruction != '' GROUP BY ALL"


@dataclass(slots=True)
class _SourceFacts:
    """What is known of the episodes of one source.

    Attributes:
        key: Format, dataset and version.
        episodes: Their number.
        rates: Rates as they are written, with the number of episodes.
        cameras: Role, width and height of each camera that is not black: the largest.
        names: Every combination of names of dimensions, by "state" and "action", that of most episodes first.
        views: Every combination of names of cameras.
        examples: An episode of each.
    """

    key: tuple[str, str, str]
    episodes: int = 0
    rates: Counter[float] = field(default_factory=Counter)
    cameras: dict[str, tuple[Role, int, int]] = field(default_factory=dict)
    names: dict[PaddedKind, dict[tuple[str, ...], None]] = field(
        default_factory=lambda: {"camera": {}, "state": {}, "action": {}}
    )
    examples: list[str] = field(default_factory=list)

    def dimensions(self, kind: PaddedKind) -> tuple[str, ...]:
        """The names that most of its episodes have."""
        return next(iter(self.names[kind]), ())


def propose_merge_plan(stores: Stores, selection: CurationSet, like: str | None = None) -> MergePlan:
    """The plan of a set's merge into one dataset.

    Args:
        stores: Stores of the workspace.
        selection: The set.
        like: The dataset that gives rate, cameras, their sizes and dimensions; None for the source with most of each.

    Raises:
        RequestError: The set has no members that the workspace has, or no dataset of that name.
    """
    with TempDatabase() as database:
        _collect_rows(database, stores, selection)
        sources = _read_sources(database)
        texts = database.query("SELECT instruction, sum(episodes)::BIGINT AS n FROM texts GROUP BY ALL")
    if not sources:
        raise RequestError("the set has no episodes to merge", selection.label)
    models = [source for source in sources if like in (None, source.key[1])]
    if not models:
        raise RequestError(
            f"the set has no dataset {like!r}", f"there are: {', '.join(s.key[1] for s in sources)}"
        )
    counts = dict(zip(texts["instruction"].to_pylist(), texts["n"].to_pylist(), strict=True))
    state, action = (
        max((model.dimensions(kind) for model in models), key=len) for kind in ("state", "action")
    )
    cameras = _choose_cameras(models)
    rates = {rate for source in sources for rate in source.rates}
    plan = MergePlan(
        set=selection.label,
        fps=max(rate for model in models for rate in model.rates) if len(rates) > 1 else None,
        cameras=cameras,
        state=state,
        action=action,
        tasks=group_equal_texts(counts),
        sources=tuple(_plan_source(source, (tuple(cameras), state, action)) for source in sources),
    )
    return plan.model_copy(update={"masks": _find_masks(stores, plan, sources)})


def _collect_rows(database: TempDatabase, stores: Stores, selection: CurationSet) -> None:
    """Group the rows of a set by source and by text; no row is kept."""
    members = Sets(stores.annotations).members(selection)
    ids = (member.partition(" ")[0] for member in members)
    while batch := list(dict.fromkeys(islice(ids, _BATCH_IDS))):
        rows = stores.tables.episodes.read_columns(_COLUMNS, ids_filter(batch))
        for name, query in (("sources", _SOURCES), ("texts", _TEXTS)):
            database.insert_query(name, query, rows.schema, rows.to_batches())


def _read_sources(database: TempDatabase) -> list[_SourceFacts]:
    """The sources of a set, the one with most episodes first."""
    by_key: dict[tuple[str, str, str], _SourceFacts] = {}
    for row in database.query("SELECT * FROM sources ORDER BY episodes DESC, example").to_pylist():
        key = (row["format"], row["dataset"], row["version"])
        source = by_key.setdefault(key, _SourceFacts(key))
        source.rates[round_rate(row["rate_hz"], is_measured=row["rate_source"] == "measured")] += row[
            "episodes"
        ]
        source.episodes += row["episodes"]
        source.examples.append(row["example"])
        views = row["views"] or ()
        source.names["camera"][tuple(view["name"] for view in views)] = None
        source.names["state"][unique_names(row["state_names"] or ())] = None
        source.names["action"][unique_names(row["action_names"] or ())] = None
        for view in views:
            _keep_larger(source.cameras, view["name"], (view["role"], view["width"], view["height"]))
    return sorted(by_key.values(), key=lambda source: (-source.episodes, source.key))


def _keep_larger(cameras: dict[str, tuple[Role, int, int]], name: str, camera: tuple[Role, int, int]) -> None:
    known = cameras.get(name)
    if known is None or camera[1] * camera[2] > known[1] * known[2]:
        cameras[name] = camera


def _choose_cameras(models: Sequence[_SourceFacts]) -> dict[str, PlannedCamera]:
    """The cameras of the source with most of them, each as large as any source has it."""
    largest: dict[str, tuple[Role, int, int]] = {}
    for model in models:
        for name, camera in model.cameras.items():
            _keep_larger(largest, name, camera)
    names = max((model.cameras for model in models), key=len)
    return {
        name: PlannedCamera(role=role, width=max(width, 2), height=max(height, 2))
        for name in names
        for role, width, height in [largest[name]]
    }


def _plan_source(source: _SourceFacts, targets: tuple[tuple[str, ...], ...]) -> PlannedSource:
    """A source with every name that the merged dataset does not have, empty."""
    format, dataset, version = source.key
    kinds: tuple[PaddedKind, ...] = ("camera", "state", "action")
    cameras, state, action = (
        {name: "" for names in source.names[kind] for name in names if name not in target}
        for kind, target in zip(kinds, targets, strict=True)
    )
    return PlannedSource(
        dataset=dataset, format=format, version=version, cameras=cameras, state=state, action=action
    )


def _find_masks(stores: Stores, plan: MergePlan, sources: Sequence[_SourceFacts]) -> tuple[PaddedKind, ...]:
    """What some source lacks, and what an earlier merge has a mask of already."""
    trajectories = stores.tables.trajectories.read([id for source in sources for id in source.examples])
    earlier = {name for _, trajectory in trajectories for name in trajectory.extra} & {*MASK_SIGNALS}
    return tuple(
        kind
        for kind, goals in plan.targets.items()
        if f"mask.{kind}" in earlier
        or any({*goals} - {*names} for source in sources for names in source.names[kind])
    )


def group_equal_texts(counts: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Texts that are equal but for case and punctuation, by the one of most episodes; groups of several alone."""
    groups: dict[str, list[str]] = {}
    for text in sorted(counts, key=lambda text: (-counts[text], text)):
        groups.setdefault(_plain_words(text), []).append(text)
    return {texts[0]: tuple(texts) for texts in groups.values() if len(texts) > 1}


def _plain_words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold())) or text
