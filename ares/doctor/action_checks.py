"""Checks that the tables show the actions of the log, that these have their members, and that purges are complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.curation import apply_failure_actions, count_pending_purges, finish_purges
from ares.doctor.finding import REPAIR, Finding
from ares.store.actions import ACTION_MEMBERS, read_history, read_members, removed_id_array
from ares.store.filters import batched
from ares.store.sync import (
    NOTES,
    TAGS,
    absent_restored,
    applied_action,
    find_wrong_texts,
    present_removed,
    reset_applied_actions,
)

if TYPE_CHECKING:
    from ares.store import Stores, TempDatabase
    from ares.store.actions import ActionHistory

_CHUNK = 10_000


def check_purges(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find purges that a crash interrupted, and complete them; the caller holds the write lock."""
    pending = count_pending_purges(stores)
    if pending:
        if repair:
            finish_purges(stores)
        yield Finding(
            check="each purge is complete",
            count=pending,
            example="a purge was interrupted before everything was deleted",
            repaired=repair,
            remedy=REPAIR,
        )


def check_actions(stores: Stores, database: TempDatabase, repair: bool) -> Iterator[Finding]:
    """Compare the tables with what the actions of the log say of removed episodes, tags and notes."""
    history = read_history(stores.annotations)
    removed = removed_id_array(stores.annotations, history)
    hidden, absent = present_removed(stores.tables, removed), absent_restored(stores.tables, removed)
    texts = {column: _find_wrong(stores, history, database, column) for column in (TAGS, NOTES)}
    wrong = {
        "no removed episode is in the tables": (len(hidden), hidden.slice(0, 1).to_pylist()),
        "each episode that was brought back is in the tables": (len(absent), absent.slice(0, 1).to_pylist()),
        **{f"the {column} match the log": wrong_texts for column, wrong_texts in texts.items()},
        "the tables show every action": (
            abs(history.last - applied_action(stores.tables)),
            [f"action {history.last}"],
        ),
    }
    if repair and any(count for count, _ in wrong.values()):
        reset_applied_actions(stores.tables)
        stores.sync()
    if repair:
        apply_failure_actions(stores)
    for check, (count, example) in wrong.items():
        if count:
            yield Finding(check=check, count=count, example=str(example[0]), repaired=repair, remedy=REPAIR)
    yield from _check_members(stores, repair)


def _find_wrong(
    stores: Stores, history: ActionHistory, database: TempDatabase, column: str
) -> tuple[int, list[str]]:
    """Number of episodes whose tags or notes differ from the log, and an example."""
    count = find_wrong_texts(stores.tables, stores.annotations, history, database, column)
    if not count:
        return 0, []
    rows = database.query("SELECT * FROM wrong_texts ORDER BY episode_id LIMIT 1").to_pylist()
    database.drop_tables("wrong_texts")
    return count, [f"episode {row['episode_id']}: the log says {row['texts'] or []}" for row in rows]


def _check_members(stores: Stores, repair: bool) -> Iterator[Finding]:
    """Find actions that lack members, and members without an action, which a killed command left."""
    actions = [action for action in read_history(stores.annotations).actions if action.members]
    for action in actions:
        count = sum(len(block) for block in read_members(stores.annotations, action))
        if count != action.count - action.purged:
            yield Finding(
                check=f"action {action.number} has its members",
                count=abs(action.count - action.purged - count),
                example=f"{count} members of {action.count - action.purged}",
                repaired=False,
                remedy="restore the annotations from a backup",
            )
    keys, count, example = {action.members for action in actions}, 0, ""
    members = (key for key, _ in stores.annotations.find_documents(ACTION_MEMBERS))
    for chunk in batched((key for key in members if key.partition("/")[0] not in keys), _CHUNK):
        if repair:
            stores.annotations.drop_documents(ACTION_MEMBERS, chunk)
        count, example = count + len(chunk), example or chunk[0]
    if count:
        yield Finding(
            check="no members without an action", count=count, example=example, repaired=repair, remedy=REPAIR
        )
