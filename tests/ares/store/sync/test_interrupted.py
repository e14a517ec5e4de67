"""The log is cut off after any write to the tables; the next application ends as one that was never cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from ares.store import pin_producers
from ares.store.lance_tables import Tables
from ares.store.log.sqlite import SqliteAnnotationStore
from ares.store.sync import apply, apply as progress
from ares.store.sync.apply import apply_log
from tests.ares.store.sync.histories import Step, Writer, apply_quietly
from tests.ares.store.sync.producers import GUESTS
from tests.ares.store.sync.tables_in_memory import RowsInMemory, StateInMemory, TablesInMemory

_EPISODES: dict[str, bool | None] = {"a": True, "b": False, "c": None}
_WRITES = [
    (RowsInMemory, "set_values"),
    (RowsInMemory, "upsert"),
    (RowsInMemory, "delete"),
    (StateInMemory, "save"),
]


class _Cut(BaseException):
    """The process ends."""


def _step(label: str, episode: int = 0, subject: int = 0, variant: int = 0, value: int = 1) -> Step:
    return Step(
        kind="annotate", label=label, episode=episode, subject=subject, span=1, variant=variant, value=value
    )


# Before the cut run: what is plain then. In it: producers that differ, rulings, conflicts, roll-ups.
_BEFORE = [
    *(_step("caption 1", episode) for episode in range(3)),
    *(_step("grade 1", episode, value=4) for episode in range(3)),
    *(_step("outcome 1", episode, value=episode) for episode in range(3)),
    _step("guest 1", value=8),
]
_CUT = [
    _step("caption 2", 1, value=2),
    _step("grade 2", 1, value=4),
    _step("grade anna", 0, value=3),
    _step("grade anna", 1, value=0),
    _step("caption anna", 2, value=2),
    # The caption of a person that only the second judge has graded.
    _step("grade 2", 2, value=4),
    _step("subtask 1", 0),
    _step("label 1", 0, value=3),
    _step("label 2", 0, value=5),
    _step("outcome 1", 0, variant=4, value=1),
    _step("guest 1", 1, value=8),
    _step("guest 2", 1, value=7),
    _step("visitor 1", 1, value=4),
]


class _Cutter:
    """Cuts a process off after its last allowed write.

    Attributes:
        left: Writes that are still allowed, or None for any number.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        for owner, name in _WRITES:
            monkeypatch.setattr(owner, name, self._counting(getattr(owner, name)))

    def _counting(self, write: Any) -> Any:
        def counted(*arguments: Any) -> None:
            write(*arguments)
            if self.left is not None:
                self.left -= 1
                if self.left == 0:
                    raise _Cut

        return counted


def _played(cutter: _Cutter, writes: int | None) -> tuple[Any, bool]:
    """Rows after a history whose second part was cut off after some writes, and whether it was."""
    store, tables_in_memory = SqliteAnnotationStore(Path(":memory:")), TablesInMemory(_EPISODES)
    tables, writer = cast("Tables", tables_in_memory), Writer(list(_EPISODES), store)
    for steps in (_BEFORE, _CUT):
        for step in steps:
            writer.annotate(step)
        writer.flush()
        if steps is _BEFORE:
            apply_log(tables, store)
            pin_producers(store, {"guest": GUESTS[0].maker_id})
    was_cut = False
    cutter.left = writes
    try:
        apply_quietly(lambda: apply_log(tables, store))
    except _Cut:
        was_cut = True
    cutter.left = None
    apply_quietly(lambda: apply_log(tables, store))
    return (tables_in_memory.episodes.rows, tables_in_memory.segments.rows), was_cut


@pytest.mark.parametrize(("read", "write"), [(10_000, 50_000), (2, 3), (4, 1)])
def test_a_cut_after_any_write_is_mended(monkeypatch: pytest.MonkeyPatch, read: int, write: int) -> None:
    monkeypatch.setattr(progress, "_StateTable", StateInMemory)
    monkeypatch.setattr(apply, "_READ_BATCH", read)
    monkeypatch.setattr(apply, "_WRITE_BATCH", write)
    cutter = _Cutter(monkeypatch)
    expected, _ = _played(cutter, None)
    assert len({row.get("grade_maker") for row in expected[0].values()} - {None}) > 1
    assert any(row.get("conflict") for row in expected[0].values())
    assert any(row.get("disagreement") for row in expected[0].values())
    count = 0
    while True:
        count += 1
        rows, was_cut = _played(cutter, count)
        assert rows == expected, count
        if not was_cut:
            break
    assert count > 9
