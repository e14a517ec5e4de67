"""Meta-World episodes with a log of phases, touch, grasp, goal and pauses, without pictures.

Runs in a separate environment, with metaworld==3.1.1, mujoco==3.3.0, scipy, packaging, and nothing of ARES:

    MUJOCO_GL=disabled python benchmarks/metaworld_events.py OUT --seeds 300:303

Writes OUT/TASK_SEED.npz with state (T, 4) of hand x, y, z and gripper, action (T, 4), the whole observation (T, 39) as
"environment_state", which is its name in LeRobot's datasets of Meta-World, rate_hz, and the log as "names" and "spans"
(E, 2) in seconds: phases of the scripted policy follow each other; touch, hold, goal, pause lie over them.
As in the recipe of the reference models a step of the simulation is played in 0.05 s.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

_STEP_SECONDS = 0.05
_MOST_STEPS = 300
_FINGERS = {"hand", "rightclaw", "rightpad", "leftclaw", "leftpad"}
_PAD_SIDES = ({"rightclaw", "rightpad"}, {"leftclaw", "leftpad"})
# A state of the log that lasts shorter is none.
_SHORTEST_STEPS = 6


def main() -> None:
    """Write an episode for each task and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", default="300:302", help="first and one past the last")
    parser.add_argument("--tasks", nargs="*", help="all when left out")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    policies = importlib.import_module("metaworld.policies")
    names = sorted(name for name in dir(policies) if name.endswith("V3Policy"))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    first, stop = map(int, arguments.seeds.split(":"))
    for number, name in enumerate(names):
        task = _task_name(name)
        if arguments.tasks and task not in arguments.tasks:
            continue
        for seed in range(first, stop):
            written = run_episode(task, getattr(policies, name)(), seed, 1000 * seed + number)
            np.savez(arguments.folder / f"{task}_{seed:03d}.npz", **written)
        print(task, flush=True)


def _task_name(policy: str) -> str:
    """ "pick-place" of "SawyerPickPlaceV3Policy"."""
    middle = policy.removeprefix("Sawyer").removesuffix("V3Policy")
    words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in middle)
    return {"peg-insertion-side": "peg-insert-side"}.get(words.strip("-"), words.strip("-"))


def run_episode(task: str, policy: Any, seed: int, draw: int) -> dict[str, Any]:
    """One episode, as arrays."""
    gym: Any = importlib.import_module("gymnasium")
    importlib.import_module("metaworld")
    env = gym.make("Meta-World/MT1", env_name=f"{task}-v3", seed=1000 + seed, disable_env_checker=True)
    observation, _ = env.reset()
    lead = _Lead(policy, np.random.default_rng(draw))
    rows: list[tuple[Any, Any, dict[str, Any]]] = []
    for step in range(_MOST_STEPS):
        action, phase = lead.act(observation, step)
        touches, holds = _feel(env.unwrapped)
        known = {
            "phase": phase,
            "touch": touches,
            "hold": holds,
            "pause": lead.is_paused,
            "goal": lead.is_done,
        }
        rows.append((observation.copy(), action, known))
        observation, _, _, truncated, info = env.step(action)
        lead.note_success(bool(info["success"]), step)
        if lead.has_ended(step) or truncated:
            break
    env.close()
    return _as_arrays(rows, int(lead.rng.choice([1, 1, 2, 4])))


class _Lead:
    """A scripted policy as a person leads: with a tremor, pauses, a dropped thing, and some time after the goal.

    Args:
        policy: The policy.
        rng: Draws.
    """

    def __init__(self, policy: Any, rng: np.random.Generator) -> None:
        self.rng, self._policy = rng, policy
        self._tremor, self._shake = float(rng.choice([0.02, 0.05, 0.15])), np.zeros(4)
        self._pauses = [
            (start, start + int(rng.integers(10, 40)))
            for start in rng.integers(0, 120, rng.integers(0, 3)).tolist()
        ]
        drop = int(rng.integers(30, 80))
        self._drop = (drop, drop + 12) if rng.random() < 0.15 else (0, 0)
        self._success_step, self._after = _MOST_STEPS, int(rng.choice(np.array([8, rng.integers(10, 40)])))
        self.is_paused = self.is_done = False

    def act(self, observation: Any, step: int) -> tuple[Any, str]:
        """The action of a step, and the phase of the policy: the lines of it that decided."""
        wanted, phase = _trace(self._policy.get_action, observation)
        action = np.clip(np.asarray(wanted, dtype=float), -1, 1)
        self.is_paused = any(start <= step < stop for start, stop in self._pauses) or self.is_done
        if self.is_paused:
            action[:3] = 0
        if self._drop[0] <= step < self._drop[1]:
            action[3] = -1
        self._shake = 0.8 * self._shake + 0.6 * self.rng.normal(0, self._tremor, 4) * [1, 1, 1, 0]
        return np.clip(action + self._shake, -1, 1).astype(np.float32), "" if self.is_paused else phase

    def note_success(self, succeeded: bool, step: int) -> None:
        """What the simulation says after a step."""
        if succeeded and not self.is_done:
            self._success_step, self.is_done = step, True

    def has_ended(self, step: int) -> bool:
        """Whether the episode is over."""
        return step >= self._success_step + self._after


