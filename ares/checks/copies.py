"""Copies: the videos that a workspace keeps itself are whole, and each belongs to an episode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.checks.finding import Finding
from ares.copies import broken, remove, unnamed

if TYPE_CHECKING:
    from ares.workspace import Workspace


def check_copies(ws: Workspace, repair: bool) -> Iterator[Finding]:
    """Copies that episodes name, and folders of copies that none does."""
    count, first = 0, ""
    for bad in broken(ws):
        count, first = count + 1, first or bad
    if count:
        yield Finding(
            check="each copied video is there and whole",
            count=count,
            example=first,
            repaired=False,
            remedy="put it back from a backup, or ingest the source again into a new workspace",
        )
    count, first = 0, ""
    for left in unnamed(ws):
        count, first = count + 1, first or str(left)
        if repair:
            remove(left)
    if count:
        yield Finding(
            check="each folder of copied videos belongs to an episode",
            count=count,
            example=first,
            repaired=repair,
            remedy="a killed ingestion left them; ares doctor --repair removes them",
        )
