"""Conversions are what they say, and take nothing away: there and back is where one began."""

from __future__ import annotations

import numpy as np
import pytest

from ares.contract import parse_conversions
from ares.contract.conversions import (
    GRIPPER_CONVENTIONS,
    absolute_to_delta,
    convert_gripper,
    delta_to_absolute,
    gripper_convention,
    unit_factor,
)
from ares.errors import RequestError


def random_values(shape: tuple[int, ...]) -> np.ndarray:
    seed = int(np.random.default_rng().integers(2**32))
    print(f"seed {seed}")
    return np.random.default_rng(seed).uniform(size=shape)


@pytest.mark.parametrize(("source", "target", "factor"), [("deg", "rad", np.pi / 180), ("m", "mm", 1000.0)])
def test_units_by_a_factor(source: str, target: str, factor: float) -> None:
    assert unit_factor(source, target) == pytest.approx(factor, rel=1e-12)
    assert unit_factor(source, target) * unit_factor(target, source) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(("source", "target"), [("percent", "rad"), ("m", "rad"), ("normalised", "deg")])
def test_no_factor_between_other_quantities(source: str, target: str) -> None:
    with pytest.raises(RequestError, match=f"{source} cannot be converted to {target}"):
        unit_factor(source, target)


@pytest.mark.parametrize("source", GRIPPER_CONVENTIONS)
@pytest.mark.parametrize("target", GRIPPER_CONVENTIONS)
def test_grippers_keep_open_open(source: str, target: str) -> None:
    first, second = gripper_convention(source), gripper_convention(target)
    opened = first.high if first.is_high_open else first.low
    goal = second.high if second.is_high_open else second.low
    assert convert_gripper(np.array([[opened]]), first, second)[0, 0] == goal
    values = first.low + (first.high - first.low) * random_values((50, 1))
    again = convert_gripper(convert_gripper(values, first, second), second, first)
    np.testing.assert_allclose(again, values, atol=1e-12)


def test_deltas_add_up_to_positions() -> None:
    values, start = random_values((200, 4)), np.array([0.1, 0.2, 0.3, 0.4])
    deltas = absolute_to_delta(values, start)
    np.testing.assert_allclose(deltas[0], values[0] - start)
    np.testing.assert_allclose(delta_to_absolute(deltas, start), values, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("state.arm", "a conversion is SIGNAL=TARGET"),
        ("state.arm=radians", "no conversion to 'radians': did you mean 'rad'"),
        ("states.arm=rad", "no signal 'states.arm'"),
        ("state.gripper=rad", "state.gripper cannot be converted to rad"),
        ("state.arm=open1", "state.arm cannot be converted to open1"),
        ("state.arm=xyzw", "state.arm is no rotation"),
        ("state.arm=order", "no signal 'state.arm'"),
        ("state.arm: degrees -> rad", "no unit 'degrees'"),
        ("state.arm: deg -> radians", "no conversion to 'radians': did you mean 'rad'"),
        ("states.arm: deg -> rad", "no signal 'states.arm'"),
        ("state: deg -> rad", "names no kind of dimensions"),
        ("state[elbow]: times zero", "has no number"),
        ("state[elbow]: times 0", "has no usable factor"),
        ("state[elbow, wrist]: from elbow", "does not name the same dimensions twice"),
        ("state.arm: turn it", "no conversion 'turn it'"),
    ],
)
def test_a_wrong_conversion_is_refused(text: str, message: str) -> None:
    with pytest.raises(RequestError) as error:
        parse_conversions([text])
    assert message in str(error.value)


def test_two_conversions_of_one_signal_are_refused() -> None:
    with pytest.raises(RequestError, match=r"two conversions are named for one signal: unit of state\.arm"):
        parse_conversions(["state.arm=rad", "state.arm=deg"])
