"""Records episodes of robots in the simulators pybullet, robosuite and gymnasium-robotics, for scores of the checks.

pip install pybullet numpy; pip download --no-deps example-robot-data and unpack it     # in an environment apart
python benchmarks/simulated_robots.py OUT --package pybullet --robots FOLDER-OF-URDF
pip install robosuite gymnasium-robotics numpy                                        # in another one
python benchmarks/simulated_robots.py OUT --package robosuite

The robots move by scripts with random goals, as a person or a planner leads them. Which part a dataset belongs to
follows from the hash of package and robot: no robot of the test part is in another part. Written and committed before
any check saw its episodes.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Action = Literal["joints", "delta", "pose", "pose delta", "velocity", "native"]
Part = Literal["development", "thresholds", "test", "second test"]
# Of four parts by hash two are the test.
_PARTS: tuple[Part, ...] = ("development", "thresholds", "test", "test")
_FEWEST_STEPS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDataset:
    """A dataset to be recorded.

    Attributes:
        package: The simulator.
        robot: Its robot, or environment.
        task: What distinguishes it from others of the robot.
        state: What the state holds: joints, the pose of the end effector, or all that the simulator has.
        action: What the action holds.
        rate_hz: Steps per second.
        style: How the robot is led.
        episodes: How many are recorded.
        noise: Standard deviation of the readings in radians.
        clock: Spread of the stamps as a share of the period.
        degrees: Whether joints are recorded in degrees.
        is_named: Whether the dimensions have names.
        is_second: Whether it was recorded after the look at the test part, for a second one.
    """

    package: str
    robot: str
    task: str
    state: Literal["joints", "pose", "flat"] = "joints"
    action: Action = "joints"
    rate_hz: float = 20.0
    style: Literal["planner", "trapezoid", "person"] = "planner"
    episodes: int = 10
    noise: float = 0.0
    clock: float = 0.0
    degrees: bool = False
    is_named: bool = True
    is_second: bool = False

    @property
    def name(self) -> str:
        """Name of its file without ending."""
        return re.sub(r"\W+", "-", f"{self.package}-{self.robot}-{self.task}").lower()

    @property
    def part(self) -> Part:
        """The part of the score that it belongs to."""
        digest = hashlib.sha256(f"{self.package}/{self.robot}".encode()).digest()
        return "second test" if self.is_second else _PARTS[digest[0] % len(_PARTS)]


def _bullet(robot: str, task: str, **values: Any) -> SimulatedDataset:
    return SimulatedDataset(package="pybullet", robot=robot, task=task, **values)


def _suite(robot: str, task: str, **values: Any) -> SimulatedDataset:
    return SimulatedDataset(package="robosuite", robot=robot, task=task, **values)


def _gym(robot: str, task: str, **values: Any) -> SimulatedDataset:
    return SimulatedDataset(package="gymnasium-robotics", robot=robot, task=task, **values)


DATASETS: tuple[SimulatedDataset, ...] = (
    _bullet("so100", "place", rate_hz=30, style="person", noise=0.001, clock=0.02, degrees=True),
    _bullet("z1", "sort", rate_hz=15, style="person", noise=0.0005),
    _bullet("ur5_joint_limited_robot", "stack", action="delta", rate_hz=10, style="trapezoid"),
    _bullet("ur3_joint_limited_robot", "wipe", state="pose", action="pose", rate_hz=25),
    _bullet("kinova", "pour", rate_hz=40, style="person", noise=0.0003, clock=0.03),
    _bullet("xarm7", "insert", rate_hz=60, style="trapezoid", noise=0.0001),
    _bullet("baxter", "fold", rate_hz=12.5, style="person", noise=0.001),
    _bullet("tiago", "shelve", action="velocity", rate_hz=20),
    _bullet("panda", "press", state="pose", action="pose delta", rate_hz=15, style="person"),
    _bullet("pr2", "open", rate_hz=24, style="planner", noise=0.0005, episodes=6),
    _bullet("talos_left_arm", "reach", rate_hz=50, style="person", is_named=False),
    _bullet("romeo_small", "wave", rate_hz=33, style="trapezoid", episodes=5),
    _suite("UR5e", "Lift", action="native"),
    _suite("IIWA", "Stack", action="native", state="pose"),
    _suite("Kinova3", "Door", action="native", rate_hz=10),
    _suite("Jaco", "Lift", action="native", state="flat"),
    _suite("Sawyer", "NutAssemblySquare", action="native", state="flat", rate_hz=10),
    _suite("Panda", "PickPlaceCan", action="native", rate_hz=25),
    _gym("FetchPickAndPlace-v4", "pick", action="native", rate_hz=25),
    _gym("FetchPush-v4", "push", action="native", rate_hz=25, is_named=False),
    _gym("AdroitHandDoor-v1", "door", action="native", rate_hz=25),
    _gym("AdroitHandRelocate-v1", "relocate", action="native", rate_hz=25),
    _gym("FrankaKitchen-v1", "kitchen", action="native", rate_hz=12.5),
    _gym("HandReach-v3", "fingers", action="native", rate_hz=25),
    _bullet(
        "so101", "clean", is_second=True, rate_hz=30, style="person", noise=0.001, clock=0.02, degrees=True
    ),
    _bullet(
        "ur10_joint_limited_robot", "load", is_second=True, action="delta", rate_hz=20, style="trapezoid"
    ),
    _bullet("icub", "wave", is_second=True, rate_hz=50, style="person", noise=0.0005),
    _bullet("tiago_pro", "serve", is_second=True, rate_hz=15, style="planner", episodes=8),
    _bullet("alex_nub_hands", "carry", is_second=True, rate_hz=25, style="person", noise=0.001),
    _bullet("centauro", "lift", is_second=True, action="velocity", rate_hz=20, style="person"),
    _bullet("b1-z1", "fetch", is_second=True, rate_hz=30, style="trapezoid", noise=0.0002),
    _bullet("anymal-kinova", "turn", is_second=True, rate_hz=40, is_named=False, style="person"),
    _suite("XArm7", "PickPlaceBread", is_second=True, action="native", rate_hz=15),
    _suite("XArm7", "Stack", is_second=True, action="native", state="flat"),
    _suite("XArm7", "Wipe", is_second=True, action="native", state="pose", rate_hz=10),
    _gym("AdroitHandHammer-v1", "hammer", is_second=True, action="native", rate_hz=25),
    _gym("AdroitHandPen-v1", "pen", is_second=True, action="native", rate_hz=25),
    _gym("FetchSlide-v4", "slide", is_second=True, action="native", rate_hz=25),
    _gym("FetchReach-v4", "reach", is_second=True, action="native", rate_hz=25, is_named=False),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recording:
    """State (T, S) and action (T, A) of an episode, its task, and the names of the dimensions."""

    state: Array
    action: Array
    task: str
    state_names: Sequence[str]
    action_names: Sequence[str]


def via_points(
    dataset: SimulatedDataset,
    rng: np.random.Generator,
    home: Array,
    goals: Sequence[tuple[Array, float]],
    speed: float,
) -> Array:
    """(T, J + 1) commanded joints and opening: from home over the goals and back, with rests as the style has them.

    Args:
        dataset: Its rate and style.
        rng: Draws durations, rests and a tremor.
        home: (J,) where the episode begins and ends.
        goals: Joints (J,) to go to, and the opening after arriving there.
        speed: Radians per second of the joint that has the longest way, at the most.
    """
    import numpy as np

    rate, rows, here, opening = dataset.rate_hz, [], home, 1.0
    for goal, after in (*goals, (home, 1.0)):
        seconds = max(0.5, float(np.abs(goal - here).max()) / speed * rng.uniform(1.0, 1.8))
        phase = np.linspace(0, 1, max(2, round(seconds * rate)))[1:, None]
        share = phase**3 * (10 - 15 * phase + 6 * phase**2)
        if dataset.style == "trapezoid":
            share = np.clip((phase - 0.05) / 0.9, 0, 1)
        rows.append(np.hstack([here + (goal - here) * share, np.full((len(phase), 1), opening)]))
        here, rest = goal, round(rng.uniform(0.2, 0.7) * rate)
        ramp = np.linspace(opening, after, max(rest, 2))[:, None]
        rows.append(np.hstack([np.repeat(here[None], len(ramp), axis=0), ramp]))
        opening = after
    values = np.concatenate(rows)
    return _with_tremor(values, rate, rng) if dataset.style == "person" else np.asarray(values)


def _with_tremor(values: Array, rate_hz: float, rng: np.random.Generator) -> Array:
    """(T, J + 1) the joints with slow random deviations, which begin and end with 0."""
    import numpy as np

    joints = values[:, :-1]
    tremor, width = rng.normal(0, 1, joints.shape), max(2, round(0.4 * rate_hz))
    for _ in range(2):
        tremor = np.stack([np.convolve(part, np.ones(width) / width, "same") for part in tremor.T], axis=1)
    scale = 0.02 * np.ptp(joints, axis=0) / np.maximum(tremor.std(axis=0), 1e-9)
    moved = joints + tremor * scale * np.sin(np.pi * np.linspace(0, 1, len(values)))[:, None]
    return np.hstack([moved, values[:, -1:]])


class Arm(Protocol):
    """A robot whose joints have names, and whose end effector is somewhere at joint values (J,)."""

    names: list[str]

    def pose(self, values: Array) -> Array:
        """(6,) position and Euler angles of the end effector."""
        ...


class UnstableWorldError(Exception):
    """A simulation does what no robot can: its episodes are no clean data."""


# The fastest joints of robot arms turn at 10 to 12 rad/s.
_MOST_SPEED = 4 * 3.14159265


def refuse_unstable(robot: str, speeds: Iterable[float]) -> None:
    """Raise UnstableWorldError where a led joint is faster than that of any arm, at a step of the simulation itself.

    The rule is of physics: what a check says of the episodes has no part in it.

    Args:
        robot: Its name, for the message.
        speeds: Of the joints that are led, in radians or metres per second.
    """
    too_fast = next((speed for speed in speeds if not abs(speed) <= _MOST_SPEED), None)
    if too_fast is not None:
        raise UnstableWorldError(
            f"{robot}: a joint moves at {abs(too_fast):.0f} rad/s, the most is {_MOST_SPEED:.1f}"
        )


@dataclass(slots=True)
class _BulletArm:
    """A robot of pybullet: its joints, limits, and a second body on which poses are computed."""

    client: Any
    body: int
    shadow: int
    joints: list[int]
    names: list[str]
    low: Array
    high: Array
    tip: int

    def pose(self, values: Array) -> Array:
        """(6,) position and Euler angles of the end effector at joint values (J,)."""
        import numpy as np

        for joint, value in zip(self.joints, values, strict=True):
            self.client.resetJointState(self.shadow, joint, float(value))
        link = self.client.getLinkState(self.shadow, self.tip, computeForwardKinematics=True)
        return np.array([*link[4], *self.client.getEulerFromQuaternion(link[5])])


_LEAST_SPAN, _MOST_JOINTS = 0.3, 14
_SKIPPED_JOINTS = re.compile(
    r"grip|finger|wheel|caster|leg|hip|knee|ankle|head|laser|toe|eye|foot|torso", re.I
)


def _load_arm(folder: Path, robot: str) -> _BulletArm:
    import numpy as np

    client = import_module("pybullet")
    source = next(path for path in sorted(folder.rglob("*.urdf")) if path.stem == robot)
    # Shapes need files that are not there, and no dynamics.
    text = re.sub(r"<(visual|collision)\b.*?</\1>", "", source.read_text("utf-8"), flags=re.S)
    path = Path(tempfile.mkdtemp()) / f"{robot}.urdf"
    path.write_text(text, "utf-8")
    if not client.isConnected():
        client.connect(client.DIRECT)
    client.resetSimulation()
    client.setGravity(0, 0, -9.81)
    body, shadow = (client.loadURDF(str(path), useFixedBase=True) for _ in range(2))
    infos = [client.getJointInfo(body, number) for number in range(client.getNumJoints(body))]
    kept: list[int] = []
    for number, info in enumerate(infos):
        client.setJointMotorControl2(body, number, client.POSITION_CONTROL, targetPosition=0, force=1e4)
        is_joint = info[2] == client.JOINT_REVOLUTE and not _SKIPPED_JOINTS.search(info[1].decode())
        if is_joint and len(kept) < _MOST_JOINTS:
            kept.append(number)
    low, high = (np.array([infos[number][part] for number in kept], float) for part in (8, 9))
    free = high - low < _LEAST_SPAN
    low, high = (
        np.where(free, -np.pi, np.maximum(low, -np.pi)),
        np.where(free, np.pi, np.minimum(high, np.pi)),
    )
    names = [infos[number][1].decode() for number in kept]
    return _BulletArm(client, body, shadow, kept, names, low, high, kept[-1])


def record_bullet(dataset: SimulatedDataset, folder: Path) -> list[Recording]:
    """Episodes of a robot whose joints are led over random goals by motors that are late, as each robot's are."""
    import numpy as np

    rng = np.random.default_rng(int(hashlib.sha256(dataset.name.encode()).hexdigest()[:8], 16))
    arm = _load_arm(folder, dataset.robot)
    middle, half = (arm.low + arm.high) / 2, (arm.high - arm.low) / 2
    home = middle + half * rng.uniform(-0.4, 0.4, len(half))
    places = [np.clip(home + rng.normal(0, 0.4, len(half)), arm.low, arm.high) for _ in range(3)]
    gain, tasks = (
        float(rng.uniform(0.03, 0.2)),
        (f"{dataset.task} from left to right", f"{dataset.task} back"),
    )
    recordings = []
    for number in range(dataset.episodes):
        order = [0, 1, 2] if number % 3 else [1, 0, 2]
        start = home + rng.normal(0, 0.005, len(home))
        goals = [
            (np.clip(places[place] + rng.normal(0, 0.1, len(home)), arm.low, arm.high), opening)
            for place, opening in zip(order, (0.1, 1.0, 1.0), strict=True)
        ]
        command = via_points(dataset, rng, start, goals, 1.2)
        measured = _follow_command(dataset, arm, command, gain)
        measured[:, :-1] += rng.normal(0, dataset.noise, measured[:, :-1].shape)
        recordings.append(record_signals(dataset, arm, command, measured, tasks[0 if number % 3 else 1]))
    return recordings


