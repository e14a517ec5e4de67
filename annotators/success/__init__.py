"""The annotator `success`: whether the task of an episode was done at its end, as one probability with its parts."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_annotators.success.annotator import SuccessAnnotator as SuccessAnnotator
    from ares_annotators.success.stored_outcomes import (
        StoredOutcome as StoredOutcome,
        current_success_producer as current_success_producer,
        read_stored_outcomes as read_stored_outcomes,
    )

__getattr__ = lazy_exports(__name__)
