"""The distribution function of the beta distribution, from which binomial tails follow."""

from __future__ import annotations

import math

_MOST_TERMS, _PRECISION, _SMALLEST = 1_000, 1e-13, 1e-300


def beta_cdf(value: float, first: float, second: float) -> float:
    """The regularised incomplete beta function I_value(first, second), by its continued fraction (DLMF 8.17.22).

    The chance of at most k hits among n items is `beta_cdf(1 - share, n - k, k + 1)`.

    Args:
        value: 0 to 1.
        first: Shape above 0.
        second: Shape above 0.
    """
    if value <= 0.0 or value >= 1.0:
        return float(value >= 1.0)
    if value > (first + 1) / (first + second + 2):
        return 1.0 - beta_cdf(1 - value, second, first)
    log_front = (
        math.lgamma(first + second)
        - math.lgamma(first)
        - math.lgamma(second)
        + first * math.log(value)
        + second * math.log1p(-value)
    )
    return math.exp(log_front) / first * _continued_fraction(value, first, second)


def _continued_fraction(value: float, first: float, second: float) -> float:
    """Evaluated by Lentz's method."""
    numerator = 1.0
    denominator = 1.0 / _not_zero(1.0 - (first + second) * value / (first + 1))
    fraction = denominator
    for step in range(1, _MOST_TERMS):
        base = first + 2 * step
        first_term = step * (second - step) * value / ((base - 1) * base)
        second_term = -(first + step) * (first + second + step) * value / (base * (base + 1))
        for term in (first_term, second_term):
            denominator = 1.0 / _not_zero(1.0 + term * denominator)
            numerator = _not_zero(1.0 + term / numerator)
            fraction *= numerator * denominator
        if abs(numerator * denominator - 1.0) < _PRECISION:
            break
    return fraction


def _not_zero(value: float) -> float:
    return value if abs(value) > _SMALLEST else _SMALLEST
