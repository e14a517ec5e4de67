"""What a workspace holds, in one line or as a small page; bounded work, whatever its size."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ares.curation import Sets
from ares.workspace.display.notebook import best_poster_html
from ares.workspace.episodes import Episodes

if TYPE_CHECKING:
    from ares.store import Stores

# Up to so many episodes, counting the values of a column is not noticed.
_MAX_COUNTED_ROWS = 100_000
_SHOWN_SETS, _POSTERS = 8, 6


def overview_text(stores: Stores) -> str:
    """For example "Workspace('curation': 1,204 episodes, 3 datasets, captions 1,200, sets: sinks, drawers)"."""
    return f"Workspace({stores.path!r}: {', '.join(_parts(stores))})"


def overview_html(stores: Stores) -> str:
    """The same with posters of a few episodes."""
    posters = "".join(best_poster_html(stores, episode) for episode in Episodes(stores).take(_POSTERS))
    return f"<div><p><b>{escape(stores.path)}</b>: {escape(', '.join(_parts(stores)))}</p>{posters}</div>"


def _parts(stores: Stores) -> list[str]:
    table = stores.tables.episodes.snapshot()
    total = table.count()
    parts = [f"{total:,} episodes"]
    if 0 < total <= _MAX_COUNTED_ROWS:
        batches = table.scan(["dataset"])
        datasets = {name for batch in batches for name in batch["dataset"].unique().to_pylist()}
        parts.append(f"{len(datasets)} dataset{'s' if len(datasets) != 1 else ''}")
        if "caption" in table.columns():
            parts.append(f"captions {table.count('caption IS NOT NULL'):,}")
    names = list(Sets(stores.annotations))
    if names:
        more = f" and {len(names) - _SHOWN_SETS} more" if len(names) > _SHOWN_SETS else ""
        parts.append(f"sets: {', '.join(names[:_SHOWN_SETS])}{more}")
    return parts
