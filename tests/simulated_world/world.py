"""Episodes of the drawn world: things are placed, an arm acts on one, succeeds or fails, and all of it is logged."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.simulated_world.drawing import COLOURS, SHAPES, TABLE, Picture, Placed, draw
from tests.simulated_world.events import VERBS, Event, EventKind, EventLog, Thing, Verb

RATE_HZ = 10.0
_PLACES = (18.0, 48.0, 80.0, 110.0)
_HOME = {"left": (24.0, 30.0), "right": (104.0, 30.0)}
_HELD_HEIGHT, _PUSHED = 56.0, 22.0
_MOVABLE = ("cube", "ball", "can")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldEpisode:
    """An episode with its ground truth.

    Attributes:
        seed: What it was made from.
        log: What happened.
        frames: (T, 128, 128, 3) RGB at `RATE_HZ`.
        state: (T, 6) float32: column, row and gripper of the left arm, then of the right one.
        instruction: What the robot was told; not always what it did.
    """

    seed: int
    log: EventLog
    frames: NDArray[np.uint8]
    state: NDArray[np.float32]
    instruction: str


def simulate(seed: int, given: Verb | None = None, fails: bool | None = None) -> WorldEpisode:
    """The episode of a seed; with an action and an outcome that are given, or drawn."""
    dice = random.Random(seed)
    verb: Verb = given if given else dice.choice(VERBS)
    fails = dice.random() < 0.3 if fails is None else fails
    scene = _place_things(verb, dice)
    run = _Run(scene, "left" if scene.actor.x < 64 else "right")
    if not fails and verb != "push" and dice.random() < 0.3:
        run.miss_grasp()
    {"lift": _lift, "place": _place, "push": _push, "pour": _pour, "open": _open}[verb](
        run, scene, fails, dice
    )
    run.rest()
    log = EventLog(
        verb=verb,
        thing=scene.actor.name,
        target=scene.target.name if scene.target else "",
        source=scene.tray.name if scene.tray else "",
        direction=run.direction,
        arm=run.arm,
        names=[placed.thing.name for placed in run.picture.placed],
        events=run.events,
    )
    deviates = dice.random() < 0.2
    instruction = f"touch the {scene.distractor.name}" if deviates else f"{verb} the {log.thing}"
    return WorldEpisode(
        seed=seed,
        log=log,
        frames=np.stack(run.frames),
        state=np.asarray(run.state, np.float32),
        instruction=instruction,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """Things of an episode: what is acted on, where it ends, what it stands on, and one like it of another colour."""

    actor: Thing
    target: Thing | None
    tray: Thing | None
    distractor: Thing

    @property
    def things(self) -> list[Thing]:
        return [thing for thing in (self.tray, self.target, self.distractor, self.actor) if thing]


def _place_things(verb: Verb, dice: random.Random) -> _Scene:
    kind = {"pour": "cup", "open": "box"}.get(verb) or dice.choice(_MOVABLE)
    colours = dice.sample(sorted(COLOURS), 4)
    columns = dice.sample(_PLACES, 3)
    if verb == "push":
        columns = dice.choice([[48.0, 110.0, 0.0], [80.0, 18.0, 0.0]])
    ends = {"place": "bin", "pour": "bowl"}
    actor = Thing(kind, colours[0], columns[0])
    return _Scene(
        actor=actor,
        distractor=Thing(kind, colours[1], columns[1]),
        target=Thing(ends[verb], colours[2], columns[2]) if verb in ends else None,
        tray=Thing("tray", colours[3], columns[0]) if verb == "place" and dice.random() < 0.5 else None,
    )


class _Run:
    """Moves an arm, draws every step, and logs what happens."""

    def __init__(self, scene: _Scene, arm: str) -> None:
        placed = [Placed(thing, thing.x, TABLE) for thing in scene.things]
        if scene.tray:
            placed[-1].bottom -= SHAPES["tray"][1]
        self.picture = Picture(placed, dict(_HOME), {"left": 0.0, "right": 0.0})
        self.actor, self.arm, self.direction = placed[-1], arm, ""
        self.frames: list[NDArray[np.uint8]] = []
        self.state: list[list[float]] = []
        self.events: list[Event] = []
        self._held = False
        self._target = scene.target.name if scene.target else ""
        self.rest()

    def rest(self, steps: int = 3) -> None:
        """Wait."""
        for _ in range(steps):
            self.frames.append(draw(self.picture))
            closed = self.picture.closed
            self.state.append([v for arm, tip in self.picture.tips.items() for v in (*tip, closed[arm])])

    def move(self, x: float, y: float, steps: int = 6) -> None:
        """Move the tips of the arm, with what it holds, in a straight line."""
        start = self.picture.tips[self.arm]
        for share in np.linspace(0, 1, steps + 1)[1:]:
            tip = (start[0] + share * (x - start[0]), start[1] + share * (y - start[1]))
            self.picture.tips[self.arm] = tip
            if self._held:
                self.actor.x, self.actor.bottom = tip
            self.rest(1)

    def reach(self) -> None:
        """Go to the thing that is acted on, from above."""
        self.move(self.actor.x, self.actor.bottom - 40)
        self.move(self.actor.x, self.actor.bottom)

    def grip(self, holds: bool) -> None:
        """Close the gripper, with or without the thing in it."""
        self.picture.closed[self.arm] = 1.0
        self._held = holds
        self.log("grasp" if holds else "slip")
        self.rest(2)

    def let_go(self) -> None:
        """Open the gripper; what it holds falls onto the table."""
        self.picture.closed[self.arm] = 0.0
        self._held = False
        self.actor.bottom = TABLE
        self.rest(2)

    def miss_grasp(self) -> None:
        """Try, lose the thing, and go back up."""
        self.reach()
        self.grip(holds=False)
        self.move(self.actor.x, self.actor.bottom - 30)
        self.picture.closed[self.arm] = 0.0

    def log(self, kind: EventKind, *, target: str = "") -> None:
        """Add an event at this step."""
        self.events.append(
            Event(
                step=len(self.frames),
                kind=kind,
                thing=self.actor.thing.name,
                target=target,
                direction=self.direction,
            )
        )


def _lift(run: _Run, scene: _Scene, fails: bool, dice: random.Random) -> None:
    run.reach()
    run.grip(holds=not fails)
    run.move(run.actor.x, _HELD_HEIGHT)
    if not fails:
        run.log("rise")


def _place(run: _Run, scene: _Scene, fails: bool, dice: random.Random) -> None:
    target = _required(scene.target)
    run.reach()
    run.grip(holds=True)
    run.move(run.actor.x, _HELD_HEIGHT)
    x = target.x if not fails else _free_column(scene, dice)
    run.move(x, _HELD_HEIGHT)
    run.move(x, TABLE - 20)
    run.let_go()
    run.log("release", target=target.name if not fails else "table")
    run.move(x, 40)


def _push(run: _Run, scene: _Scene, fails: bool, dice: random.Random) -> None:
    sign = 1 if run.actor.x < 64 else -1
    run.direction = "right" if sign > 0 else "left"
    run.move(run.actor.x - sign * 16, 70)
    run.move(run.actor.x - sign * 16, TABLE)
    for _ in range(8):
        tip = run.picture.tips[run.arm]
        if not fails:
            run.actor.x += sign * _PUSHED / 8
        run.move(tip[0] + sign * (_PUSHED / 8 if not fails else 0.3), tip[1], steps=1)
    run.log("stall" if fails else "push")


def _pour(run: _Run, scene: _Scene, fails: bool, dice: random.Random) -> None:
    target = _required(scene.target)
    run.reach()
    run.grip(holds=True)
    run.move(run.actor.x, _HELD_HEIGHT)
    x = target.x if not fails else _free_column(scene, dice)
    run.move(x, _HELD_HEIGHT)
    run.actor.is_tilted = True
    for row in range(64, 110, 6):
        run.picture.grains.append((x, float(row if fails else min(row, 102))))
        run.rest(1)
    run.log("spill" if fails else "pour", target="table" if fails else target.name)


def _open(run: _Run, scene: _Scene, fails: bool, dice: random.Random) -> None:
    height = SHAPES["box"][1]
    run.move(run.actor.x, run.actor.bottom - height - 30)
    run.move(run.actor.x, run.actor.bottom - height)
    for share in (0.2, 0.4, 0.6, 0.8, 1.0):
        run.actor.lid = share
        run.move(run.actor.x, run.actor.bottom - height - 16 * share, steps=1)
    run.actor.lid = 0.0 if fails else 1.0
    run.log("fall_shut" if fails else "open")


def _free_column(scene: _Scene, dice: random.Random) -> float:
    """A place on the table where nothing stands."""
    return dice.choice([x for x in _PLACES if all(abs(thing.x - x) > 1 for thing in scene.things)])


def _required(thing: Thing | None) -> Thing:
    assert thing, "this action has a place to end"
    return thing
