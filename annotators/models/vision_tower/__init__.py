"""Vision towers of transformers as encoders: SigLIP, SigLIP2 and CLIP with texts, DINOv2 and DINOv3 without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from annotators.models.vision_tower.encoder import VisionTower
    from annotators.models.vision_tower.load import load_vision_tower

__all__ = ["VisionTower", "load_vision_tower"]

__getattr__ = lazy_exports(__name__)
