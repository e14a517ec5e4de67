"""Turns what people pass in Python for an export into a request, and runs it with a line of progress."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ares.curation import CurationSet, Sets
from ares.errors import RequestError
from ares.io import expanded_path

if TYPE_CHECKING:
    from ares.export import ExportReport, ExportRequest, RetimeMode, TaskSource, TrimRequest
    from ares.store import Stores
    from ares.workspace.episodes import Episodes


class ExportOptions(TypedDict, total=False):
    """What may be chosen for an export, see `ExportRequest`."""

    task: TaskSource
    refuted: bool
    fps: float | None
    retime: RetimeMode
    convert: Sequence[str]
    strict: bool
    segments: Sequence[str]
    plan: str | os.PathLike[str] | None
    trim: TrimRequest | None
    weights: str
    progress: str
    min_precision: float | None
    min_kept: float | None
    link_dest: str | os.PathLike[str] | None


def make_export_request(
    members: CurationSet, destination: Path, format: str, options: ExportOptions
) -> ExportRequest:
    """The request of an export with the plan that its options name. Raises RequestError for a wrong plan."""
    from ares.export import ExportRequest, read_merge_plan

    values: dict[str, Any] = dict(options)
    if values.get("plan") is not None:
        values["plan"] = read_merge_plan(Path(expanded_path(values["plan"])))
    if values.get("link_dest") is not None:
        values["link_dest"] = Path(expanded_path(values["link_dest"]))
    return ExportRequest(set=members, destination=destination, format=format, **values)


def export_with_progress(request: ExportRequest, stores: Stores, *, quiet: bool) -> ExportReport:
    """Write a set as a training dataset; raises as `Workspace.export`."""
    from ares.export import export_set
    from ares.jobs import Progress

    label, stream = f"export {request.set.name}", None if quiet else sys.stderr
    with closing(Progress(label, request.set.num_spans or request.set.episodes, stream)) as progress:
        return export_set(request, stores, progress.advance)


def list_view(view: Episodes) -> CurationSet:
    """The episodes of a view as a selection that is not stored. Raises RequestError for none."""
    ids = tuple(sorted(view.ids()))
    if not ids:
        raise RequestError("the view has no episodes", "choose some with where() or with_ids()")
    digest = hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]
    return CurationSet(
        name="view", version=0, created="", recipe={}, episodes=len(ids), ids_hash=digest, listed=ids
    )


def find_set(stores: Stores, selection: str | CurationSet) -> CurationSet:
    """A set by its name, "name" or "name@version"; a set as it is. Raises RequestError where there is none."""
    return Sets(stores.annotations)[selection] if isinstance(selection, str) else selection
