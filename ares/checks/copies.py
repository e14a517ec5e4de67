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
    bad = list(broken(ws))
    if bad:
        yield Finding(
            check="each copied video is there and whole",
            count=len(bad),
            example=bad[0],
            repaired=False,
            remedy="put it back from a backup, or ingest the source again into a new workspace",
        )
    left = list(unnamed(ws))
    if left:
        for folder in left if repair else ():
            remove(folder)
        yield Finding(
            check="each folder of copied videos belongs to an episode",
            count=len(left),
            example=str(left[0]),
            repaired=repair,
            remedy="a killed ingestion left them; ares doctor --repair removes them",
        )
