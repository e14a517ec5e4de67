"""Keeps in the log which episodes are copies of each other, so that filters, facets and pages know the groups."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ares.annotation import WITHDRAWN, Annotation, Column, Producer
from ares.curation.copies import CopyPair, LinkedItems, find_copies, read_rows
from ares.store import batched, in_condition, keep_newest_annotations

if TYPE_CHECKING:
    from ares.curation.copies import Copies
    from ares.episode import Json
    from ares.store import Stores


DUPLICATE_GROUP = "duplicate_group"
_PAIRS = "pairs"
_PRODUCER = Producer(
    annotator="near_duplicates",
    version="1",
    columns=(
        Column(
            name=DUPLICATE_GROUP,
            type="string",
            meaning="Near duplicates share it: the smallest id of their group.",
        ),
        Column(
            name="num_duplicates",
            type="int64",
            meaning="Number of other episodes in its group of duplicates.",
        ),
        Column(
            name="duplicate_by",
            type="string",
            meaning="What shows the most similar duplicate: equal content, signals or pixels.",
            choices=("content", "signals", "pixels"),
        ),
        Column(
            name="duplicate_score",
            type="float64",
            meaning="How similar the most similar duplicate is, 1 for an equal one.",
        ),
    ),
)
# Of an episode so many pairs are kept, the most similar ones, beside those that hold its group together.
_PAIRS_PER_EPISODE = 20
# Episodes that are read from the log, or written to it, at once; and those of a group whose pairs are listed.
_AT_ONCE, _LISTED_EPISODES = 5_000, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateGroup:
    """Episodes that hang together by pairs of near duplicates.

    Attributes:
        ids: Their ids, sorted; the first names the group.
        pairs: Pairs of them, the most similar first; of each episode at least one.
    """

    ids: Sequence[str]
    pairs: Sequence[CopyPair]

    @property
    def name(self) -> str:
        """What the column `duplicate_group` has for each of them."""
        return self.ids[0]

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {
            DUPLICATE_GROUP: self.name,
            "ids": [*self.ids],
            _PAIRS: [
                {"first": pair.first, "second": pair.second, "by": pair.way, "score": pair.score}
                for pair in self.pairs
            ],
        }


def keep_duplicate_groups(stores: Stores, ids: Collection[str]) -> tuple[list[DuplicateGroup], Copies]:
    """Find the copies among some episodes, and keep their groups in columns of the episodes.

    What earlier calls have kept of pairs among these episodes is replaced; pairs with other episodes stay, as long as
    both are in the workspace.

    Args:
        stores: Stores of the workspace.
        ids: Ids of the episodes; those that are not in the workspace are left out.

    Returns:
        The groups that have one of these episodes, the largest first, and what was compared.

    Raises:
        StoreError: The log cannot be read or written.
    """
    copies = find_copies(stores, ids)
    with stores.applying("near duplicates"):
        kept = dict(_read_kept_values(stores))
        compared = set(copies.ids)
        groups = group_pairs([*copies.pairs, *_pairs_with_others(stores, kept, compared)])
        _write_changed_values(stores, kept, groups)
    ours = [group for group in groups if not compared.isdisjoint(group.ids)]
    return sorted(ours, key=lambda group: (-len(group.ids), group.name)), copies


def group_pairs(pairs: Iterable[CopyPair]) -> list[DuplicateGroup]:
    """The groups of pairs, by name.

    Of a group all pairs are kept that hold it together, the most similar ones, and of each episode some more.
    """
    ordered = sorted(pairs, key=lambda pair: (-pair.score, pair.way != "content", pair.first, pair.second))
    links = LinkedItems({episode_id for pair in ordered for episode_id in (pair.first, pair.second)})
    counts: Counter[str] = Counter()
    kept: list[CopyPair] = []
    for pair in ordered:
        has_room = max(counts[pair.first], counts[pair.second]) < _PAIRS_PER_EPISODE
        if links.link(pair.first, pair.second) or has_room:
            counts.update((pair.first, pair.second))
            kept.append(pair)
    groups = links.groups()
    group_of = {episode_id: ids[0] for ids in groups for episode_id in ids}
    pairs_of: dict[str, list[CopyPair]] = {}
    for pair in kept:
        pairs_of.setdefault(group_of[pair.first], []).append(pair)
    return [DuplicateGroup(ids=ids, pairs=pairs_of[ids[0]]) for ids in groups]


def list_duplicate_pairs(stores: Stores, group: str) -> list[CopyPair]:
    """The pairs of a group that is kept, the most similar first; none for a group that does not exist.

    Of a group of more than 500 episodes those of the first 500 are listed.

    Args:
        stores: Stores of the workspace.
        group: What `duplicate_group` has.
    """
    if DUPLICATE_GROUP not in stores.tables.episodes.columns():
        return []
    members = stores.tables.episodes.ids(in_condition(DUPLICATE_GROUP, [group]))
    shown = set(sorted(members)[:_LISTED_EPISODES])
    values = dict(_read_values(stores, sorted(shown)))
    pairs = {
        pair
        for episode_id, value in values.items()
        for pair in _pairs_of(episode_id, value)
        if pair.first in shown and pair.second in shown
    }
    return [pair for listed in group_pairs(pairs) for pair in listed.pairs]


def _read_kept_values(stores: Stores) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """What is kept of each episode that is in a group."""
    ids = stores.annotations.find_episodes(_PRODUCER.annotator, _PRODUCER.maker_id)
    for part in batched(ids, _AT_ONCE):
        yield from _read_values(stores, part)


def _read_values(stores: Stores, ids: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Json]]]:
    annotations = stores.annotations.find_annotations(ids, maker_ids=[_PRODUCER.maker_id]) if ids else []
    for annotation in keep_newest_annotations(annotations):
        if not annotation.is_withdrawn:
            yield annotation.episode_id, annotation.value


def _pairs_of(episode_id: str, value: Mapping[str, Json]) -> Iterator[CopyPair]:
    rows = value[_PAIRS]
    assert isinstance(rows, list)
    for row in rows:
        assert isinstance(row, list)
        other, way, score = row
        first, second = sorted((episode_id, str(other)))
        yield CopyPair(first=first, second=second, way=str(way), score=float(str(score)))


def _pairs_with_others(
    stores: Stores, kept: Mapping[str, Mapping[str, Json]], compared: Collection[str]
) -> list[CopyPair]:
    """The pairs that an earlier call has kept, and of which not both were compared now."""
    pairs = {
        pair
        for episode_id, value in kept.items()
        for pair in _pairs_of(episode_id, value)
        if pair.first not in compared or pair.second not in compared
    }
    named = {episode_id for pair in pairs for episode_id in (pair.first, pair.second)} - set(compared)
    if not named:
        return []
    existing = {*compared, *read_rows(stores, sorted(named), [])["episode_id"].to_pylist()}
    return [pair for pair in pairs if pair.first in existing and pair.second in existing]


def _write_changed_values(
    stores: Stores, kept: Mapping[str, Mapping[str, Json]], groups: Iterable[DuplicateGroup]
) -> None:
    """Append what is new of each episode, and take back what is kept of those that are in no group any more."""
    values = {episode_id: value for group in groups for episode_id, value in _values_of(group)}
    changed: dict[str, Mapping[str, Json]] = {
        episode_id: value for episode_id, value in values.items() if kept.get(episode_id) != value
    }
    changed.update((episode_id, WITHDRAWN) for episode_id in kept if episode_id not in values)
    if not changed:
        return
    # One address of each episode, so that the newest revision counts.
    revision, created = time.time_ns(), datetime.now(UTC).isoformat(timespec="seconds")
    stores.annotations.add_producer(_PRODUCER)
    for part in batched(sorted(changed), _AT_ONCE):
        stores.annotations.append(
            [
                Annotation(
                    episode_id=episode_id,
                    name=_PRODUCER.annotator,
                    value=changed[episode_id],
                    maker_id=_PRODUCER.maker_id,
                    subject=episode_id,
                    start_seconds=0.0,
                    stop_seconds=0.0,
                    created=created,
                    revision=revision,
                )
                for episode_id in part
            ]
        )


def _values_of(group: DuplicateGroup) -> Iterator[tuple[str, dict[str, Json]]]:
    """What is kept of each episode of a group: its columns, and its pairs, the most similar first."""
    rows: dict[str, list[Json]] = {}
    for pair in group.pairs:
        rows.setdefault(pair.first, []).append([pair.second, pair.way, pair.score])
        rows.setdefault(pair.second, []).append([pair.first, pair.way, pair.score])
    for episode_id in group.ids:
        best = rows[episode_id][0]
        assert isinstance(best, list)
        yield (
            episode_id,
            {
                DUPLICATE_GROUP: group.name,
                "num_duplicates": len(group.ids) - 1,
                "duplicate_by": best[1],
                "duplicate_score": best[2],
                _PAIRS: rows[episode_id],
            },
        )
