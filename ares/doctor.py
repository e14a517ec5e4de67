"""Doctor: every promise between the stores, checked, and mended where that can be done without a loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ares.checks.copies import check_copies
from ares.checks.documents import check_ledger, check_sets
from ares.checks.files import check_files, check_indexes
from ares.checks.finding import Finding
from ares.checks.log import check_applied, check_segments, check_values, gather
from ares.checks.rows import check_rows, check_vectors
from ares.checks.unfinished import check_unfinished
from ares.media.stamp import REMEDIES
from ares.sources import Relocated, examined, relocate

if TYPE_CHECKING:
    from ares.workspace import Workspace


def examine(ws: Workspace, repair: bool = False) -> list[Finding]:
    """All findings; with `repair`, what can be mended is mended and said to be. A job that writes is waited for."""
    with ws.writing("ares doctor"):
        found = list(_between_stores(ws, repair))
    return found + _sources_as_they_were(ws)


def _between_stores(ws: Workspace, repair: bool) -> Iterator[Finding]:
    from ares.store.scratch import Scratch

    yield from check_indexes(ws, repair)
    yield from check_files(ws, repair)
    behind = list(check_applied(ws, repair))
    yield from behind
    yield from check_unfinished(ws, repair)
    with Scratch() as scratch:
        yield from check_rows(ws, scratch, repair)
        yield from gather(ws, scratch)
        yield from check_vectors(ws, scratch, repair)
        if repair or not behind:  # values that are known to be old say nothing
            yield from check_values(ws, scratch, repair)
            yield from check_segments(ws, scratch, repair)
        yield from check_sets(ws, scratch, repair)
    yield from check_ledger(ws, repair)
    yield from check_copies(ws, repair)


def _sources_as_they_were(ws: Workspace) -> list[Finding]:
    """One finding for each way in which files that episodes need are not what was ingested."""
    return [
        Finding(
            check="each source file is where and what it was: " + reason,
            count=wrong.count,
            example=wrong.first.detail.removesuffix(f"; {REMEDIES.get(reason, '')}"),
            repaired=False,
            remedy=REMEDIES.get(reason, "see to it that the file can be read"),
        )
        for reason, wrong in sorted(examined(ws).items())
    ]


def follow(ws: Workspace, moves: Sequence[tuple[str, str]]) -> list[Finding]:
    """Follow sources that were moved, see `ares.sources.relocate`; what was done and what could not be.

    Raises RequestError when a new place is not there.
    """
    done = relocate(ws, moves)
    found = _followed(done)
    if done.refused is None:
        return [found]
    refused = Finding(
        check="each source file is the same at its new place",
        count=done.refused.count,
        example=str(done.refused.first),
        repaired=False,
        remedy="its episodes were left as they are",
    )
    return [found, refused] if done.moved else [refused]


def _followed(done: Relocated) -> Finding:
    old, new = done.example
    if done.held:
        example = (
            f"the workspace holds copies of the videos of the {done.held} files there, and needs them no more"
        )
    elif done.moved:
        example = f"{old} is {new} now"
    else:
        example = "no file that an episode needs was found there"
    fine = bool(done.moved or done.held)
    return Finding(
        check="each source file is where it was: moved"
        if done.moved or not done.held
        else "nothing to follow",
        count=done.moved,
        example=example,
        repaired=fine,
        remedy="" if fine else "give the old place as `ares show EPISODE_ID` or `ares doctor` tells it",
    )
