"""Turns what people pass in Python for an export into a request, and runs it with a line of progress."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ares.curation import CurationSet, Sets
from ares.errors import RequestError
from ares.io import expanded_path
from ares.store import TrustedFilter
from ares.workspace.arguments import read_episode_ids

if TYPE_CHECKING:
    from ares.export import ExportReport, ExportRequest, RetimeMode, TaskSource, TrimRequest
    from ares.store import Stores
    from ares.workspace.arguments import EpisodesLike


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
    like: str | None
    trim: TrimRequest | None
    weights: str
    min_precision: float | None
    min_kept: float | None
    signals: Sequence[str] | None
    drop_cameras: Sequence[str]
    link_dest: str | os.PathLike[str] | None


def make_export_request(
    stores: Stores, members: CurationSet, destination: Path, format: str, options: ExportOptions
) -> ExportRequest:
    """The request of an export with the plan that its options name. Raises RequestError for a wrong plan."""
    from ares.export import ExportRequest, propose_merge_plan, read_merge_plan

    values: dict[str, Any] = dict(options)
    like = values.pop("like", None)
    if values.get("plan") is not None:
        if like is not None:
            raise RequestError(
                "a plan says what is written, so that no dataset does", f"plan and like {like}"
            )
        values["plan"] = read_merge_plan(Path(expanded_path(values["plan"])))
    elif like is not None:
        values["plan"] = propose_merge_plan(stores, members, like)
    if values.get("link_dest") is not None:
        values["link_dest"] = Path(expanded_path(values["link_dest"]))
    return ExportRequest(set=members, destination=destination, format=format, **values)


def export_with_progress(request: ExportRequest, stores: Stores, *, quiet: bool) -> ExportReport:
    """Write a set as a training dataset; raises as `Workspace.export`."""
    from ares.export import export_set
    from ares.jobs import Progress

    label, stream = f"export {request.set.name}", None if quiet else sys.stderr
    with closing(Progress(label, request.set.num_spans or request.set.episodes, stream)) as progress:
        return export_set(request, stores, progress.advance, quiet=quiet)


def list_in_source_order(stores: Stores) -> CurationSet:
    """All episodes by their numbers in their source: "2" comes before "10"."""
    names = ["key", "split", "episode_id"]
    rows = zip(
        *stores.tables.episodes.read_columns(names, TrustedFilter("true")).to_pydict().values(), strict=True
    )
    ordered = sorted((len(key), key, split, id) for key, split, id in rows)
    return replace(find_set(stores, [id for *_, id in ordered]), listed=tuple(id for *_, id in ordered))


def find_set(stores: Stores, selection: str | CurationSet | EpisodesLike) -> CurationSet:
    """A set by its name, "name" or "name@version"; a set as it is; episodes as a set that is not stored.

    Raises RequestError where there is none.
    """
    if isinstance(selection, str):
        return Sets(stores.annotations)[selection]
    if isinstance(selection, CurationSet):
        return selection
    ids = tuple(sorted(set(read_episode_ids(selection))))  # type: ignore[arg-type]
    if not ids:
        raise RequestError("the view has no episodes", "choose some with where()")
    digest = hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]
    return CurationSet(
        name="view", version=0, created="", recipe={}, episodes=len(ids), ids_hash=digest, listed=ids
    )
