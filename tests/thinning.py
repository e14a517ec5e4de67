"""Long lists of cases: with every change some of them run, and all by night."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def some_by_day(
    cases: Iterable[Any], every: int = 3, *, kept: Collection[Any] = (), rows: bool = False
) -> list[Any]:
    """The cases of a parametrised test or fixture, most of them marked `nightly`.

    Args:
        cases: All of them.
        every: By day the first case runs and then each of this distance.
        kept: By day run these instead.
        rows: Whether a case is a row of values, one for each parameter.
    """
    listed = list(cases)
    by_day = [case in kept if kept else not number % every for number, case in enumerate(listed)]
    assert any(by_day), "no case is left by day"
    return [
        case if is_by_day else pytest.param(*(case if rows else [case]), marks=pytest.mark.nightly)
        for case, is_by_day in zip(listed, by_day, strict=True)
    ]
