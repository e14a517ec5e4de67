"""The annotator `attributes`: typed questions about each episode, asked together and answered with frames."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_annotators.attributes.annotator import AttributesAnnotator as AttributesAnnotator

__getattr__ = lazy_exports(__name__)
