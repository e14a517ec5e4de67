"""The exporter `csv`: a file NAME.csv of seconds and state for each episode."""

from collections.abc import Callable
from pathlib import Path

from ares.errors import SourceError
from ares.export import ExportedMember, ExportReader, ExportReport, ExportRequest, export_members


def export_csv(request: ExportRequest, reader: ExportReader, progress: Callable[[int], None]) -> ExportReport:
    """Write a set."""
    return export_members(request, reader, progress, write_csv, left_out=["cameras", "actions"])


def write_csv(folder: Path, member: ExportedMember) -> None:
    """Write one episode."""
    import numpy as np

    state = member.trajectory.state
    if state is None:
        raise SourceError("csv needs a state", member.episode.key)
    rows = np.column_stack([member.trajectory.timestamps, state.values])
    header = ",".join(["seconds", *state.names])
    np.savetxt(folder / f"{member.name}.csv", rows, delimiter=",", header=header, comments="")
