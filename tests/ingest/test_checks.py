"""The checks report planted faults with their seconds, and report nothing about a good episode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ares.checks import QualityFinding, check_record
from ares.episode import Camera, Episode, MediaRef, Record, Signal, Trajectory
from ares.settings import settings_from_environment
from ares.workspace import open_workspace
from ares_ingest.base import SourceOptions
from ares_ingest.pipeline.read import CHECKER
from tests.ingesting import ingest_paths

STEPS, RATE_HZ = 40, 10.0
MEDIA = MediaRef(
    kind="tfrecord", uri="/x", start_seconds=0.0, stop_seconds=4.0, num_frames=STEPS, rate_hz=RATE_HZ
)
CAMERA = Camera(name="front", role="front", width=64, height=64, codec="jpeg", media=MEDIA)
EPISODE = Episode(
    episode_id="0" * 16, format="rlds", dataset="d", version="1", split="train", key="0", source="/x", robot="",
    content_hash="h", instruction="open the drawer", instructions=("open the drawer",), num_steps=STEPS,
    rate_hz=RATE_HZ, rate_source="user", cameras=(CAMERA,),
)  # fmt: skip


def wave(dims: int, ahead: int = 0) -> Signal:
    steps = np.arange(STEPS)[:, None] + ahead
    values = np.sin(steps / 5 + np.arange(dims)).astype(np.float32)
    return Signal(values, tuple(f"d{dim}" for dim in range(dims)))


GOOD = Record(
    episode=EPISODE,
    trajectory=Trajectory(timestamps=np.arange(STEPS) / RATE_HZ, state=wave(7), action=wave(7, ahead=1)),
)


def raw_findings(record: Record) -> tuple[QualityFinding, ...]:
    return check_record(record.episode, record.trajectory)


def findings_of(record: Record) -> list[tuple[str, float]]:
    """Code, and signal or camera, and second of each finding."""
    return [
        (f"{finding.code} {finding.signal} {finding.dimension}".strip(), finding.seconds)
        for finding in raw_findings(record)
    ]


def test_a_good_episode_is_not_suspicious() -> None:
    assert findings_of(GOOD) == []


def test_a_clock_that_stands_or_jumps() -> None:
    times = GOOD.trajectory.timestamps.copy()
    times[20] = times[19]
    assert ("A050 clock", 1.9) in findings_of(
        replace(GOOD, trajectory=replace(GOOD.trajectory, timestamps=times))
    )
    times = GOOD.trajectory.timestamps.copy()
    times[30:] += 1.0
    assert findings_of(replace(GOOD, trajectory=replace(GOOD.trajectory, timestamps=times))) == [
        ("A016 clock", 2.9)
    ]


def test_an_action_that_is_the_measured_state_of_the_step() -> None:
    """Also where a dimension rests, and whatever the names; that of the next step is a command."""
    state = wave(7).values
    state[:, 3] = 0.5
    for names in (wave(7).names, tuple(f"c{dim}" for dim in range(7))):
        measured, command = Signal(state, wave(7).names), Signal(state.copy(), names)
        copied = replace(GOOD, trajectory=replace(GOOD.trajectory, state=measured, action=command))
        assert ("A057 action", 0.0) in findings_of(copied)
    later = Signal(np.roll(state, -1, axis=0), wave(7).names)
    shifted = replace(GOOD, trajectory=replace(GOOD.trajectory, state=measured, action=later))
    assert "A057 action" not in dict(findings_of(shifted))
    gripper = np.ones_like(state)
    gripper[STEPS // 2 :, 6] = 0.0
    switched = Signal(gripper, wave(7).names)
    still = replace(GOOD, trajectory=replace(GOOD.trajectory, state=switched, action=switched))
    assert "A057 action" not in dict(findings_of(still))


def test_a_robot_that_never_moves_is_a_fault_of_its_state() -> None:
    still = Signal(np.ones((STEPS, 7), np.float32), wave(7).names)
    record = replace(GOOD, trajectory=replace(GOOD.trajectory, state=still, action=still))
    assert findings_of(record) == [("A002 state", 0.0)]
    held = replace(GOOD, trajectory=replace(GOOD.trajectory, state=still, action=None))
    assert findings_of(held) == [("A002 state", 0.0)]
    assert findings_of(replace(GOOD, trajectory=replace(GOOD.trajectory, action=None))) == []


def test_cameras_that_are_flagged_or_short() -> None:
    black = replace(CAMERA, name="wrist", flags=("black",))
    short = replace(CAMERA, media=replace(CAMERA.media, num_frames=30))
    record = replace(GOOD, episode=replace(EPISODE, cameras=(short, black)))
    assert findings_of(record) == [
        ("A052 video front", 3.0),
        ("A033 video wrist", 0.0),
    ]


@pytest.mark.parametrize(
    ("flags", "code"),
    [(("black", "frozen"), "A033"), (("frozen", "black"), "A033"), (("frozen",), "A034")],
)
def test_a_flagged_camera_is_named_once_with_its_whole_length(flags: tuple[str, ...], code: str) -> None:
    """A black picture never changes, so its ingester also flags it as frozen."""
    media = replace(CAMERA.media, num_frames=75)
    record = replace(GOOD, episode=replace(EPISODE, cameras=(replace(CAMERA, flags=flags, media=media),)))
    (finding,) = [finding for finding in raw_findings(record) if finding.code in ("A033", "A034")]
    assert finding.code == code and finding.size == pytest.approx(7.5, abs=1 / RATE_HZ)


@pytest.mark.parametrize(
    ("text", "code"),
    [("", "A053"), ("  ", "A053"), ("None", "A054"), ("123", "A054"), ("...", "A054")],
)
def test_text_that_says_nothing(text: str, code: str) -> None:
    assert findings_of(replace(GOOD, episode=replace(EPISODE, instruction=text))) == [(code, 0.0)]
    assert findings_of(replace(GOOD, episode=replace(EPISODE, instruction="拿起杯子"))) == []


def test_an_episode_of_one_step() -> None:
    episode = replace(EPISODE, num_steps=1, cameras=())
    record = Record(episode=episode, trajectory=Trajectory(timestamps=np.zeros(1)))
    assert findings_of(record) == [("A051", 0.0)]


@pytest.mark.slow
def test_every_episode_is_checked_and_the_findings_are_a_filter(demo_samples: Path, tmp_path: Path) -> None:
    ws = open_workspace(str(tmp_path / "w"), settings_from_environment({}))
    report = ingest_paths(
        ws.stores, [str(demo_samples / "rlds")], SourceOptions(rate_hz=RATE_HZ), quiet=True
    ).counts
    (reason,) = report.warnings  # this simulator cuts actions off at 1
    assert reason == "A006 saturated: a dimension is cut off at a limit while it moves (action)"
    ids = ws.stores.tables.episodes.ids()
    assert len(ids) == 12
    assert ws.stores.annotations.find_done_subjects(CHECKER.maker_id, [*ids, "no episode"]) == ids
    assert ws.stores.tables.episodes.count("array_has_any(quality_codes, ['A006 saturated'])") == 12
    assert ws.stores.tables.episodes.count("array_has_any(quality_codes, ['A001 not-finite'])") == 0
