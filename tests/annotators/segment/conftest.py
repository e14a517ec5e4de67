"""The annotator `segment` also where the package was installed before it had one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from annotators.segment import SegmentAnnotator
from ares import registry


@pytest.fixture(autouse=True)
def _segment_is_there() -> Iterator[None]:
    is_missing = "segment" not in registry.annotators.names()
    if is_missing:
        registry.annotators.add("segment", SegmentAnnotator)
    yield
    if is_missing:
        registry.annotators.remove("segment")
