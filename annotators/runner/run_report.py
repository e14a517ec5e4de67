"""The reports of a run: one per annotator, also of an annotator that could not be made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from annotators.runner.task import AnnotatorTask
from ares.errors import PluginError
from ares.jobs import AnnotateReport, Report


def run_reports(
    tasks: Sequence[AnnotatorTask],
    faults: Mapping[str, PluginError],
    names: Sequence[str],
    episodes: int,
    run_seconds: float,
) -> tuple[AnnotateReport, ...]:
    """One report per annotator, in the order of the command.

    Args:
        tasks: The annotators that worked.
        faults: Why the others could not be made, by name.
        names: Names of all.
        episodes: Number of episodes of the run, all of which an annotator that could not be made has failed.
        run_seconds: Duration of the run.
    """
    remaining_tasks = iter(tasks)
    return tuple(
        _failed_report(name, faults[name], episodes, run_seconds)
        if name in faults
        else next(remaining_tasks).to_report(run_seconds)
        for name in dict.fromkeys(names)
    )


def _failed_report(name: str, error: PluginError, episodes: int, run_seconds: float) -> AnnotateReport:
    """The report of an annotator that could not be made: it has no maker, and every episode has failed."""
    report = Report()
    report.add_planned(episodes)
    for _ in range(episodes):
        report.add_failure(error, "all episodes")
    return AnnotateReport(annotator=name, maker="", model="", **report.fields(), run_seconds=run_seconds)
