"""Refresh: the index of a vector table built, extended, measured and replaced while searches go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ares.errors import StoreError
from ares.store import recall
from ares.store.nearest import Nearest
from ares.store.tuning import Setting, Tuning, keep_tuning

if TYPE_CHECKING:
    from lancedb.table import Table

    from ares.store.tables import Tables
    from ares.store.texts import TextTable
    from ares.store.vectors import VectorTable

# Below so many rows exact search takes tens of milliseconds, and no index has to be waited for.
FLAT_ROWS = 50_000
# Growth at which an index is trained again, and at which it is measured again.
_RETRAIN, _REMEASURE = 2.0, 1.2
_KINDS = ("IVF_RQ", "IVF_SQ")


def refresh(
    table: Table,
    look: Callable[[], Nearest],
    flat_rows: int = FLAT_ROWS,
    target: float = recall.TARGET,
) -> Tuning | None:
    """Bring the index of a vector table up to date; until the last step searches use what was there before.

    Args:
        table: The table.
        look: Gives its newest version.
        flat_rows: Rows from which on there is an index.
        target: Recall of the first 20 rows, and episodes, that is promised.

    Returns:
        What holds now, or None for a table so small that it is always searched exactly.
    """
    near = look()
    if near.rows < flat_rows:
        return None
    tuning = near.tuning
    if tuning is None:
        return _rebuild(table, look, target)
    if near.rows >= _RETRAIN * tuning.built_rows or (tuning.kind != "flat" and not near.segments):
        return _rebuild(table, look, target)
    if tuning.kind == "flat":
        return tuning
    _drop_others(table, near, tuning.index)
    return _extend(table, look, tuning, target)


def refresh_all(tables: Tables, tell: Callable[[str], None], flat_rows: int = FLAT_ROWS) -> None:
    """Refresh the index of every vector table; one that fails is told of and searched as before.

    Args:
        tables: The tables of a workspace.
        tell: Takes a line for a person.
        flat_rows: Rows from which on a table has an index.
    """
    spaces: list[tuple[str, VectorTable | TextTable]] = [
        *((space, tables.vectors(space)) for space in tables.spaces()),
        *((f"the texts in {space}", tables.texts(space)) for space in tables.text_spaces()),
    ]
    for space, vectors in spaces:
        state = vectors.state()
        if state.rows >= flat_rows and state.indexed < state.rows:
            tell(f"indexing {state.rows - state.indexed} vectors of {space}; they can be searched meanwhile")
        try:
            tuned = vectors.refresh(flat_rows)
        except StoreError as error:
            tell(f"the index of {space} is as it was: {error}")
            continue
        if tuned and tuned.kind == "flat":
            tell(f"no index finds enough in {space}: its search stays exact, and slow")


def _extend(table: Table, look: Callable[[], Nearest], tuning: Tuning, target: float) -> Tuning:
    """Let the index take in what is new, and measure it again when that is much."""
    near = look()
    if near.tail(near.segments):
        near.writing().optimize.optimize_indices(index_names=[tuning.index])
        near = look()
    if near.rows < _REMEASURE * tuning.rows:
        return tuning
    measured = recall.trial(near, tuning.index, tuning.partitions, seed=near.rows)
    settings = recall.tune(measured, target)
    if not settings:
        return _rebuild(table, look, target)
    return _keep(near, measured, settings, tuning.kind, tuning.built_rows)


def _rebuild(table: Table, look: Callable[[], Nearest], target: float) -> Tuning:
    """Train a new index beside the old one; the old one goes when the new one is measured and found good."""
    near = look()
    partitions = max(16, round(near.rows**0.5))
    for kind in _kinds(near):
        # A name of its own: searches go on with the index that their tuning names.
        name = f"{kind.lower()}_{near.version}"
        table.create_index("vector", config=_config(kind, partitions), name=name, replace=False)
        near = look()
        measured = recall.trial(near, name, partitions, seed=near.rows)
        settings = recall.tune(measured, target)
        if settings:
            kept = _keep(near, measured, settings, kind, near.rows)
            _drop_others(table, look(), name)
            return kept
        table.drop_index(name)
    near = look()
    kept = _tuning(near, "", 0, "flat", near.rows, 0, ())
    keep_tuning(near.writing(), kept)
    _drop_others(table, look(), "")
    return kept


def _keep(
    near: Nearest, measured: recall.Trial, settings: tuple[Setting, ...], kind: str, built_rows: int
) -> Tuning:
    kept = _tuning(
        near, measured.index, measured.partitions, kind, built_rows, len(measured.queries), settings
    )
    keep_tuning(near.writing(), kept)
    return kept


def _tuning(
    near: Nearest,
    index: str,
    partitions: int,
    kind: str,
    built_rows: int,
    queries: int,
    settings: tuple[Setting, ...],
) -> Tuning:
    return Tuning(
        index=index,
        kind=kind,
        partitions=partitions,
        built_rows=built_rows,
        rows=near.rows,
        queries=queries,
        measured=recall.now(),
        settings=settings,
    )


def _kinds(near: Nearest) -> tuple[str, ...]:
    """Kinds of index to try, the cheapest first. IVF_RQ packs eight components into a byte."""
    return _KINDS if near.dataset.schema.field("vector").type.list_size % 8 == 0 else _KINDS[1:]


def _config(kind: str, partitions: int) -> Any:
    from lancedb.index import IvfRq, IvfSq

    if kind == "IVF_RQ":
        # Four bits name the nearest so well that few rows have to be read: docs/why/009-vector-index.md.
        return IvfRq(distance_type="cosine", num_partitions=partitions, num_bits=4)
    return IvfSq(distance_type="cosine", num_partitions=partitions)


def _drop_others(table: Table, near: Nearest, index: str) -> None:
    """Remove the vector indexes that no tuning names, such as one whose maker was killed."""
    for name in near.vector_indices():
        if name != index:
            table.drop_index(name)