def _follow_command(dataset: SimulatedDataset, arm: _BulletArm, command: Array, gain: float) -> Array:
    """(T, J + 1) where the joints are before each command, and a gripper that opens and closes at its own speed."""
    import numpy as np

    for joint, value in zip(arm.joints, command[0], strict=False):
        arm.client.resetJointState(arm.body, joint, float(value))
    substeps, rows, opening = max(1, round(240 / dataset.rate_hz)), [], float(command[0, -1])
    for target in command:
        states = arm.client.getJointStates(arm.body, arm.joints)
        rows.append([*(state[0] for state in states), opening])
        arm.client.setJointMotorControlArray(
            arm.body,
            arm.joints,
            arm.client.POSITION_CONTROL,
            targetPositions=target[:-1].tolist(),
            positionGains=[gain] * len(arm.joints),
            forces=[500.0] * len(arm.joints),
        )
        for _ in range(substeps):
            arm.client.stepSimulation()
            moving = arm.client.getJointStates(arm.body, arm.joints)
            refuse_unstable(dataset.robot, (state[1] for state in moving))
        opening += float(
            np.clip(max(target[-1], 0.25) - opening, -2.0 / dataset.rate_hz, 2.0 / dataset.rate_hz)
        )
    return np.array(rows)


def record_signals(
    dataset: SimulatedDataset, arm: Arm, command: Array, measured: Array, task: str
) -> Recording:
    """What is recorded of an episode, in the kinds of state and action that the dataset has."""
    import numpy as np

    pose_names = ["x", "y", "z", "roll", "pitch", "yaw", "gripper"]
    joint_names = [*arm.names, "gripper"]
    scale = np.array([*[180 / np.pi if dataset.degrees else 1.0] * len(arm.names), 1.0])

    def posed(values: Array) -> Array:
        poses = np.array([arm.pose(row[:-1]) for row in values])
        poses[:, 3:] = np.unwrap(poses[:, 3:], axis=0)
        return np.hstack([poses, values[:, -1:]])

    state = measured * scale if dataset.state == "joints" else posed(measured)
    if dataset.action.startswith("pose"):
        action, names = posed(command), pose_names
    else:
        action, names = command * scale, joint_names
    if dataset.action in ("delta", "pose delta", "velocity"):
        opening = action[:, -1:]
        action = np.vstack([np.diff(action[:, :-1], axis=0), np.zeros((1, action.shape[1] - 1))])
        action = np.hstack([action * (dataset.rate_hz if dataset.action == "velocity" else 1.0), opening])
    state_names = joint_names if dataset.state == "joints" else pose_names
    return Recording(state=state, action=action, task=task, state_names=state_names, action_names=names)


