"""Reports of checks for continuous integration: baselines, SARIF files and annotations of GitHub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.ci.baseline import Baseline, BaselineKey, BaselineWriter, baseline_key
    from ares.quality.ci.baseline_file import read_baseline
    from ares.quality.ci.github import github_annotations
    from ares.quality.ci.sarif import sarif_log, write_sarif

__all__ = [
    "Baseline",
    "BaselineKey",
    "BaselineWriter",
    "baseline_key",
    "github_annotations",
    "read_baseline",
    "sarif_log",
    "write_sarif",
]

__getattr__ = lazy_exports(__name__)
