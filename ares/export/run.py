"""Exports a set by the name of a format: loads the exporter and runs it with progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ares.contract import SetConversion, parse_conversions, set_contracts
from ares.curation import Sets
from ares.errors import PluginError, RequestError
from ares.export.base import Exporter, ExportReport, TaskSource
from ares.export.retime import OWN_CLOCKS, ExportClock
from ares.jobs import Progress
from ares.registry import exporters, plugin_faults

if TYPE_CHECKING:
    from ares.curation import CurationSet
    from ares.store import Stores


def load_exporter(name: str) -> Exporter:
    """The exporter of a name, as a function that raises only errors of ARES.

    Raises:
        RequestError: The name is unknown.
        PluginError: The exporter cannot be imported.
    """
    exporter, label = exporters.get(name), exporters.label(name)

    def export(
        stores: Stores,
        selection: CurationSet,
        destination: Path,
        progress: Callable[[int], None],
        **options: Any,
    ) -> ExportReport:
        if "convert" not in signature(exporter).parameters:
            _check_unconverted(label, options.pop("convert", None))
        with plugin_faults(label):
            report = exporter(stores, selection, destination, progress, **options)
        if not isinstance(report, ExportReport):
            raise PluginError(f"{label} returned no ExportReport", f"got a {type(report).__name__}")
        return report

    return export


def _check_unconverted(label: str, convert: SetConversion | None) -> None:
    """An exporter that knows no conversions exports only what needs none."""
    if convert is not None and convert.changes_signals:
        raise RequestError(
            f"{label} cannot convert signals", "export without --convert, or by another exporter"
        )


def export_set(
    stores: Stores,
    selection: CurationSet,
    destination: Path,
    *,
    format: str,
    task: TaskSource = "instruction",
    clock: ExportClock = OWN_CLOCKS,
    convert: Sequence[str] | SetConversion = (),
    strict: bool = False,
    stream: TextIO | None = None,
) -> ExportReport:
    """Write a set into a new folder; see `Exporter` for the arguments and errors.

    Args:
        stores: Stores of the workspace.
        selection: The set.
        destination: A new or empty folder.
        format: Name of an exporter.
        task: What the task of an episode is.
        clock: The rate to write, and which step is written for a second.
        convert: Conversions of signals, such as "action.gripper=open1"; see `ares.quality.contract`.
            Or what to do with the signals, where that is known already.
        strict: Whether an episode that fails ends the export.
        stream: Where progress is shown, or None for nowhere.
    """
    exporter = load_exporter(format)
    # What is the default is left out: exporters of other packages may not know it.
    strict_option = {"strict": True} if strict else {}
    task_option = {} if task == "instruction" else {"task": task}
    clock_options = {} if clock == OWN_CLOCKS else {"fps": clock.fps, "retime": clock.retime}
    if not isinstance(convert, SetConversion):
        convert = set_conversion(stores, selection, convert)
    options: dict[str, Any] = {**strict_option, **task_option, **clock_options, "convert": convert}
    progress = Progress(f"export {selection.name}", selection.episodes, stream)
    try:
        return exporter(stores, selection, destination, progress.advance, **options)
    finally:
        progress.close()


def set_conversion(stores: Stores, selection: CurationSet, convert: Sequence[str]) -> SetConversion:
    """The conversions that a user names for a set.

    Args:
        stores: Stores of the workspace.
        selection: The set.
        convert: Conversions of signals, such as "action.gripper=open1"; see `ares.quality.contract`.

    Raises:
        ClashError: Signals of the set mean different things, and no conversion is named for them.
        RequestError: A conversion cannot be made.
    """
    ids = Sets(stores.annotations).ids(selection)
    return SetConversion(set_contracts(stores, ids), parse_conversions(convert))