def record_suite(dataset: SimulatedDataset, folder: Path) -> list[Recording]:
    """Episodes of robosuite: the end effector is led to the object and away, by its default controller."""
    import numpy as np

    suite = import_module("robosuite")
    env = suite.make(
        dataset.task,
        robots=dataset.robot,
        has_renderer=False,
        has_offscreen_renderer=False,
        use_camera_obs=False,
        control_freq=dataset.rate_hz,
        horizon=100_000,
        seed=7,
    )
    rng = np.random.default_rng(7)
    tasks = [dataset.task if number % 4 else f"{dataset.task} again" for number in range(dataset.episodes)]
    return [_suite_episode(dataset, env, rng, task) for task in tasks[:8]]


def _suite_episode(dataset: SimulatedDataset, env: Any, rng: np.random.Generator, task: str) -> Recording:
    import numpy as np

    observed, rows, actions, names = env.reset(), [], [], list[str]()
    phases = [
        (key, round(rng.uniform(1.2, 2.2) * dataset.rate_hz)) for key in ("above", "down", "hold", "away")
    ]
    away = rng.uniform([-0.1, -0.2, 0.1], [0.1, 0.2, 0.25])
    goal = _object_place(observed, observed["robot0_eef_pos"] + rng.uniform(-0.15, 0.15, 3))
    width = len(env.action_spec[0])
    smooth = np.zeros(width)
    for phase in (key for key, steps in phases for _ in range(steps)):
        offset = {"above": np.array([0, 0, 0.12]), "away": away}.get(phase, np.array([0, 0, 0.01]))
        smooth = 0.9 * smooth + 0.1 * rng.normal(0, 1, width)
        action = 0.25 * smooth
        action[:3] += np.clip(6 * (goal + offset - observed["robot0_eef_pos"]), -1, 1)
        if width > 6:
            action[6:] = 1.0 if phase in ("hold", "away") else -1.0
        action = np.clip(action, -1, 1)
        state, names = _suite_state(dataset, env, observed)
        rows.append(state)
        actions.append(action)
        observed = env.step(action)[0]
    axes = ["x", "y", "z", "roll", "pitch", "yaw", "gripper"]
    named = axes[:width] if dataset.state == "pose" else [f"actions_{number}" for number in range(width)]
    return Recording(
        state=np.array(rows), action=np.array(actions), task=task, state_names=names, action_names=named
    )


