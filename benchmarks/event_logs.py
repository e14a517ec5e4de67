"""Drawn robots at work, and a log of what each arm did when: reach, grasp, move, release, press, wipe, pause.

Everything is drawn: arms, names, rate, kind of gripper, channels of contact, noise, lag, and how a person leads.
The log knows what the signals may hide: a hesitation, a curve or a stroke of a wipe is no event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ares.episode import Signal, Trajectory

EndType = Literal["continuous", "binary", "hand", "none"]
SignalChoice = Literal["state and action", "state and change", "state", "action", "change"]
# Seeds of the three parts, which share none.
PARTS = {
    "development": range(1_000_000, 1_000_400),
    "thresholds": range(2_000_000, 2_000_400),
    "test": range(3_000_000, 3_000_400),
}
_STEP = 0.01


class LogEvent(NamedTuple):
    """What an arm does in [start, stop), in seconds."""

    arm: str
    name: str
    start: float
    stop: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoggedEpisode:
    """An episode and its log.

    Attributes:
        trajectory: What a robot records.
        duration: Seconds.
        events: Of each arm one after another, from 0 to the duration.
        traits: What was drawn, for tables: "arms", "end", "signals", "contact", "rate".
    """

    trajectory: Trajectory
    duration: float
    events: tuple[LogEvent, ...]
    traits: dict[str, str]


@dataclass
class _Arm:
    """An arm that writes down what it does, on a grid of 0.01 s.

    Attributes:
        name: "left", "right", or "" for the only arm.
        rng: Draws.
        here: (3,) metres.
        is_held: Whether the gripper is closed.
    """

    name: str
    rng: np.random.Generator
    here: NDArray[np.float64]
    tempo: float
    is_held: bool = False

    def __post_init__(self) -> None:
        self.path: list[NDArray[np.float64]] = []
        self.closure: list[NDArray[np.float64]] = []
        self.force: list[NDArray[np.float64]] = []
        self.events: list[LogEvent] = []
        self.now = 0

    def add(
        self, name: str, path: NDArray[np.float64], closure: NDArray[np.float64] | None, force: float
    ) -> None:
        """Do something; two parts of one name in a row are one event."""

        steps = len(path)
        self.path.append(path)
        self.closure.append(np.full(steps, float(self.is_held)) if closure is None else closure)
        self.force.append(np.full(steps, force))
        start, self.now = self.now, self.now + steps
        event = LogEvent(self.name, name, start * _STEP, self.now * _STEP)
        if self.events and self.events[-1].name == name:
            event = event._replace(start=self.events.pop().start)
        self.events.append(event)
        self.here = path[-1]

    def rest(self, name: str, seconds: float, force: float = 0.0) -> None:
        """Stay where it is, or drift by some millimetres as a hand does that is held still."""

        drift = self.rng.normal(0, 0.003, 3) if self.rng.random() < 0.5 else np.zeros(3)
        share = np.linspace(0, 1, max(1, round(seconds / _STEP)))
        self.add(name, self.here + share[:, None] * drift, None, force)

    def close(self, name: str, is_closed: bool) -> None:
        """Move the fingers, after and before a moment of rest."""

        rng = self.rng
        if rng.random() < 0.6:
            self.rest(self.events[-1].name if self.events else "pause", float(rng.uniform(0.02, 0.15)))
        steps = round(float(rng.uniform(0.15, 0.8)) / _STEP)
        share = np.linspace(0, 1, steps)
        if rng.random() < 0.5:
            share = share**2 * (3 - 2 * share)
        closure = share if is_closed else 1 - share
        self.add(name, np.tile(self.here, (steps, 1)), closure, 0.0)
        self.is_held = is_closed

    def move(self, name: str, goal: NDArray[np.float64], force: float = 0.0) -> None:
        """Go to a goal, perhaps in a curve, perhaps with a hesitation: none of these is an event."""

        rng = self.rng
        way = float(np.linalg.norm(goal - self.here))
        seconds = self.tempo * max(0.5, float(rng.uniform(0.6, 1.4)) * (0.4 + 3.0 * way))
        phase = np.linspace(0, 1, round(seconds / _STEP))
        style = rng.integers(3)
        if style == 0:
            share = phase**3 * (10 - 15 * phase + 6 * phase**2)
        elif style == 1:
            share = phase**2 * (3 - 2 * phase)
        else:  # a quick start and a slow approach, as people do
            share = 1 - (1 - phase**1.5) ** 2.5
        if rng.random() < 0.35:
            share = _hesitate(share, rng)
        line = self.here + share[:, None] * (goal - self.here)
        if rng.random() < 0.5:
            bend = rng.normal(0, 0.25 * way, 3)
            line = line + (4 * share * (1 - share))[:, None] * bend
        self.add(name, line, None, force)


def _hesitate(share: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """The same way with a moment of less speed."""
    speed = np.diff(share, prepend=0.0)
    centre, width = rng.uniform(0.25, 0.75) * len(share), rng.uniform(0.08, 0.2) / _STEP
    dip = 1 - rng.uniform(0.2, 0.6) * np.exp(-(((np.arange(len(share)) - centre) / width) ** 2))
    return np.asarray(np.cumsum(speed * dip) / (speed * dip).sum())


def _draw_place(rng: np.random.Generator) -> NDArray[np.float64]:
    return np.array([rng.uniform(-0.3, 0.3), rng.uniform(-0.3, 0.3), rng.uniform(0.0, 0.08)])


def _above(place: NDArray[np.float64], metres: float) -> NDArray[np.float64]:
    return np.asarray(place + np.array([0.0, 0.0, metres]))


def _pick_and_place(arm: _Arm) -> None:
    rng, above = arm.rng, np.array([0.0, 0.0, float(arm.rng.uniform(0.1, 0.2))])
    thing, place = _draw_place(rng), _draw_place(rng)
    arm.move("reach", thing + above)
    if rng.random() < 0.5:
        arm.move("lower", thing)
    for attempt in range(2 if rng.random() < 0.15 else 1):
        if attempt:  # the grasp has failed
            arm.close("release", False)
            arm.move("reach again", arm.here + rng.normal(0, 0.04, 3))
        arm.close("grasp", True)
    if rng.random() < 0.5:
        arm.move("lift", arm.here + above)
    arm.move("transport", place + above * rng.uniform(0.2, 1))
    if rng.random() < 0.4:
        arm.move("place", place)
    arm.close("release", False)
    if rng.random() < 0.7:
        arm.move("retreat", arm.here + above * rng.uniform(0.5, 1.5) + rng.normal(0, 0.05, 3))


def _press(arm: _Arm) -> None:
    rng, thing = arm.rng, _draw_place(arm.rng)
    above = np.array([0.0, 0.0, float(rng.uniform(0.05, 0.15))])
    arm.move("reach", thing + above)
    arm.move("lower", thing)
    arm.rest("press", float(rng.uniform(0.3, 1.5)), force=float(rng.uniform(3, 12)))
    arm.move("retreat", thing + above + rng.normal(0, 0.03, 3))


def _wipe(arm: _Arm) -> None:
    rng, thing = arm.rng, _draw_place(arm.rng)
    arm.move("reach", thing)
    force = float(rng.uniform(3, 12))
    side = rng.normal(0, 0.1, 3) * [1, 1, 0]
    for stroke in range(int(rng.integers(2, 5))):
        arm.move("wipe", thing + (side if stroke % 2 == 0 else -side), force=force)
    arm.move("retreat", _above(arm.here, float(rng.uniform(0.08, 0.2))))


def _push(arm: _Arm) -> None:
    rng, thing, place = arm.rng, _draw_place(arm.rng), _draw_place(arm.rng)
    arm.move("reach", thing)
    arm.move("push", place, force=float(rng.uniform(2, 8)))
    arm.move("retreat", arm.here + rng.normal(0, 0.05, 3) + [0, 0, 0.1])


def _act(arm: _Arm, tasks: int) -> None:
    """Some tasks in a row; one kind may be repeated, and there may be pauses before, between and after them."""
    rng = arm.rng
    kinds = (_pick_and_place, _pick_and_place, _pick_and_place, _press, _wipe, _push)
    repeated = kinds[int(rng.integers(len(kinds)))] if rng.random() < 0.3 else None
    for _ in range(tasks):
        if rng.random() < 0.4:
            arm.rest("pause", float(rng.uniform(0.5, 3)))
        (repeated or kinds[int(rng.integers(len(kinds)))])(arm)
    if rng.random() < 0.4:
        arm.rest("pause", float(rng.uniform(0.5, 3)))


def make_logged_episode(seed: int) -> LoggedEpisode:
    """The episode of a seed."""
    rng = np.random.default_rng(seed)
    sides = ("left", "right") if rng.random() < 0.35 else ("",)
    tempo = float(rng.uniform(0.9, 2.2))
    arms = [_Arm(side, rng, _above(_draw_place(rng), 0.2), tempo) for side in sides]
    for arm in arms:
        _act(arm, int(rng.integers(1, 5)))
    longest = max(arm.now for arm in arms)
    for arm in arms:
        if arm.now < longest:
            arm.rest("pause", (longest - arm.now) * _STEP)
    rate = float(rng.choice([5, 8, 10, 12.5, 15, 20, 25, 30, 40, 50, rng.uniform(5, 50)]))
    return _record(arms, rate, rng)


def _record(arms: Sequence[_Arm], rate: float, rng: np.random.Generator) -> LoggedEpisode:
    """What a drawn robot records of its arms."""
    end = ("continuous", "continuous", "binary", "binary", "hand", "none")[int(rng.integers(6))]
    choices: tuple[SignalChoice, ...] = ("state and action", "state and change", "state", "action", "change")
    choice = choices[int(rng.choice(5, p=[0.45, 0.25, 0.15, 0.1, 0.05]))]
    has_contact = bool(rng.random() < 0.4) and choice not in ("action", "change")
    duration = arms[0].now * _STEP
    seconds = np.arange(0, duration - 1e-6, 1 / rate)
    robot = _Recorder(rng, seconds, end, is_joints=bool(rng.random() < 0.6), has_contact=has_contact)
    states, actions, names = [], [], []
    for arm in arms:
        state, action, own = robot.record(arm)
        states.append(state)
        actions.append(action)
        names.append(own)
    wide = np.concatenate(states, axis=1).astype(np.float32)
    commands = np.concatenate(actions, axis=1)
    all_names = tuple(name for own in names for name in own)
    action_names = tuple(name for name in all_names if "force" not in name and "tactile" not in name)
    if "change" in choice:
        moving = np.array(["grip" not in name and "hand" not in name for name in action_names])
        commands = np.where(moving, np.diff(commands, axis=0, append=commands[-1:]), commands)
    has_action, has_state = choice != "state", choice.startswith("state")
    return LoggedEpisode(
        trajectory=Trajectory(
            timestamps=seconds,
            state=Signal(wide, all_names) if has_state else None,
            action=Signal(commands.astype(np.float32), action_names) if has_action else None,
        ),
        duration=duration,
        events=tuple(event for arm in arms for event in arm.events),
        traits={
            "arms": str(len(arms)),
            "end": end,
            "signals": choice,
            "contact": "yes" if has_contact else "no",
            "rate": "below 15 Hz" if rate < 15 else "15 Hz and more",
            "blended": "yes" if robot.is_blended else "no",
        },
    )


class _Recorder:
    """A drawn robot.

    Args:
        rng: Draws.
        seconds: (T,) when it records.
        end: Kind of its gripper.
        is_joints: Whether its path is recorded as joints, and not as the position of its end.
        has_contact: Whether it feels forces.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        seconds: NDArray[np.float64],
        end: str,
        *,
        is_joints: bool,
        has_contact: bool,
    ) -> None:
        simulated = rng.random() < 0.2
        self._rng, self._seconds, self._end, self._is_joints = rng, seconds, end, is_joints
        self._width = int(rng.integers(6, 8)) if is_joints else 3
        self._gain = float(rng.uniform(2, 4)) if is_joints else 1.0
        self._noise = 0.0 if simulated else float(10 ** rng.uniform(-4, -2.9)) * self._gain
        self._tremor = 0.0 if simulated else float(10 ** rng.uniform(-3.7, -2.7)) * self._gain
        self._lag = float(rng.uniform(0.0, 0.2))
        self._blend_seconds = float(rng.choice([0.0, rng.uniform(0.1, 0.5)]))
        self._is_degrees = is_joints and bool(rng.random() < 0.3)
        self._grip_scale = float(rng.choice([1.0, 0.08, 100.0, -1.0]))
        self._hold = float(rng.uniform(0.3, 1.0))
        self._fingers = int(rng.choice([6, 12, 16]))
        self.num_forces = int(rng.choice([3, 6, 16])) if has_contact else 0
        self._force_word = "force" if self.num_forces < 16 else "tactile"

    @property
    def is_blended(self) -> bool:
        """Whether its movements run into each other."""
        return self._blend_seconds > 0

    def record(self, arm: _Arm) -> tuple[NDArray[np.float64], NDArray[np.float64], list[str]]:
        """State, command and names of the state of an arm."""

        path, closure = self._blend(np.concatenate(arm.path)), np.concatenate(arm.closure)
        commanded, felt = self._place(path), self._place(path, self._lag)
        prefix = f"{arm.name}_" if arm.name else ""
        kind = "joint" if self._is_joints else "ee"
        names = [f"{prefix}{kind}_{n}" for n in (range(self._width) if self._is_joints else "xyz")]
        grip_state, grip_action = self._grip(closure)
        word = "hand_joint" if self._end == "hand" else "gripper"
        names += [
            f"{prefix}{word}{f'_{n}' if grip_state.shape[1] > 1 else ''}" for n in range(grip_state.shape[1])
        ]
        names += [f"{prefix}{self._force_word}_{n}" for n in range(self.num_forces)]
        state = np.concatenate([felt, grip_state, self._forces(np.concatenate(arm.force))], axis=1)
        return state, np.concatenate([commanded, grip_action], axis=1), names

    def _blend(self, path: NDArray[np.float64]) -> NDArray[np.float64]:
        """(G, 3) path of a person who begins to move before the last movement has ended, if it is such a person."""

        half = round(self._blend_seconds / _STEP / 2)
        if not half:
            return path
        padded = np.concatenate([np.repeat(path[:1], half, axis=0), path, np.repeat(path[-1:], half, axis=0)])
        sums = np.cumsum(np.concatenate([np.zeros((1, 3)), padded]), axis=0)
        return np.asarray((sums[2 * half + 1 :] - sums[: -2 * half - 1]) / (2 * half + 1))

    def _sample(self, values: NDArray[np.float64], lag: float = 0.0) -> NDArray[np.float64]:
        """(T, D) values of the grid at the recorded seconds, later by a lag."""

        grid = np.arange(len(values)) * _STEP
        return np.column_stack([np.interp(self._seconds - lag, grid, own) for own in values.T])

    def _place(self, path: NDArray[np.float64], lag: float = 0.0) -> NDArray[np.float64]:

        shaky = self._sample(path, lag)
        if self._is_joints:
            # The same arm for state and command.
            mixing = np.random.default_rng(self._width).normal(0, 1, (3, self._width)) * self._gain / 1.7
            shaky = shaky @ mixing
            shaky = shaky + 0.15 * np.sin(2 * shaky)
        shaky = (
            shaky + self._shake(len(shaky), shaky.shape[1]) + self._rng.normal(0, self._noise, shaky.shape)
        )
        return np.asarray(shaky * (57.29578 if self._is_degrees else 1.0))

    def _shake(self, steps: int, width: int) -> NDArray[np.float64]:
        """The tremor of a person who leads: slow noise."""

        rate = 1 / (self._seconds[1] - self._seconds[0])
        keep = np.exp(-2 * np.pi * 1.5 / rate)
        noise = self._rng.normal(0, 1, (steps, width))
        for step in range(1, steps):
            noise[step] = keep * noise[step - 1] + np.sqrt(1 - keep**2) * noise[step]
        return np.asarray(self._tremor * noise)

    def _grip(self, closure: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """State and command of the gripper or hand; a thing in it keeps it from closing."""

        commanded = self._sample(closure[:, None])
        felt = np.minimum(self._sample(closure[:, None], self._lag), self._hold)
        if self._end == "none":
            return np.zeros((len(felt), 0)), np.zeros((len(felt), 0))
        if self._end == "binary":
            return (felt > self._hold / 2).astype(float), (commanded > 0.3).astype(float)
        if self._end == "hand":
            ends = self._rng.uniform(-1.5, 1.5, self._fingers) + np.sign(self._rng.normal(size=self._fingers))
            noise = self._rng.normal(0, 0.01, (len(felt), self._fingers))
            return felt * ends + noise, commanded * ends
        scale = self._grip_scale
        noise = self._rng.normal(0, 0.005 if self._noise else 0.0, felt.shape)
        return np.asarray(scale * (1 - felt + noise)), np.asarray(scale * (1 - commanded))

    def _forces(self, force: NDArray[np.float64]) -> NDArray[np.float64]:

        pushed = self._sample(force[:, None], self._lag)
        shares = self._rng.normal(0, 1, self.num_forces)
        noise = self._rng.normal(0, 0.3, (len(pushed), self.num_forces))
        weight = self._rng.normal(0, 2, self.num_forces)
        return np.asarray(pushed * shares + noise + weight)


def true_boundaries(episode: LoggedEpisode, shortest: float = 0.3) -> Iterator[tuple[str, float]]:
    """The arm and second of each change in the log; changes nearer than the shortest span are one, at their middle."""
    for arm in dict.fromkeys(event.arm for event in episode.events):
        times = sorted(event.start for event in episode.events if event.arm == arm and event.start > 0)
        group: list[float] = []
        for time in [*times, float("inf")]:
            if group and time - group[0] >= shortest:
                yield arm, sum(group) / len(group)
                group = []
            group.append(time)
