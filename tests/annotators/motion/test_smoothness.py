"""Smoothness against the published reference implementation (github.com/siva82kb/smoothness): values and formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from annotators.motion.curves import compute_spectral_arc_lengths
from benchmarks.motion_length import log_dimensionless_jerk

# Speed of the movement in the documentation of the reference, at 100 Hz, and what it says of it.
RATE_HZ = 100.0
STAMPS = np.arange(-1, 1, 1 / RATE_HZ)
SPEED = np.exp(-5 * STAMPS**2)
PUBLISHED_SPARC, PUBLISHED_LDLJ = -1.41403, -5.81636


def _arc_length_by_sums(speed: NDArray[np.float64], rate_hz: float) -> float:
    """Eq. 6 with every Fourier sum written out: padding by 2^4, 10 Hz, 5 % of the start."""
    size = 2 ** (math.ceil(math.log2(len(speed))) + 4)
    frequencies = [number * rate_hz / size for number in range(size // 2 + 1)]
    frequencies = [frequency for frequency in frequencies if frequency <= 10]
    steps = np.arange(len(speed)) / rate_hz
    amplitudes = [abs(np.sum(speed * np.exp(-2j * np.pi * frequency * steps))) for frequency in frequencies]
    amplitudes = [amplitude / amplitudes[0] for amplitude in amplitudes]
    last = max(number for number, amplitude in enumerate(amplitudes) if amplitude >= 0.05)
    width = frequencies[last] - frequencies[0]
    return -sum(
        math.hypot((frequencies[n + 1] - frequencies[n]) / width, amplitudes[n + 1] - amplitudes[n])
        for n in range(last)
    )


def _jerk_by_sums(path: NDArray[np.float64], rate_hz: float) -> float:
    """Eq. 8 of a path (T, D), from differences of its speeds."""
    velocity = np.diff(path, axis=0) * rate_hz
    jerk = np.diff(velocity, n=2, axis=0) * rate_hz**2
    peak = max(np.linalg.norm(velocity, axis=1))
    duration = len(path) / rate_hz
    return -math.log(duration**3 / peak**2 * float((jerk**2).sum()) / rate_hz)


def test_the_published_values_of_the_published_movement() -> None:
    assert compute_spectral_arc_lengths(SPEED[None], 1 / RATE_HZ)[0] == pytest.approx(
        PUBLISHED_SPARC, abs=5e-6
    )
    assert _arc_length_by_sums(SPEED, RATE_HZ) == pytest.approx(PUBLISHED_SPARC, abs=5e-6)
    path = np.concatenate([[0], np.cumsum(SPEED)])[:, None] / RATE_HZ
    assert _jerk_by_sums(path, RATE_HZ) == pytest.approx(PUBLISHED_LDLJ, abs=0.02)
    # Derivatives in the middle of steps and the ends differ a little.
    jerk = log_dimensionless_jerk(path, np.arange(len(path)) / RATE_HZ)
    assert jerk == pytest.approx(PUBLISHED_LDLJ, abs=0.02)


@pytest.mark.parametrize("seed", range(20))
def test_random_movements_by_formula(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rate_hz = float(rng.choice([50.0, 100.0, 200.0]))
    seconds = np.arange(0, rng.uniform(2.5, 4), 1 / rate_hz)
    bells = [
        rng.uniform(0.3, 1)
        * np.exp(-((seconds - rng.uniform(1, seconds[-1] - 1)) ** 2) / rng.uniform(0.02, 0.1))
        for _ in range(rng.integers(1, 6))
    ]
    speed = np.sum(bells, axis=0)
    expected = _arc_length_by_sums(speed, rate_hz)
    assert compute_spectral_arc_lengths(speed[None], 1 / rate_hz)[0] == pytest.approx(expected, abs=1e-9), (
        seed
    )
    heading = rng.uniform(0, 2) * np.sin(2 * seconds + rng.uniform(0, 6))
    velocity = speed[:, None] * np.stack([np.cos(heading), np.sin(heading)], axis=1)
    path = np.cumsum(velocity, axis=0) / rate_hz
    jerk = log_dimensionless_jerk(path, np.arange(len(path)) / rate_hz)
    assert jerk == pytest.approx(_jerk_by_sums(path, rate_hz), abs=0.1), seed
