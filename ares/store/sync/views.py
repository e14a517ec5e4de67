"""Columns that compare the values of several makers, brought up to date after the log has been applied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ares.store.sync.makers import (
    CONFLICT,
    MakerCatalog,
    maker_column,
    needs_current,
    stale_column,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store.database import Tables

# Rows written at once: each write goes through the ids of the whole table.
_WRITE_ROWS = 100_000


def annotators_with_stale_values(catalog: MakerCatalog) -> list[str]:
    """Annotators of which several makers have annotations, and whose values are empty unless they are current."""
    names = {maker.annotator for maker in catalog.makers.values() if needs_current(maker)}
    return sorted(names & catalog.several_makers())


def episodes_to_refresh(tables: Tables, catalog: MakerCatalog, name: str) -> list[str]:
    """Episodes with a value of one annotator whose `stale` column is not what the current maker makes it."""
    columns = ["episode_id", maker_column(name), stale_column(name)]
    wrong: dict[str, None] = {}
    for batch in tables.episodes.scan(columns):
        wrong |= _rows_to_refresh(batch, catalog, name)
    if set(columns) <= tables.segments.columns().keys():
        for batch in tables.segments.scan(columns).to_batches():
            wrong |= _rows_to_refresh(batch, catalog, name)
    return list(wrong)


def _rows_to_refresh(batch: pa.RecordBatch, catalog: MakerCatalog, name: str) -> dict[str, None]:
    import pyarrow.compute as pc

    makers, stale = batch[maker_column(name)], batch[stale_column(name)].fill_null(False)
    is_wrong = pc.equal(_is_current(makers, catalog, name), stale)
    return dict.fromkeys(batch["episode_id"].filter(pc.and_(makers.is_valid(), is_wrong)).to_pylist())


def _is_current(makers: pa.Array, catalog: MakerCatalog, name: str) -> pa.Array:
    """Which values of (N,) maker ids are current."""
    import pyarrow as pa
    import pyarrow.compute as pc

    current = [maker.maker_id for maker in catalog.makers_of([name]) if not catalog.is_stale(maker)]
    return pc.is_in(makers, value_set=pa.array(current, pa.string()))


def refresh_conflicts(tables: Tables, catalog: MakerCatalog) -> None:
    """Write `conflict`: what the source and the makers say of the outcome of an episode, where they differ."""
    import pyarrow as pa

    changed: list[dict[str, Any]] = list(conflict_changes(tables, catalog))
    schema = pa.schema([("episode_id", pa.string()), (CONFLICT, pa.string())])
    for start in range(0, len(changed), _WRITE_ROWS):
        rows = changed[start : start + _WRITE_ROWS]
        tables.episodes.set_values(pa.Table.from_pylist(rows, schema=schema))


def conflict_changes(tables: Tables, catalog: MakerCatalog) -> Iterator[dict[str, Any]]:
    """Rows of episode_id and `conflict`, of the episodes where the column is not what it should be."""
    existing = tables.episodes.columns()
    sources = {"source": "success", **_outcome_columns(catalog, existing)}
    if len(sources) < 2 or CONFLICT not in existing:
        return
    columns = ["episode_id", CONFLICT, *dict.fromkeys(sources.values())]
    for batch in tables.episodes.scan(columns):
        for row in batch.filter(_may_differ(batch, sources)).to_pylist():
            conflict = _conflict({name: row[column] for name, column in sources.items()})
            if conflict != row[CONFLICT]:
                yield {"episode_id": row["episode_id"], CONFLICT: conflict}


def _outcome_columns(catalog: MakerCatalog, existing: dict[str, str]) -> dict[str, str]:
    """The columns that say whether an episode succeeded, by annotator."""
    return {
        maker.annotator: column.name
        for maker in catalog.makers.values()
        for column in maker.columns
        if column.is_outcome and existing.get(column.name) == "bool"
    }


def _may_differ(batch: pa.RecordBatch, sources: dict[str, str]) -> pa.Array:
    """Rows in which one says success and another failure, or a conflict is written."""
    import pyarrow.compute as pc

    any_true, any_false = batch[CONFLICT].is_valid(), batch[CONFLICT].is_valid()
    for column in sources.values():
        any_true = pc.or_(any_true, batch[column].fill_null(False))
        any_false = pc.or_(any_false, pc.invert(batch[column].fill_null(True)))
    return pc.and_(any_true, any_false)


def _conflict(outcomes: dict[str, bool | None]) -> str | None:
    stated = {name: outcome for name, outcome in outcomes.items() if outcome is not None}
    if len(set(stated.values())) < 2:
        return None
    return ", ".join(f"{name}: {'success' if outcome else 'failure'}" for name, outcome in stated.items())
