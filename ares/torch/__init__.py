"""Sets as map-style datasets for PyTorch: windows of steps and frames, decoded when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.torch.build import build_step_dataset
    from ares.torch.dataset import StepDataset

__all__ = ["StepDataset", "build_step_dataset"]

__getattr__ = lazy_exports(__name__)
