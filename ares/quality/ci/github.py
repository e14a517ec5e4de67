"""Workflow commands by which GitHub Actions shows the findings of a check beside the files.

Syntax: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.quality.catalogue import CODES

if TYPE_CHECKING:
    from ares.quality.report import CheckReport, CodeCount, DatasetCheck


def github_annotations(report: CheckReport) -> Iterator[str]:
    """A line for each dataset and code, and for what could not be read: GitHub shows ten of a kind per step."""
    for dataset in report.datasets:
        for count in dataset.counts:
            yield _finding_line(dataset, count)
        if dataset.num_failed:
            message = f"{dataset.dataset}: {dataset.num_failed} records not read: {dataset.first_failure}"
            yield _command("error", dataset.path, "not read", message)
    for path, reason in report.failed.items():
        yield _command("error", path, "not read", reason)


def _finding_line(dataset: DatasetCheck, count: CodeCount) -> str:
    worst = count.worst[0]
    dimension = f" of {worst.finding.dimension}" if worst.finding.dimension else ""
    message = (
        f"{dataset.dataset}: {count.num_episodes} episodes; worst: {worst.key}{dimension} at "
        f"{worst.finding.seconds:g} s, size {worst.finding.size:g}. {count.remedy}; see {CODES[count.code].page}"
    )
    level = "error" if count.severity == "fault" else "notice"
    return _command(level, worst.source or dataset.path, f"{count.code} {count.name}", message)


def _command(level: str, file: str, title: str, message: str) -> str:
    return f"::{level} file={_property(file)},title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
