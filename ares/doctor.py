"""Doctor: every promise between the stores, checked, and mended where that can be done without a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ares.episode import Json

if TYPE_CHECKING:
    from ares.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One promise that is broken.

    Attributes:
        check: Which promise.
        count: How often.
        example: The first case.
        repaired: Whether it is mended now.
        remedy: What to do where `--repair` cannot.
    """

    check: str
    count: int
    example: str
    repaired: bool
    remedy: str

    def to_json(self) -> dict[str, Json]:
        """One element of `ares doctor --json`."""
        return asdict(self)


Check = Callable[["Workspace", bool], Finding | None]


def examine(ws: Workspace, repair: bool = False) -> list[Finding]:
    """All findings; with `repair`, what can be mended is mended first and said to be."""
    checks: list[Check] = [_log_applied, _no_orphans, _spaces_finished, _sources_there]
    if not repair:
        return [finding for check in checks if (finding := check(ws, False))]
    with ws.writing("ares doctor --repair"):
        return [finding for check in checks if (finding := check(ws, True))]


def _log_applied(ws: Workspace, repair: bool) -> Finding | None:
    from ares.store.index import applied_sequence

    behind = ws.annotations.last_sequence() - applied_sequence(ws.tables)
    if behind <= 0:
        return None
    if repair:
        ws.sync()
    return Finding(
        check="the index has applied every annotation",
        count=behind,
        example=f"sequence {ws.annotations.last_sequence()} of the log",
        repaired=repair,
        remedy="ares doctor --repair",
    )


def _no_orphans(ws: Workspace, repair: bool) -> Finding | None:
    orphans = ws.tables.trajectories.count() - ws.tables.episodes.count()
    if orphans == 0:
        return None
    if repair:
        ws.tables.episodes.drop_orphans()
    return Finding(
        check="each episode has one trajectory",
        count=abs(orphans),
        example=f"{ws.tables.trajectories.count()} trajectories, {ws.tables.episodes.count()} episodes",
        repaired=repair and orphans > 0,
        remedy="ares doctor --repair" if orphans > 0 else "ingest the source again into a new workspace",
    )


def _spaces_finished(ws: Workspace, repair: bool) -> Finding | None:
    unfinished = [space for space, _ in ws.annotations.find("unfinished_spaces")]
    if not unfinished:
        return None
    return Finding(
        check="each vector has the fact that it was made",
        count=len(unfinished),
        example=unfinished[0],
        repaired=False,
        remedy="run `ares annotate embed` again; it removes what a killed run left and goes on",
    )


def _sources_there(ws: Workspace, repair: bool) -> Finding | None:
    sources: set[str] = set()
    for batch in ws.tables.episodes.scan(["source"]):
        sources.update(batch.column("source").unique().to_pylist())
    gone = sorted(source for source in sources if not Path(source).exists())
    if not gone:
        return None
    return Finding(
        check="each source file is where it was",
        count=len(gone),
        example=gone[0],
        repaired=False,
        remedy="put the file back, or ingest it again from where it is now",
    )
