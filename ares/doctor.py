"""Doctor: every promise between the stores, checked, and mended where that can be done without a loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ares.copies import broken, remove, unnamed
from ares.episode import Json
from ares.sources import examined, relocate

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


_REMEDIES = {
    "file is missing": "put it back, or tell where it is now: ares doctor --relocate OLD=NEW",
    "file has changed since it was ingested": "put the old one back, or ingest the new one with --dataset NAME",
}

Check = Callable[["Workspace", bool], Finding | None]


def examine(ws: Workspace, repair: bool = False) -> list[Finding]:
    """All findings; with `repair`, what can be mended is mended first and said to be."""
    checks: list[Check] = [_log_applied, _no_orphans, _spaces_finished, _copies_whole, _copies_named]
    with ws.writing("ares doctor --repair") if repair else nullcontext():
        found = [finding for check in checks if (finding := check(ws, repair))]
    return found + _sources_as_they_were(ws)


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


def _sources_as_they_were(ws: Workspace) -> list[Finding]:
    """One finding for each way in which files that episodes need are not what was ingested."""
    return [
        Finding(
            check="each source file is where and what it was: " + reason,
            count=len(errors),
            example=errors[0].detail,
            repaired=False,
            remedy=_REMEDIES.get(reason, "see the example"),
        )
        for reason, errors in sorted(examined(ws).items())
    ]


def follow(ws: Workspace, moves: Sequence[tuple[str, str]]) -> list[Finding]:
    """Follow sources that were moved, see `ares.sources.relocate`; what was done and what could not be.

    Raises RequestError when a new place is not there.
    """
    done = relocate(ws, moves)
    old, (new, _) = next(iter(done.moved.items()), ("", ("", "")))
    found = Finding(
        check="each source file is where it was: moved",
        count=len(done.moved),
        example=f"{old} is {new} now" if done.moved else "no file that an episode needs was found there",
        repaired=bool(done.moved),
        remedy="" if done.moved else "give the old place as `ares show EPISODE_ID` or `ares doctor` tells it",
    )
    refused = [
        Finding(
            check="each source file is the same at its new place",
            count=len(done.refused),
            example=str(error),
            repaired=False,
            remedy="its episodes were left as they are",
        )
        for error in list(done.refused.values())[:1]
    ]
    return [found, *refused] if done.moved or not refused else refused


def _copies_whole(ws: Workspace, repair: bool) -> Finding | None:
    bad = list(broken(ws))
    if not bad:
        return None
    return Finding(
        check="each copied video is there and whole",
        count=len(bad),
        example=bad[0],
        repaired=False,
        remedy="put it back from a backup, or ingest the source again into a new workspace",
    )


def _copies_named(ws: Workspace, repair: bool) -> Finding | None:
    left = list(unnamed(ws))
    if not left:
        return None
    for folder in left if repair else ():
        remove(folder)
    return Finding(
        check="each folder of copied videos belongs to an episode",
        count=len(left),
        example=str(left[0]),
        repaired=repair,
        remedy="a killed ingestion left them, or one is running now; ares doctor --repair removes them",
    )
