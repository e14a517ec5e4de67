"""What people say of annotations, how far judges agree with it, and what it certifies; and makers compared."""

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
    from ares.review.calibration import Calibration as Calibration, report_calibration as report_calibration
    from ares.review.certificate import (
        CERTIFICATES as CERTIFICATES,
        Certificate as Certificate,
        certificate_from_json as certificate_from_json,
        certify as certify,
        find_reasons_void as find_reasons_void,
    )
    from ares.review.labels import add_correction as add_correction, add_ruling as add_ruling
    from ares.review.maker_comparison import (
        MakerComparison as MakerComparison,
        compare_makers as compare_makers,
    )
    from ares.review.person_labels import (
        LabelledItem as LabelledItem,
        read_labelled_items as read_labelled_items,
    )

__getattr__ = lazy_exports(__name__)
