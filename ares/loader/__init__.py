"""Loading a frozen set for training: PyTorch datasets that read the steps as they are stored."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.loader.dataset import (
        LoaderRequest as LoaderRequest,
        Normalisation as Normalisation,
        StepDataset as StepDataset,
        StepStream as StepStream,
        build_step_dataset as build_step_dataset,
    )

__getattr__ = lazy_exports(__name__)
