"""The drawn world itself: its log is what its frames and signals show."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.simulated_world.events import COMPLETES, VERBS, EventLog, Verb, false_criteria, true_claim
from tests.simulated_world.faults import FAULTS, faulty_captions, unmade_faults
from tests.simulated_world.pixel_judge import watch
from tests.simulated_world.world import simulate


@pytest.fixture(scope="module")
def first_seed() -> int:
    """Printed where a test fails."""
    seed = random.randrange(10**6)
    print(f"first seed {seed}")
    return seed


@pytest.fixture(scope="module")
def logs(first_seed: int) -> list[EventLog]:
    return [simulate(seed).log for seed in range(first_seed, first_seed + 60)]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("number", range(8))
def test_what_the_frames_show_is_what_the_log_says(first_seed: int, verb: Verb, number: int) -> None:
    seed = first_seed + number
    done, failed = simulate(seed, verb, fails=False), simulate(seed, verb, fails=True)
    seen = watch(list(done.frames))
    assert seen is not None
    truth = true_claim(done.log)
    assert (seen.verb, seen.colour, seen.kind) == (truth.verb, truth.colour, truth.kind)
    assert (seen.target, seen.direction) == (truth.target, truth.direction)
    assert done.log.succeeded and not failed.log.succeeded
    assert not np.array_equal(done.frames[-1], failed.frames[-1]), "a failure can be seen at its end"


@pytest.mark.parametrize("number", range(8))
def test_an_event_stands_at_the_step_of_its_frames(first_seed: int, number: int) -> None:
    made = simulate(first_seed + number, "open", fails=False)
    (event,) = [event for event in made.log.events if event.kind == COMPLETES["open"]]
    rows = [np.nonzero((frame == frame[0, 0]).all(axis=2).all(axis=1))[0] for frame in made.frames]
    assert 0 < event.step <= len(rows) == len(made.state)
    lids = [watch([made.frames[0], frame]) for frame in made.frames]
    assert lids[0] is None and lids[event.step - 1] is not None


def test_the_same_seed_makes_the_same_episode(first_seed: int) -> None:
    first, second = simulate(first_seed), simulate(first_seed)
    assert first.log == second.log and np.array_equal(first.frames, second.frames)


def test_the_world_has_failures_missed_grasps_and_instructions_that_were_not_followed(
    first_seed: int,
) -> None:
    made = [simulate(seed) for seed in range(first_seed, first_seed + 200)]
    assert any(not episode.log.succeeded for episode in made)
    assert any(
        episode.log.succeeded and any(event.kind == "slip" for event in episode.log.events)
        for episode in made
    )
    assert any(episode.instruction.startswith("touch") for episode in made)
    assert {episode.log.arm for episode in made} == {"left", "right"}


def test_the_truth_breaks_no_criterion_and_every_fault_breaks_its_own(
    logs: list[EventLog], first_seed: int
) -> None:
    assert not any(false_criteria(true_claim(log), log) for log in logs)
    assert not unmade_faults(logs, seed=first_seed)


def test_what_happens_to_be_true_is_no_fault(logs: list[EventLog], first_seed: int) -> None:
    dice = random.Random(first_seed)
    kept = [caption.claim for log in logs for caption in faulty_captions(log, dice) if caption.fault == "arm"]
    assert 0 < len(kept) < len(logs), "about half of the arms that are named did act"


def test_a_broken_generator_is_noticed(logs: list[EventLog], first_seed: int) -> None:
    unchanged = {**FAULTS, "colour": ("ATTRIBUTES", lambda claim, log, dice: claim)}
    assert "colour" in unmade_faults(logs, first_seed, unchanged)
    other = {**FAULTS, "colour": ("ATTRIBUTES", FAULTS["object"][1])}
    assert "colour" in unmade_faults(logs, first_seed, other)
