"""Dimension names and step rates that all source formats share."""

from __future__ import annotations

import pytest

from ares.episode import RateSource
from ingest.signals import numbered_names, resolve_rate


def test_dimensions_are_numbered_unless_there_is_one() -> None:
    assert numbered_names("joint", 0) == ()
    assert numbered_names("joint", 1) == ("joint",)
    assert numbered_names("joint", 3) == ("joint_0", "joint_1", "joint_2")


@pytest.mark.parametrize(
    ("user", "known", "source", "expected"),
    [
        (5.0, 20.0, "source", (5.0, "user")),
        (None, 20.0, "source", (20.0, "source")),
        (None, 20.0, "spec", (20.0, "spec")),
        (None, None, "source", (10.0, "assumed")),
        (None, 0.0, "spec", (10.0, "assumed")),
    ],
)
def test_the_rate_of_the_user_goes_first(
    user: float | None, known: float | None, source: RateSource, expected: tuple[float, str]
) -> None:
    assert resolve_rate(user, known, source) == expected
