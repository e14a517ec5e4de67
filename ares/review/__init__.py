"""What people say of annotations: rulings on single criteria, and corrections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.review.labels import add_correction, add_ruling

__all__ = ["add_correction", "add_ruling"]

__getattr__ = lazy_exports(__name__)
