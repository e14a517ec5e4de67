"""Where what a judge has seen and what the signals say disagree, and both are plain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ares.annotation import Column
from ares.signals import name_tokens, parse_arm_name
from ares_annotators.motion.columns import END_EFFECTOR, find_gripper_dimensions, find_motion_groups
from ares_annotators.motion.grippers import is_gripper_at_rest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json
    from ares_annotators.base import Work
    from ares_annotators.motion.meaning import MotionMeaning

MOTION_DISAGREEMENT = Column(
    name="motion_disagreement",
    type="list<string>",
    meaning="What the judge saw and the signals contradict.",
)
# Key of the grade whose entries have `seconds` and `text`.
DISAGREEMENTS = "disagreements"
# Verbs of the shipped guide that no gripper at rest does, and those that no end effector at one height does.
_GRIPPER_VERBS = frozenset(("pick up", "grasp", "release"))
_RISING_VERBS, _FALLING_VERBS = frozenset(("pick up", "lift")), frozenset(("lower",))
# The camera and the signals may be so far apart.
_MARGIN_SECONDS = 0.5
_LEAST_HEIGHT_METRES = 0.01
# An arm moves plainly from here on: metres of a position, radians of a joint; the other one rests at this share of it.
_PLAIN_MOTION = {"m": 0.05, "rad": 0.1}
_REST_SHARE = 0.02


def find_disagreements(
    seen: Iterable[tuple[str, str, float]], work: Work, meaning: MotionMeaning | None
) -> list[dict[str, Json]]:
    """What was seen that the signals contradict, in order of time: objects with `seconds` and `text`.

    Signals that are not there, not finite, or of unknown meaning contradict nothing.

    Args:
        seen: Slot, value and second of what a judge plainly saw; of the slots `action` and `hand`.
        work: The work, with signals.
        meaning: What its signals mean.
    """
    if work.trajectory is None or meaning is None:
        return []
    motion = _SpanMotion(work, meaning)
    denied = {
        f"the picture shows {value!r}, {text}": second
        for slot, value, second in seen
        for text in motion.contradict(slot, value)
    }
    return [
        {"seconds": second, "text": text} for text, second in sorted(denied.items(), key=lambda item: item[1])
    ]


class _SpanMotion:
    """The signals of the span of a work, with a margin."""

    def __init__(self, work: Work, meaning: MotionMeaning) -> None:
        assert work.trajectory is not None
        self._meaning, self._trajectory = meaning, work.trajectory
        start, stop = work.subject.start_seconds, work.subject.stop_seconds
        stamps = work.trajectory.timestamps
        self._rows = (stamps >= start - _MARGIN_SECONDS) & (stamps <= stop + _MARGIN_SECONDS)
        is_state = meaning.path_signal == "state"
        self._path = work.trajectory.state if is_state else work.trajectory.action

    def contradict(self, slot: str, value: str) -> Iterable[str]:
        """Why the signals cannot be those of a value, in words."""
        return self._contradict_action(value) if slot == "action" else self._contradict_hand(value)

    def _contradict_action(self, verb: str) -> Iterator[str]:
        if verb in _GRIPPER_VERBS and self._is_every_gripper_at_rest():
            yield "no gripper moves"
        for verbs, sign, words in ((_RISING_VERBS, 1.0, "rises"), (_FALLING_VERBS, -1.0, "sinks")):
            climb = self._largest_climb(sign) if verb in verbs else None
            if climb is not None and climb < _LEAST_HEIGHT_METRES:
                yield f"no end effector {words} by {_LEAST_HEIGHT_METRES * 100:g} cm"

    def _contradict_hand(self, value: str) -> Iterator[str]:
        sides = {"left", "right"} & set(value.lower().split())
        if len(sides) != 1:
            return
        side = sides.pop()
        other = "left" if side == "right" else "right"
        moved = self._motion_of_arms()
        units = [unit for arm, unit in moved if arm == other]
        is_other_plain = any(moved[other, unit] >= _PLAIN_MOTION[unit] for unit in units)
        rests_at = [
            moved.get((side, unit), float("nan")) <= _REST_SHARE * moved[other, unit] for unit in units
        ]
        if is_other_plain and all(rests_at):
            yield f"the {side} arm rests and the {other} one moves"

    def _is_every_gripper_at_rest(self) -> bool:
        signals = (self._trajectory.state, self._trajectory.action)
        rests = [
            is_gripper_at_rest(self._span(signal.values, columns))
            for signal, kinds in zip(
                signals, (self._meaning.state_kinds, self._meaning.action_kinds), strict=True
            )
            if signal
            for columns in find_gripper_dimensions(signal.names, kinds, "gripper")
        ]
        return bool(rests) and all(rests)

    def _largest_climb(self, sign: float) -> float | None:
        """The most that an end effector rises, with -1 sinks, in metres; None where no height is known."""
        import numpy as np

        climbs = []
        for columns in self._end_effectors() if self._rows.sum() > 1 else ():
            heights = self._span(self._path.values, columns[2:])[:, 0] * self._meaning.factor(columns[2])  # type: ignore[union-attr]
            climbs.append(float(np.max(sign * heights - np.minimum.accumulate(sign * heights), initial=0.0)))
        return max(climbs) if climbs and np.isfinite(climbs).all() else None

    def _end_effectors(self) -> list[tuple[int, ...]]:
        """Columns of x, y and z of each position whose unit is a length and whose last axis is named as z."""
        if self._path is None:
            return []
        groups = find_motion_groups(self._path.names, self._meaning.path_kinds)
        return [
            group.columns
            for group in groups
            if group.space == END_EFFECTOR and self._meaning.measured_unit(group.columns) == "m"
            if name_tokens(self._path.names[group.columns[2]])[-1:] == ("z",)
        ]

    def _motion_of_arms(self) -> dict[tuple[str, str], float]:
        """The largest range of any dimension of each arm and unit, in metres or radians; of known units alone."""
        moved: dict[tuple[str, str], float] = {}
        if self._path is None:
            return moved
        for number, name in enumerate(self._path.names):
            unit = self._meaning.measured_unit([number])
            if self._meaning.path_kinds[number] in ("arm", "position") and unit in _PLAIN_MOTION:
                values = self._span(self._path.values, (number,)) * self._meaning.factor(number)
                key = (parse_arm_name(name), unit)
                extent = float(values.max() - values.min()) if len(values) else 0.0
                moved[key] = max(moved.get(key, 0.0), extent)
        return moved

    def _span(self, values: NDArray[np.float32], columns: Sequence[int]) -> NDArray[np.float64]:
        """(T, D) the dimensions in the span."""
        return values[self._rows][:, list(columns)].astype("float64")
