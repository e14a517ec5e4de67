"""The instruction audit says how many exchanged instructions it finds, and names nobody where it finds too few."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ares.review import AuditedEpisode, InstructionAudit, judge_instructions

TASKS, EPISODES, DIMENSIONS = 5, 40, 24


def audit(features: NDArray[np.float64], said: NDArray[np.int64]) -> InstructionAudit:
    """The audit of features (N, F) of episodes with the instructions of tasks (N,)."""
    episodes = [
        AuditedEpisode(episode_id=str(row), text=f"task {task}", counting=f"task {task}", content=row)
        for row, task in enumerate(said.tolist())
    ]
    empty = InstructionAudit(dataset="world", verdict="unsure")
    return judge_instructions(empty, episodes, features.astype(np.float16))


def tasks_apart(distance: float, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Features (N, F) around a centre for each task, so many deviations from each other, and the tasks (N,)."""
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(TASKS), EPISODES)
    centres = distance * np.linalg.qr(rng.normal(size=(DIMENSIONS, DIMENSIONS)))[0][:TASKS] / np.sqrt(2)
    return centres[tasks] + rng.normal(size=(len(tasks), DIMENSIONS)), tasks


def test_where_tasks_look_different_most_exchanges_are_found_and_no_other_is_named() -> None:
    features, tasks = tasks_apart(12.0)
    found = audit(features, tasks)
    assert found.verdict == "judged" and not found.findings
    assert found.power.planted == 20 and found.power.detected >= 18
    assert found.power.others == 180 and found.power.named <= 1
    assert f"found {found.power.detected} of 20 planted exchanges, named " in str(found)


def test_where_too_few_exchanges_are_found_nobody_is_named() -> None:
    features, tasks = tasks_apart(12.0)
    rng = np.random.default_rng(1)
    said = np.where(rng.random(len(tasks)) < 0.45, rng.integers(0, TASKS, len(tasks)), tasks)
    blurred = audit(features + rng.normal(scale=3.0, size=features.shape), said)
    assert blurred.verdict == "unsure" and not blurred.findings
    assert "cannot tell here" in str(blurred) and "embed with a model that knows these pictures" in str(
        blurred
    )


def test_a_small_dataset_is_tried_in_rounds_that_leave_most_instructions_as_they_are() -> None:
    features, tasks = tasks_apart(12.0)
    small = np.flatnonzero(np.arange(len(tasks)) % EPISODES < 6)
    found = audit(features[small], tasks[small])
    assert found.power.planted == 20 and found.power.others > 100
    assert found.verdict == "judged" and found.power.detected >= 14
