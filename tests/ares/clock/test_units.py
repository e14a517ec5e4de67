"""The unit of stamps: told by name, stated rate, size and their own rate; the generator knows the truth."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ares.clock import SECONDS_BY_UNIT, TimeUnit, infer_stamp_unit
from ares.clock.units import parse_time_unit_suffix

RATES_HZ = (2.0, 400.0)


def random_stamps(chance: random.Random, unit: TimeUnit, start: float) -> tuple[np.ndarray, float]:
    """Stamps with jitter, dropped steps and a gap, in a unit, as whole numbers where it is small; and their rate."""
    rate_hz = float(np.exp(chance.uniform(*np.log(RATES_HZ))))
    rng = np.random.default_rng(chance.randrange(2**32))
    steps = np.flatnonzero(rng.random(chance.randrange(5, 200)) > 0.1)
    seconds = (steps + rng.uniform(-0.2, 0.2, len(steps))) / rate_hz
    seconds[len(seconds) // 2 :] += chance.choice([0.0, 3.0])
    stamps = start / SECONDS_BY_UNIT[unit] + seconds / SECONDS_BY_UNIT[unit]
    return (stamps.astype(np.int64) if unit in ("us", "ns") else stamps), rate_hz


@pytest.mark.parametrize("unit", SECONDS_BY_UNIT)
@pytest.mark.parametrize("start", [0.0, 2.0, 3600.0, 1_700_000_000.0])
def test_units_are_told_by_size_and_rate(unit: TimeUnit, start: float) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    for _ in range(100):
        stamps, rate_hz = random_stamps(chance, unit, start)
        if len(np.unique(stamps)) < 3:
            continue
        stated = chance.choice([None, rate_hz * chance.uniform(0.5, 2)])
        guess = infer_stamp_unit(stamps, "clock", stated)
        assert guess.unit == unit, f"seed {seed}, {rate_hz} Hz"
        assert bool(guess.evidence) == (unit != "s"), f"seed {seed}"


def test_a_name_decides_over_everything_else() -> None:
    names = {
        "timestamp_ns": "ns",
        "time_ms": "ms",
        "Time (s)": "s",
        "stampUs": "us",
        "t": None,
        "joints": None,
    }
    assert {name: parse_time_unit_suffix(name) for name in names} == names
    assert infer_stamp_unit(np.arange(5) / 30, "time_ms", 30.0) == ("ms", "")


def test_what_may_be_another_unit_is_said() -> None:
    guess = infer_stamp_unit(np.arange(9), "t")
    assert guess.unit == "s" and "may be milliseconds or step numbers" in guess.evidence
    assert infer_stamp_unit(np.arange(9), "t", 1.0) == ("s", "")
    assert infer_stamp_unit(np.array([5.0, np.nan]), "t") == ("s", "")
    assert infer_stamp_unit(np.array([1_700_000_000_000]), "t").unit == "ms"
    assert "30 Hz, as seconds 0.03 Hz" in infer_stamp_unit(np.arange(9) * 100 / 3, "t").evidence


def test_a_clock_of_nanoseconds_that_begins_at_a_second_is_no_date() -> None:
    stamps = np.array([1_003_541_568, 1_406_216_718, 1_926_954_045, 2_339_645_161])
    assert infer_stamp_unit(stamps, "clock").unit == "ns"


def test_a_pause_between_few_steps_is_not_taken_for_their_period() -> None:
    stamps = 1_700_000_000_000_000 + np.array([0, 4_411, 3_008_822])
    assert infer_stamp_unit(stamps, "clock", 226.697).unit == "us"


def test_a_clock_in_milliseconds_that_has_run_for_weeks_is_no_date_unless_its_steps_are_slow() -> None:
    weeks = 1_700_000_000
    assert infer_stamp_unit(weeks + np.arange(9) * 33, "clock").unit == "ms"
    guess = infer_stamp_unit(weeks + np.arange(9) * 5, "clock")
    assert guess.unit == "s" and "seconds since 1970, and may be milliseconds" in guess.evidence