def _trace(function: Callable[[Any], Any], argument: Any) -> tuple[Any, str]:
    """What a function returns, and the last line that each function of its file executed."""
    lines: dict[str, int] = {}
    file = sys.modules[function.__module__].__file__

    def note(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != file or frame.f_code.co_name == "_parse_obs":
            return None
        if event == "line":
            lines[frame.f_code.co_name] = frame.f_lineno
            if frame.f_code.co_name == "get_action":
                lines[f"get_action {frame.f_lineno}"] = 1
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        result = function(argument)
    finally:
        sys.settrace(before)
    return result, str(sorted(lines.items()))


def _feel(simulation: Any) -> tuple[bool, bool]:
    """Whether fingers touch a thing, and whether fingers of both sides touch the same one."""
    model, data = simulation.model, simulation.data
    touched: tuple[set[int], set[int]] = (set(), set())
    is_touching = False
    for contact in data.contact:
        bodies = [int(model.geom_bodyid[geom]) for geom in (contact.geom1, contact.geom2)]
        names = [model.body(body).name for body in bodies]
        for own, other, name in ((names[0], bodies[1], names[1]), (names[1], bodies[0], names[0])):
            if own in _FINGERS and name not in _FINGERS and name not in ("world", "tablelink"):
                is_touching = True
                for side, pads in zip(touched, _PAD_SIDES, strict=True):
                    side |= {other} if own in pads else set()
    return is_touching, bool(touched[0] & touched[1])


def _as_arrays(rows: list[tuple[Any, Any, dict[str, Any]]], stride: int) -> dict[str, Any]:
    """The arrays of an episode, every so many steps, with the whole log."""
    log = list(_read_log([known for _, _, known in rows]))
    phases = list(dict.fromkeys(name for name, _, _ in log if name.startswith("phase")))
    log = [(f"phase {phases.index(n)}" if n in phases else n, start, stop) for n, start, stop in log]
    observed = np.array([observation for observation, _, _ in rows], np.float32)[::stride]
    return {
        "state": observed[:, :4],
        "environment_state": observed,
        "action": np.array([action for _, action, _ in rows], np.float32)[::stride],
        "rate_hz": 1 / _STEP_SECONDS / stride,
        "duration": len(rows) * _STEP_SECONDS,
        "names": np.array([name for name, _, _ in log]),
        "spans": np.array([(start, stop) for _, start, stop in log], float).reshape(-1, 2) * _STEP_SECONDS,
    }


def _read_log(known: list[dict[str, Any]]) -> Iterator[tuple[str, int, int]]:
    """Name, first step and one past the last of each state that lasts long enough."""
    for key in ("phase", "touch", "hold", "pause", "goal"):
        for value, start, stop in _steady([row[key] for row in known]):
            if key == "phase" or value:
                yield (f"phase {value}" if key == "phase" else key), start, stop


def _steady(values: list[Any]) -> list[tuple[Any, int, int]]:
    """Runs of equal values; a run that is too short belongs to the one before it."""
    runs: list[tuple[Any, int, int]] = []
    at = 0
    for value, group in groupby(values):
        start, at = at, at + len(list(group))
        is_short = at - start < _SHORTEST_STEPS and bool(runs)
        if runs and (is_short or runs[-1][0] == value):
            runs[-1] = (runs[-1][0], runs[-1][1], at)
        else:
            runs.append((value, start, at))
    return runs


if __name__ == "__main__":
    main()
