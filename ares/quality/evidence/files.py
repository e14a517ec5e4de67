"""The files of evidence: their names, and a page that shows them all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ares.quality.catalogue import CODES

if TYPE_CHECKING:
    from ares.quality.report import CheckReport, ListedFinding

# Findings of each code that are drawn, the worst first.
_DRAWN = 20
_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Evidence of ares check</title>"
    "<style>:root{color-scheme:light dark}body{font:14px sans-serif;margin:2em}"
    "img{display:block;max-width:100%}</style>"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFile:
    """Where the evidence of a finding is written.

    Attributes:
        dataset: Name of the dataset.
        listed: The finding.
        stem: Path below the folder without suffix: ".svg" is the plot, ".jpg" the frames.
    """

    dataset: str
    listed: ListedFinding
    stem: str


def evidence_files(report: CheckReport) -> Iterator[EvidenceFile]:
    """The files of the findings that a report lists, at most 20 of a code."""
    for number, dataset in enumerate(report.datasets):
        folder = f"{number:03d}_{_safe(dataset.dataset)}"
        for count in dataset.counts:
            for rank, listed in enumerate(count.worst[:_DRAWN]):
                name = f"{rank:03d}_{listed.episode_id}_{_safe(listed.finding.dimension)}".rstrip("_")
                stem = f"{folder}/{count.code}_{count.name}/{name}"
                yield EvidenceFile(dataset=dataset.dataset, listed=listed, stem=stem)


def _safe(name: str) -> str:
    """A name without what file systems refuse; two names may become one, so a number always stands before it."""
    return re.sub(r"[^A-Za-z0-9-]+", "-", name).strip("-")[:60]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def write_index(folder: str, files: Sequence[EvidenceFile]) -> None:
    """Write `index.html` with the evidence that lies in the folder. Raises OSError when it cannot be written."""
    lines = [_PAGE, "<h1>Evidence of <code>ares check</code></h1>"]
    for file in files:
        finding, check = file.listed.finding, CODES[file.listed.finding.code]
        lines.append(
            f"<h2>{check.code} {check.name}: {escape(finding.dimension or finding.signal or 'all signals')}</h2>"
            f"<p>{escape(file.dataset)}, {escape(file.listed.key)}, {finding.seconds:g} s: {escape(check.meaning)}. "
            f"{escape(_sentence(check.remedy))}. Severity: {check.severity}.</p>"
        )
        lines += [
            f'<img loading=lazy alt="{kind} of the finding" src="{file.stem}{suffix}">'
            for suffix, kind in ((".svg", "plot"), (".jpg", "frames"))
            if (Path(folder) / f"{file.stem}{suffix}").exists()
        ]
    (Path(folder) / "index.html").write_text("\n".join(lines), encoding="utf-8")
