"""How far the tables have followed the log, stored in a table beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ares.store.lance import lance_errors

if TYPE_CHECKING:
    from ares.store.database import Tables

_LOG, _VIEWS, _ACTIONS = "log", "views", "actions"
_MAKER, _MIXED, _PIN, _COUNTED = "maker/", "mixed/", "pin/", "counted/"


@dataclass(slots=True)
class AppliedState:
    """What the tables show.

    Attributes:
        sequence: Sequence number of the log up to which they are complete; 0 before the first annotation.
        views_sequence: The same of the columns that compare makers, which are computed last.
        maker_sequences: Sequence number of the newest applied annotation, by maker_id.
        mixed: Annotators whose columns depend on several annotations of an episode; see `MakerCatalog`.
        pins: The pinned maker_id by annotator.
        actions: Number of the newest applied action; see `ares.store.actions`.
        counted: Sequence number up to which a projection has counted its annotations, by its name; left out where it
            is to count them anew.
    """

    sequence: int = 0
    views_sequence: int = 0
    maker_sequences: dict[str, int] = field(default_factory=dict)
    mixed: set[str] = field(default_factory=set)
    pins: dict[str, str] = field(default_factory=dict)
    actions: int = 0
    counted: dict[str, int] = field(default_factory=dict)

    def to_rows(self) -> dict[str, int]:
        """The state as a number by key."""
        return {
            _LOG: self.sequence,
            _VIEWS: self.views_sequence,
            _ACTIONS: self.actions,
            **{f"{_MAKER}{maker_id}": sequence for maker_id, sequence in self.maker_sequences.items()},
            **{f"{_MIXED}{name}": 1 for name in self.mixed},
            **{f"{_PIN}{name}/{maker_id}": 1 for name, maker_id in self.pins.items()},
            **{f"{_COUNTED}{name}": sequence for name, sequence in self.counted.items()},
        }


def load_applied_state(tables: Tables) -> AppliedState:
    """The state of the tables of a workspace. Raises StoreError when they cannot be read."""
    rows = _StateTable(tables).load()
    pins = (key.removeprefix(_PIN).rpartition("/") for key in rows if key.startswith(_PIN))
    return AppliedState(
        sequence=rows.get(_LOG, 0),
        views_sequence=rows.get(_VIEWS, 0),
        actions=rows.get(_ACTIONS, 0),
        maker_sequences=_numbers_after(rows, _MAKER),
        mixed={key.removeprefix(_MIXED) for key in rows if key.startswith(_MIXED)},
        pins={name: maker_id for name, _, maker_id in pins},
        counted=_numbers_after(rows, _COUNTED),
    )


def _numbers_after(rows: dict[str, int], prefix: str) -> dict[str, int]:
    """The numbers of the keys that start with a prefix, by the rest of the key."""
    return {key.removeprefix(prefix): number for key, number in rows.items() if key.startswith(prefix)}


def save_applied_state(tables: Tables, state: AppliedState) -> None:
    """Store a state; only what has changed is written. Raises StoreError."""
    table = _StateTable(tables)
    before, after = table.load(), state.to_rows()
    # 0 stands for a row that is not there: a table of few rows is not worth a deletion.
    after |= dict.fromkeys(before.keys() - after.keys(), 0)
    table.save({key: number for key, number in after.items() if before.get(key, 0) != number})


def applied_sequence(tables: Tables) -> int:
    """Return the sequence number of the log up to which the tables are complete; 0 before the first annotation."""
    return _StateTable(tables).load().get(_LOG, 0)


def skip_applied(tables: Tables, after: int, until: int, maker_id: str) -> None:
    """Skip the annotations (after, until] of one maker, whose values were written with the rows of their episodes.

    Nothing happens unless the tables are complete up to `after`: then `apply_log` applies them as any others.
    """
    state = load_applied_state(tables)
    if after < until and state.sequence == after:
        if state.views_sequence == after:
            state.views_sequence = until
        state.sequence = state.maker_sequences[maker_id] = until
        save_applied_state(tables, state)


def reset_applied_sequence(tables: Tables) -> None:
    """Let the next `apply_log` start from the first annotation, to repair tables that were lost or recreated."""
    save_applied_state(tables, AppliedState())


def applied_action(tables: Tables) -> int:
    """Return the number of the newest action that the tables show; 0 before the first."""
    return _StateTable(tables).load().get(_ACTIONS, 0)


def reset_applied_actions(tables: Tables) -> None:
    """Let the next `apply_log` apply every action anew: episodes have come that older actions are about."""
    state = load_applied_state(tables)
    state.actions = 0
    save_applied_state(tables, state)


class _StateTable:
    """The Lance table of the state: a number by key."""

    def __init__(self, tables: Tables) -> None:
        import pyarrow as pa

        self._schema = pa.schema([("key", pa.string()), ("sequence", pa.int64())])
        self._table = tables.connection.table("index_state", self._schema)

    def load(self) -> dict[str, int]:
        with lance_errors("index_state"):
            rows = self._table.dataset().to_table().to_pylist()
        return {row["key"]: int(row["sequence"]) for row in rows if row["sequence"]}

    def save(self, rows: dict[str, int]) -> None:
        import pyarrow as pa

        if rows:
            columns = {"key": list(rows), "sequence": list(rows.values())}
            with lance_errors("index_state"):
                self._table.writer.upsert("key", pa.table(columns, schema=self._schema))