def _object_place(observed: Mapping[str, Any], default: Array) -> Array:
    """(3,) where the first object of the observation is, or the default without one."""
    import numpy as np

    keys = [key for key in observed if re.search(r"(?<!eef)_pos$|handle_pos$", key) and "robot" not in key]
    return np.asarray(observed[keys[0]] if keys else default, float)


def _suite_state(dataset: SimulatedDataset, env: Any, observed: Mapping[str, Any]) -> tuple[Array, list[str]]:
    import numpy as np

    if dataset.state == "flat":
        return np.asarray(env.sim.get_state().flatten()), _flat_names(env.sim.model)
    fingers = np.asarray(observed["robot0_gripper_qpos"])[:2]
    names = [f"gripper_{number}" for number in range(len(fingers))]
    if dataset.state == "pose":
        pose = np.hstack([observed["robot0_eef_pos"], observed["robot0_eef_quat"], fingers])
        return pose, ["x", "y", "z", "qx", "qy", "qz", "qw", *names]
    joints = np.array(env.robots[0]._joint_positions)
    return np.hstack([joints, fingers]), [*(f"joint_{number}" for number in range(len(joints))), *names]


def _flat_names(model: Any) -> list[str]:
    """Names of time, positions and speeds of the joints of MuJoCo, a free joint with seven and six.

    Joints of objects begin with `object_`, as the ingester of these files has them.
    """
    positions: list[str] = []
    speeds: list[str] = []
    for name in model.joint_names:
        address = model.get_joint_qpos_addr(name)
        name = name if name.startswith(("robot", "gripper")) else f"object_{name}"
        if isinstance(address, tuple):
            positions += [f"{name}_{part}" for part in ("x", "y", "z", "qw", "qx", "qy", "qz")]
            speeds += [f"{name}_{part}" for part in ("vx", "vy", "vz", "wx", "wy", "wz")]
        else:
            positions.append(name)
            speeds.append(f"{name}_vel")
    return ["time", *positions, *speeds]


