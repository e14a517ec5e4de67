"""Unfinished: embedding spaces that a killed run may have left with vectors whose facts it never wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ares.checks.finding import REPAIR, Finding
from ares.episode import Json

if TYPE_CHECKING:
    from ares.workspace import Workspace

# Documents: by space, the annotator and model that write to it.
UNFINISHED = "unfinished_spaces"


def mend_spaces(ws: Workspace) -> int:
    """Delete vectors that a killed run wrote without their facts. Returns how many rows went."""
    unfinished = dict(ws.annotations.find(UNFINISHED))
    gone = sum(
        ws.tables.vectors(space).keep_only(partial(_made, ws, owner)) for space, owner in unfinished.items()
    )
    ws.annotations.drop(UNFINISHED, unfinished)
    return gone


def check_unfinished(ws: Workspace, repair: bool) -> Iterator[Finding]:
    """Spaces that a run was writing to when it was killed; the caller holds the workspace, so that none is at work."""
    unfinished = [space for space, _ in ws.annotations.find(UNFINISHED)]
    if unfinished:
        if repair:
            mend_spaces(ws)
        yield Finding(
            check="each vector has the fact that it was made",
            count=len(unfinished),
            example=unfinished[0],
            repaired=repair,
            remedy=REPAIR,
        )


def _made(ws: Workspace, owner: Json, ids: Sequence[str]) -> set[str]:
    """Of these episodes, those that any maker of this annotator and model has done: they share the table."""
    makers = ws.annotations.makers().values()
    alike = [one for one in makers if {"annotator": one.annotator, "model": one.model} == owner]
    return set().union(*(ws.annotations.done(one.maker_id, ids) for one in alike))
