"""Loads an exporter by name; an exception that it raises becomes an error of one line that names it."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.errors import PluginError, RequestError
from ares.export.base import Exporter, ExportReport
from ares.registry import exporters, plugin_faults

if TYPE_CHECKING:
    from ares.curation import CurationSet
    from ares.quality.contract import SetConversion
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