def record_gym(dataset: SimulatedDataset, folder: Path) -> list[Recording]:
    """Episodes of gymnasium-robotics: Fetch is led to its object and goal, the others by smooth random commands."""
    import numpy as np

    gymnasium = import_module("gymnasium")
    gymnasium.register_envs(import_module("gymnasium_robotics"))
    env = gymnasium.make(dataset.robot, max_episode_steps=10_000).unwrapped
    rng, recordings = np.random.default_rng(11), []
    for number in range(dataset.episodes):
        observed, _ = env.reset(seed=number)
        steps, width = int(rng.integers(90, 160)), env.action_space.shape[0]
        smooth, drift, rows, actions = np.zeros(width), np.zeros(width), [], []
        for step in range(steps):
            drift = 0.85 * drift + 0.15 * rng.normal(0, 1.2, width)
            smooth = 0.7 * smooth + 0.3 * drift
            action = smooth.copy()
            if "Fetch" in dataset.robot:
                action = _fetch_action(observed, step / steps, smooth)
            action = np.clip(action, env.action_space.low, env.action_space.high)
            state, names = _gym_state(env)
            rows.append(state)
            actions.append(action)
            observed = env.step(action)[0]
        recordings.append(
            Recording(
                state=np.array(rows),
                action=np.array(actions, float),
                task=dataset.task,
                state_names=names,
                action_names=[f"actions_{number}" for number in range(width)],
            )
        )
    return recordings


