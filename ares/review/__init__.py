"""What people say of annotations: rulings, corrections; and makers compared on the same segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.review.comparison import MakerComparison, compare_makers
    from ares.review.labels import add_correction, add_ruling

__all__ = ["MakerComparison", "add_correction", "add_ruling", "compare_makers"]

__getattr__ = lazy_exports(__name__)
