"""Builds the dataset of a set for PyTorch: signals are written once, frames stay where they are."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.export import (
    DatasetCounts,
    DatasetGroup,
    ExportOptions,
    ExportPlan,
    GroupedExport,
    GroupedFormat,
    export_groups,
)
from ares.extras import import_optional
from ares.torch.dataset import StepDataset
from ares.torch.step_store import StepLayout, StepStoreWriter

if TYPE_CHECKING:
    from ares.curation import CurationSet
    from ares.store import Stores

_FOLDER = "steps"


def build_step_dataset(
    stores: Stores,
    selection: CurationSet,
    options: ExportOptions,
    cameras: Sequence[str] | None = None,
    delta_seconds: Mapping[str, Sequence[float]] | None = None,
) -> StepDataset:
    """A set as a dataset for PyTorch; see `StepDataset`.

    Raises:
        RequestError: torch is not installed, the episodes have several layouts, or a camera or a key does not exist.
        MediaError: No episode can be read, or with `strict` one cannot.
        StoreError: The disk is full.
    """
    import_optional("torch")
    parent = Path(tempfile.mkdtemp(prefix="ares-steps-"))
    format = GroupedFormat("steps", _write_steps, folders=_single_folder)
    try:
        export_groups(stores, selection, parent / _FOLDER, lambda episodes: None, options, format)
        return StepDataset(parent / _FOLDER, cameras, delta_seconds)
    except BaseException:
        shutil.rmtree(parent, ignore_errors=True)
        raise


def _single_folder(plan: ExportPlan) -> list[str]:
    """The folder of the one group. Raises RequestError for several."""
    if len(plan.groups) > 1:
        layouts = "; ".join(f"{group.episodes} of {group.name}: {group.layout}" for group in plan.groups[:5])
        raise RequestError(
            "episodes of the set have several layouts", f"{layouts}; make a set of each, or give fps"
        )
    return plan.folders


def _write_steps(export: GroupedExport, plan: ExportPlan, number: int) -> DatasetCounts:
    group, counts = plan.groups[number], DatasetCounts()
    with closing(StepStoreWriter(export.root, _layout(group))) as writer:
        for item in export.items(plan, number):
            writer.add(item)
            export.note_written(item, plan.folders[number], counts.episodes)
            counts.add(item)
            export.progress(1)
        writer.finish()
    return counts


def _layout(group: DatasetGroup) -> StepLayout:
    widths = {"state": len(group.layout.state_names), "action": len(group.layout.action_names)}
    widths |= {"reward": 1} if group.has_reward else {}
    used = {name: width for name, width in widths.items() if width}
    return StepLayout(float(group.rate_hz), used, tuple(group.cameras))
