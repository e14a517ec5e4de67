"""Random histories of removals, tags and undos: the tables show what a plain Python model says."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ares.episode import Record
from ares.store import (
    ActionKind,
    new_members_key,
    record_action,
    reset_applied_sequence,
    write_action_members,
)
from ares.store.lance_tables import open_tables
from ares.store.log.sqlite import SqliteAnnotationStore
from ares.store.sync.apply import apply_log

_COUNT = 5
# What is done, the episodes or the number that it is about, and whether the tables follow at once or start over.
_STEP = st.tuples(
    st.sampled_from(["remove", "tag", "untag", "undo", "undo"]),
    st.sets(st.integers(0, _COUNT - 1), min_size=1),
    st.integers(1, 6),
    st.sampled_from(["sync", "wait", "rebuild", "ingest"]),
)


def model(steps: list[tuple[str, set[int], int]]) -> tuple[set[int], set[int]]:
    """Removed and tagged episodes: each undo hides its target, unless it is hidden itself."""
    hidden: set[int] = set()
    for number in range(len(steps), 0, -1):
        kind, _, target = steps[number - 1]
        if kind == "undo" and number not in hidden:
            hidden.add(target)
    removed, tagged = set[int](), set[int]()
    for number, (kind, members, _) in enumerate(steps, 1):
        if number not in hidden:
            removed |= members if kind == "remove" else set()
            tagged = tagged | members if kind == "tag" else tagged - members if kind == "untag" else tagged
    return removed, tagged


@pytest.mark.slow
@given(st.lists(_STEP, min_size=1, max_size=7))
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_tables_show_what_the_model_says(
    make_record: Callable[..., Record], steps: list[tuple[str, set[int], int, str]]
) -> None:
    records = [make_record(number) for number in range(_COUNT)]
    ids = [record.episode.episode_id for record in records]
    log, history = SqliteAnnotationStore(Path(":memory:")), list[tuple[str, set[int], int]]()
    with tempfile.TemporaryDirectory() as folder:
        tables = open_tables(str(Path(folder) / "lance"))
        tables.episodes.add(records)
        for kind, members, target, after in steps:
            number = min(target, len(history))
            if kind == "undo" and not number:
                continue
            history.append((kind, members, number))
            _record(log, kind, [ids[member] for member in sorted(members)], number)
            if after == "rebuild":
                reset_applied_sequence(tables)
            if after != "wait":
                apply_log(tables, log)
            if after == "ingest":
                assert tables.episodes.drop_orphans() == 0, "signals of removed episodes stay"
        apply_log(tables, log)
        removed, tagged = model(history)
        rows = tables.episodes.read_columns(["episode_id"]).to_pylist()
        assert {row["episode_id"] for row in rows} == {ids[n] for n in range(_COUNT) if n not in removed}
        assert set(tables.removed.ids().to_pylist()) == {ids[number] for number in removed}
        with_tag = (
            tables.episodes.ids("array_has(tags, 'a')") if "tags" in tables.episodes.columns() else set()
        )
        assert with_tag == {ids[number] for number in tagged - removed}


def _record(log: SqliteAnnotationStore, kind: str, members: list[str], target: int) -> None:
    kinds: dict[str, ActionKind] = {"remove": "remove", "tag": "tag", "untag": "untag", "undo": "undo"}
    if kind == "undo":
        record_action(log, "undo", "Ann", count=1, details={"undoes": target})
        return
    key = new_members_key()
    count = write_action_members(log, key, list(members))
    record_action(log, kinds[kind], "Ann", count=count, members=key, details={"tag": "a"})