def _fetch_action(observed: Any, share: float, smooth: Array) -> Array:
    """(4,) towards the object, then with closed fingers to the goal."""
    import numpy as np

    here, thing, goal = observed["observation"][:3], observed["achieved_goal"], observed["desired_goal"]
    wanted = thing + np.array([0, 0, 0.1 if share < 0.3 else 0.0]) if share < 0.55 else goal
    opening = 1.0 if share < 0.45 else -1.0
    return np.array([*np.clip(8 * (wanted - here) + 0.15 * smooth[:3], -1, 1), opening])


def _gym_state(env: Any) -> tuple[Array, list[str]]:
    """Positions of the joints that have one value, without free objects."""
    import numpy as np

    model, data = env.model, env.data
    kept = [number for number in range(model.njnt) if model.jnt_type[number] in (2, 3)]
    names = [model.joint(number).name for number in kept]
    return np.array([data.qpos[model.jnt_qposadr[number]] for number in kept]), names


_RECORDERS: Mapping[str, Callable[[SimulatedDataset, Path], list[Recording]]] = {
    "pybullet": record_bullet,
    "robosuite": record_suite,
    "gymnasium-robotics": record_gym,
}


def save_recordings(path: Path, dataset: SimulatedDataset, recordings: Sequence[Recording]) -> None:
    """Write the episodes of a dataset to an npz file, with stamps as its clock has them."""
    import numpy as np

    rng, arrays, first = np.random.default_rng(3), {}, recordings[0]
    for number, recording in enumerate(recordings):
        periods = np.full(len(recording.state), 1 / dataset.rate_hz)
        seconds = np.cumsum(periods * (1 + dataset.clock * rng.normal(0, 1, len(periods)).clip(-3, 3)))
        arrays[f"seconds_{number}"] = seconds - seconds[0] if dataset.clock else np.cumsum(periods) - periods
        arrays[f"state_{number}"] = recording.state.astype(np.float32)
        arrays[f"action_{number}"] = recording.action.astype(np.float32)
    names = [first.state_names, first.action_names]
    if not dataset.is_named:
        names = [
            [f"{signal}s_{n}" for n in range(len(part))]
            for signal, part in zip(("state", "action"), names, strict=True)
        ]
    arrays["state_names"], arrays["action_names"] = np.array(names[0]), np.array(names[1])
    arrays["tasks"], arrays["rate_hz"] = (
        np.array([part.task for part in recordings]),
        np.array(dataset.rate_hz),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)


def main() -> None:
    """Record the datasets of a package, each to PART/NAME.npz."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--package", choices=sorted(_RECORDERS))
    parser.add_argument(
        "--robots", type=Path, default=Path(), help="folder with the URDF files of the robots"
    )
    args = parser.parse_args()
    for dataset in DATASETS:
        if dataset.package == args.package:
            try:
                recordings = _RECORDERS[dataset.package](dataset, args.robots)
            except UnstableWorldError as error:
                print("refused", dataset.name, error, flush=True)
                continue
            short = sum(len(part.state) < _FEWEST_STEPS for part in recordings)
            save_recordings(
                args.out / dataset.part.replace(" ", "-") / f"{dataset.name}.npz", dataset, recordings
            )
            print(
                dataset.part,
                dataset.name,
                len(recordings),
                recordings[0].state.shape,
                f"{short} short",
                flush=True,
            )


if __name__ == "__main__":
    main()
