"""Whatever happens to a log, whenever it is applied, and wherever that is cut off, the tables end as the rules say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from ares.annotation import Annotation
from ares.doctor import run_checks
from ares.episode import Record
from ares.settings import settings_from_environment
from ares.store import Stores, open_stores, pin_producers, reset_applied_sequence
from ares.store.lance.schema import episode_schema
from ares.store.lance_tables import Tables
from ares.store.log.sqlite import SqliteAnnotationStore
from ares.store.sync import apply, apply as progress, shown_values
from ares.store.sync.apply import apply_log
from tests.ares.store.sync.histories import Step, Writer, apply_quietly, histories, play, without_empty
from tests.ares.store.sync.oracle import Oracle, Row
from tests.ares.store.sync.producers import GUESTS, OUTCOMES, PRODUCERS
from tests.ares.store.sync.tables_in_memory import RowsInMemory, StateInMemory, TablesInMemory

_EPISODES: dict[str, bool | None] = {"a": True, "b": False, "c": None}
_PRODUCERS = {producer.maker_id: producer for producer in PRODUCERS}
_SOURCE = {"episode_id", "success", "success_source", "instruction", "instructions"}
_SIZES = st.sampled_from([(10_000, 50_000, 2_000), (3, 5, 1), (1, 1, 2), (4, 1000, 2)])


@pytest.fixture(autouse=True)
def state_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the state of tables in memory with them; that of others is in a Lance table as ever."""
    lance_state = progress._StateTable

    def open_state(tables: Any) -> Any:
        return StateInMemory(tables) if isinstance(tables, TablesInMemory) else lance_state(tables)

    monkeypatch.setattr(progress, "_StateTable", open_state)


@pytest.fixture
def set_sizes(monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[int, int, int]], None]:
    """Sets how much of the log is read and written at once."""

    def set_all(sizes: tuple[int, int, int]) -> None:
        monkeypatch.setattr(apply, "_READ_BATCH", sizes[0])
        monkeypatch.setattr(apply, "_WRITE_BATCH", sizes[1])
        monkeypatch.setattr(shown_values, "_EPISODES_PER_READ", sizes[2])
        monkeypatch.setattr(apply, "_RESOLVE_BATCH", sizes[2])
        monkeypatch.setattr(apply, "_LOOKUP_BATCH", sizes[2])

    return set_all


class _Cut(BaseException):
    """The process ends."""


@pytest.fixture
def cut_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """Lets the process end after so many writes to the tables from now on; None for never."""
    left: list[int | None] = [None]

    def counting(write: Callable[..., None]) -> Callable[..., None]:
        def counted(*arguments: Any) -> None:
            write(*arguments)
            if left[0] is not None:
                left[0] -= 1
                if not left[0]:
                    raise _Cut

        return counted

    for owner, names in ((RowsInMemory, ("set_values", "upsert", "delete")), (StateInMemory, ("save",))):
        for name in names:
            monkeypatch.setattr(owner, name, counting(getattr(owner, name)))
    return partial(left.__setitem__, 0)


_RANDOM = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@_RANDOM
@given(history=histories, sizes=_SIZES)
def test_the_tables_show_what_the_rules_say(
    set_sizes: Callable[[tuple[int, int, int]], None], history: list[Step], sizes: tuple[int, int, int]
) -> None:
    set_sizes(sizes)
    store = SqliteAnnotationStore(Path(":memory:"))
    tables = cast("Tables", memory_tables := TablesInMemory(_EPISODES))

    def rebuild(drop_segments: bool) -> None:
        if drop_segments:
            memory_tables.segments.rows.clear()
        reset_applied_sequence(tables)

    pins = play(history, Writer(list(_EPISODES), store), lambda: apply_log(tables, store), rebuild)
    log = [annotation for _, annotation in store.read()]
    compare_with_rules(log, pins, memory_tables.episodes.rows, memory_tables.segments.rows, _EPISODES)


def test_a_pin_is_followed_where_the_log_has_nothing_new() -> None:
    """The outcome of the pinned producer replaces the other, and `conflict` with it."""
    store, memory_tables = SqliteAnnotationStore(Path(":memory:")), TablesInMemory(_EPISODES)
    tables, writer = cast("Tables", memory_tables), Writer(list(_EPISODES), store)
    for label, value in (("outcome 1", 1), ("outcome 2", 0)):
        writer.annotate(Step("annotate", label, episode=0, subject=0, span=0, variant=0, value=value))
    writer.flush()
    apply_log(tables, store)
    assert memory_tables.episodes.rows["a"].get("conflict") is None
    pins = pin_producers(store, {"outcome": OUTCOMES[0].maker_id})
    apply_log(tables, store)
    assert memory_tables.episodes.rows["a"]["conflict"] == "source: success, outcome: failure"
    log = [annotation for _, annotation in store.read()]
    compare_with_rules(log, pins, memory_tables.episodes.rows, memory_tables.segments.rows, _EPISODES)


def _step(label: str, episode: int = 0, variant: int = 0, value: int = 1) -> Step:
    return Step("annotate", label, episode=episode, subject=0, span=1, variant=variant, value=value)


