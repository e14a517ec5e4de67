"""Evidence of findings: a plot of the signal and frames of the cameras around the second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.quality.evidence.files import EvidenceFile, evidence_files, write_index
    from ares.quality.evidence.frames import frame_strip
    from ares.quality.evidence.plot import plot_finding

__all__ = ["EvidenceFile", "evidence_files", "frame_strip", "plot_finding", "write_index"]

__getattr__ = lazy_exports(__name__)
