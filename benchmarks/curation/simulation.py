"""Demonstrations and rollouts in Meta-World, in a separate environment that has NumPy, PyAV and nothing of ARES.

    python simulation.py demonstrate OUT --task drawer-open --seed 1 --experts 62 --failures 8 [--render]
    python simulation.py roll-out POLICIES OUT --task drawer-open --seed 2 --starts 30

`demonstrate` writes OUT/TASK_NUMBER.npz with observation (T, 39), action (T, 4) and success, and beside it an mp4 of 96
pixels at 20 frames a second with --render. `roll-out` writes OUT as JSON: for each policy the successes by start.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# A step of the simulation is played in 0.05 s, as in the recipe of the reference models.
FRAMES_PER_SECOND = 20
MOST_STEPS = 200
# An episode goes on for so many steps after the goal is reached.
_STEPS_AFTER = 8
# Standard deviations of the tremor of an operator, drawn for each episode; it fades by .8 a step.
_TREMOR = (0.05, 0.2)
# A failure aims so far beside its goal, in metres.
_WRONG_BY = (0.12, 0.18)
# What a script aims at, as columns of the observation: the goal where it looks at it, else the thing.
_AIMS = {"pick-place": slice(36, 38)}
_THING = slice(4, 6)
_PIXELS = 96
# What a policy observes: hand, gripper, positions and rotations of two things, and the goal; not the step before.
OBSERVED = [*range(18), 36, 37, 38]
# A policy says so many actions, of which the first ones are executed.
EXECUTED_STEPS = 4

Act = Callable[[Any], Any]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=["demonstrate", "roll-out"])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--task", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--experts", type=int, default=0)
    parser.add_argument("--failures", type=int, default=0)
    parser.add_argument("--starts", type=int, default=0)
    parser.add_argument("--render", action="store_true")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    world = World(arguments.task, arguments.seed)
    if arguments.work == "demonstrate":
        _demonstrate(world, arguments)
    else:
        _roll_out(world, arguments)


class World:
    """A task of Meta-World with numbered starts, the same for the same seed.

    Args:
        task: Name without version, such as "drawer-open".
        seed: Of the starts.
    """

    def __init__(self, task: str, seed: int) -> None:
        self.task, self._seed = task, seed
        self._metaworld: Any = importlib.import_module("metaworld")
        self._starts: dict[int, Any] = {}
        self.env = self._part(0).train_classes[f"{task}-v3"]()

    def _part(self, number: int) -> Any:
        """Meta-World draws 50 starts of a seed."""
        if number not in self._starts:
            self._starts[number] = self._metaworld.MT1(f"{self.task}-v3", seed=1000 * self._seed + number)
        return self._starts[number]

    def expert(self) -> Act:
        """The scripted policy of the task."""
        name = "".join(word.capitalize() for word in self.task.split("-"))
        policies = importlib.import_module("metaworld.policies")
        policy: Act = getattr(policies, f"Sawyer{name}V3Policy")().get_action
        return policy

    def run(
        self, start: int, act: Act, steps: int, after: int, see: Callable[[], None] = lambda: None
    ) -> Any:
        """Observations (T, 39), actions (T, 4), and whether the goal was reached, of one episode.

        Args:
            start: Number of the start.
            act: The action of an observation.
            steps: Steps at most.
            after: Steps after the goal is reached.
            see: Called before each step.
        """
        part, number = divmod(start, 50)
        self.env.set_task(self._part(part).train_tasks[number])
        observation, _ = self.env.reset()
        observations, actions, reached = [], [], -1
        for step in range(steps):
            see()
            action = np.clip(act(observation.copy()), -1, 1).astype(np.float32)
            observations.append(observation.astype(np.float32))
            actions.append(action)
            observation, _, _, _, info = self.env.step(action)
            reached = step if reached < 0 and info["success"] else reached
            if 0 <= reached <= step - after:
                break
        return np.array(observations), np.array(actions), reached >= 0


def _demonstrate(world: World, arguments: Any) -> None:
    """Experts that succeed, then failures that fail; a start at which it went otherwise is passed over."""
    out: Path = arguments.folders[0]
    out.mkdir(parents=True, exist_ok=True)
    camera = _Camera(world.env) if arguments.render else None
    wanted = [True] * arguments.experts + [False] * arguments.failures
    start, lengths = 0, list[int]()
    for number, succeeds in enumerate(wanted):
        while True:
            rng = np.random.default_rng([arguments.seed, start])
            act = _Operator(world.expert(), rng, world.task, succeeds)
            # Failures are as long as successes, so that length does not tell one from the other.
            steps = MOST_STEPS if succeeds else int(rng.choice(lengths))
            see = camera.see if camera else lambda: None
            observations, actions, success = world.run(start, act, steps, _STEPS_AFTER, see)
            frames = camera.take() if camera else []
            start += 1
            if success == succeeds:
                break
        lengths += [len(actions)] * succeeds
        path = out / f"{world.task}_{number:03d}"
        np.savez(path.with_suffix(".npz"), observation=observations, action=actions, success=success)
        if frames:
            _write_video(path.with_suffix(".mp4"), frames)


class _Operator:
    """A scripted policy with a tremor; one that fails aims beside its goal.

    Args:
        policy: The policy.
        rng: Draws.
        task: Its task.
        succeeds: Whether it aims at its goal.
    """

    def __init__(self, policy: Act, rng: np.random.Generator, task: str, succeeds: bool) -> None:
        self._policy, self._rng = policy, rng
        self._tremor, self._shake = rng.uniform(*_TREMOR), np.zeros(4)
        angle, distance = rng.uniform(0, 2 * np.pi), rng.uniform(*_WRONG_BY)
        self._beside = np.zeros(39)
        if not succeeds:
            self._beside[_AIMS.get(task, _THING)] = distance * np.array([np.cos(angle), np.sin(angle)])

    def __call__(self, observation: Any) -> Any:
        action = np.clip(self._policy(observation + self._beside), -1, 1)
        self._shake = 0.8 * self._shake + 0.6 * self._rng.normal(0, self._tremor, 4) * [1, 1, 1, 0]
        return action + self._shake


class _Camera:
    """The camera of the reference models, rendered at twice the size and averaged.

    Args:
        env: The environment that it looks at.
    """

    def __init__(self, env: Any) -> None:
        self._mujoco: Any = importlib.import_module("mujoco")
        self._env, self._frames = env, list[Any]()
        model, size = env.model, 2 * _PIXELS
        model.vis.quality.shadowsize = model.vis.quality.offsamples = 0
        model.vis.global_.offwidth = model.vis.global_.offheight = size
        model.cam_pos[2] = [0.75, 0.075, 0.7]
        self._renderer = self._mujoco.Renderer(model, size, size)
        for flag in (self._mujoco.mjtRndFlag.mjRND_SHADOW, self._mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._renderer.scene.flags[flag] = 0

    def see(self) -> None:
        """Keep a frame of what is now."""
        self._renderer.update_scene(self._env.data, camera="corner2")
        image = self._renderer.render()[::-1, ::-1].astype(float)
        halves = image.reshape(_PIXELS, 2, _PIXELS, 2, 3).mean(axis=(1, 3))
        self._frames.append(np.rint(halves).astype(np.uint8))

    def take(self) -> list[Any]:
        """The frames since the last call."""
        frames, self._frames = self._frames, []
        return frames


def _write_video(path: Path, frames: list[Any]) -> None:
    av: Any = importlib.import_module("av")
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FRAMES_PER_SECOND)
        stream.width = stream.height = _PIXELS
        stream.pix_fmt, stream.options = "yuv420p", {"crf": "18", "g": "10"}
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def _roll_out(world: World, arguments: Any) -> None:
    policies, out = arguments.folders
    successes = {}
    for path in sorted(policies.glob("*.npz")):
        policy = Policy(dict(np.load(path)), world.task)
        results = [world.run(start, policy.begin(), MOST_STEPS, 0)[2] for start in range(arguments.starts)]
        successes[path.stem] = results
        print(world.task, path.stem, f"{np.mean(results):.2f}", file=sys.stderr, flush=True)
    out.write_text(json.dumps(successes))


class Policy:
    """A network of three layers that says a chunk of actions.

    Args:
        weights: Arrays of `benchmarks.curation.policy`: w0, b0, ... of the layers, mean and scale of what is observed,
            and the text of each task as "text TASK".
        task: The task.
    """

    def __init__(self, weights: dict[str, Any], task: str) -> None:
        self._weights, self._text = weights, weights[f"text {task}"]

    def begin(self) -> Act:
        """The actions of one episode, from its observations in turn."""
        chunk: list[Any] = []

        def act(observation: Any) -> Any:
            if not chunk:
                chunk.extend(self._say(observation)[:EXECUTED_STEPS])
            return chunk.pop(0)

        return act

    def _say(self, observation: Any) -> Any:
        """The chunk (K, 4) of an observation (39,)."""
        parts = self._weights
        values = (observation[OBSERVED] - parts["mean"]) / parts["scale"]
        values = np.concatenate([np.clip(values, -5, 5), self._text])
        layers = sum(name.startswith("w") for name in parts)
        for layer in range(layers):
            values = parts[f"w{layer}"] @ values + parts[f"b{layer}"]
            values = np.maximum(values, 0) if layer < layers - 1 else values
        return values.reshape(-1, 4)


if __name__ == "__main__":
    main()
