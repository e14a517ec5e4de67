"""What people say of annotations: rulings, corrections; and makers compared on the same segments."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares.review.answers import (
        Answer as Answer,
        give_answer as give_answer,
        read_answer as read_answer,
        store_answer as store_answer,
        withdraw_answer as withdraw_answer,
    )
    from ares.review.labels import (
        SegmentChange as SegmentChange,
        add_correction as add_correction,
        add_ruling as add_ruling,
        correct_segments as correct_segments,
        withdraw_segments as withdraw_segments,
    )
    from ares.review.maker_comparison import (
        MakerComparison as MakerComparison,
        compare_makers as compare_makers,
    )

__getattr__ = lazy_exports(__name__)
