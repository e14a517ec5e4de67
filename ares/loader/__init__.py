"""Loading a frozen set for training: a PyTorch dataset that reads the steps as they are stored."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.loader.dataset import StepDataset as StepDataset, build_step_dataset as build_step_dataset

__getattr__ = lazy_exports(__name__)