# Before the cut application: what is plain, and another producer than the pinned one. In it: producers that differ,
# rulings, conflicts, roll-ups, and the caption of a person that only the second judge has graded.
_BEFORE = [
    *(_step("caption 1", episode) for episode in range(3)),
    *(_step("grade 1", episode, value=4) for episode in range(3)),
    *(_step("outcome 1", episode, value=episode) for episode in range(3)),
    _step("guest 1", value=8),
    _step("guest 2", value=4),
]
_CUT = [
    _step("caption 2", 1, value=2), _step("grade 2", 1, value=4), _step("grade anna", 0, value=3),
    _step("grade anna", 1, value=0), _step("caption anna", 2, value=2), _step("grade 2", 2, value=4),
    _step("subtask 1"), _step("label 1", value=3), _step("label 2", value=5), _step("outcome 1", variant=4),
    _step("guest 1", 1, value=8), _step("guest 2", 1, value=7), _step("visitor 1", 1, value=4),
]  # fmt: skip


@pytest.mark.parametrize("sizes", [(10_000, 50_000, 2_000), (2, 3, 2), (4, 1, 2)])
def test_a_cut_after_any_write_is_mended(
    set_sizes: Callable[[tuple[int, int, int]], None],
    cut_after: Callable[[int | None], None],
    sizes: tuple[int, int, int],
) -> None:
    set_sizes(sizes)
    for writes in count(1):
        store, memory_tables = SqliteAnnotationStore(Path(":memory:")), TablesInMemory(_EPISODES)
        tables, writer = cast("Tables", memory_tables), Writer(list(_EPISODES), store)
        for steps in (_BEFORE, _CUT):
            for step in steps:
                writer.annotate(step)
            writer.flush()
            if steps is _BEFORE:
                apply_log(tables, store)
                pins = pin_producers(store, {"guest": GUESTS[0].maker_id})
        cut_after(writes)
        is_cut = False
        try:
            apply_quietly(partial(apply_log, tables, store))
        except _Cut:
            is_cut = True
        cut_after(None)
        apply_quietly(partial(apply_log, tables, store))
        rows = memory_tables.episodes.rows
        log = [annotation for _, annotation in store.read()]
        compare_with_rules(log, pins, rows, memory_tables.segments.rows, _EPISODES)
        if not is_cut:
            break
    assert writes > 9
    assert len({row.get("grade_maker") for row in rows.values()} - {None}) > 1
    assert all(any(row.get(name) for row in rows.values()) for name in ("conflict", "disagreement"))


def compare_with_rules(
    log: list[Annotation],
    pins: dict[str, str],
    episodes: dict[str, Row],
    segments: dict[str, Row],
    successes: dict[str, bool | None],
) -> None:
    """Compare the rows of tables with what the rules say of a log."""
    oracle = Oracle(log, _PRODUCERS, pins, successes)
    shown_episodes = dict(zip(episodes, without_empty(iter(episodes.values()), _SOURCE), strict=True))
    expected = oracle.episodes()
    for key, row in expected.items():
        if shown_episodes[key].get("label_maker") in row.get("label_maker", ()):
            shown_episodes[key]["label_maker"] = row["label_maker"]
    assert shown_episodes == expected
    shown_segments = without_empty(iter(segments.values()), set())
    assert {row["annotation_id"]: row for row in shown_segments} == oracle.segments()


@pytest.fixture
def open_workspace(tmp_path: Path, make_record: Callable[..., Record]) -> Iterator[Callable[[], Stores]]:
    """Opens a new workspace with three episodes."""
    opened: list[Stores] = []

    def open_new() -> Stores:
        stores = open_stores(str(tmp_path / str(len(opened))), settings_from_environment({}))
        opened.append(stores)
        stores.tables.episodes.add([make_record(number) for number in range(3)])
        return stores

    yield open_new
    for stores in opened:
        stores.close()


@pytest.mark.slow
@settings(_RANDOM, max_examples=6, phases=[Phase.explicit, Phase.generate])
@given(history=histories, sizes=_SIZES)
def test_a_workspace_shows_it_too_and_the_doctor_is_content(
    open_workspace: Callable[[], Stores],
    set_sizes: Callable[[tuple[int, int, int]], None],
    history: list[Step],
    sizes: tuple[int, int, int],
) -> None:
    """With SQLite and Lance."""
    set_sizes(sizes)
    stores = open_workspace()
    successes = outcomes(stores.tables)

    def rebuild(drop_segments: bool) -> None:
        if drop_segments and "segments" in stores.tables.connection.table_names():
            stores.tables.connection.drop_table("segments")
            del stores._tables  # it is opened again
        reset_applied_sequence(stores.tables)

    pins = play(history, Writer(list(successes), stores.annotations), stores.sync, rebuild)
    log = [annotation for _, annotation in stores.annotations.read()]
    compare_with_rules(log, pins, *rows_of(stores.tables), successes)
    assert [finding for finding in run_checks(stores) if "source file" not in finding.check] == []


def outcomes(tables: Tables) -> dict[str, bool | None]:
    """The outcome by episode, as the source says."""
    return {row["episode_id"]: row["success"] for row in _rows(tables, ["episode_id", "success"])}


def _rows(tables: Tables, names: list[str]) -> list[Row]:
    return [row for batch in tables.episodes.scan(names) for row in batch.to_pylist()]


def rows_of(tables: Tables) -> tuple[dict[str, Row], dict[str, Row]]:
    """Columns of annotators by episode, and rows of segments by annotation_id."""
    names = set(tables.episodes.columns()) - set(episode_schema().names)
    episodes = {row["episode_id"]: row for row in _rows(tables, ["episode_id", *sorted(names)])}
    return episodes, {row["annotation_id"]: row for row in tables.segments.read().to_pylist()}
