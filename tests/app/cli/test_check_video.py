"""`ares check --video`: it decodes the videos where they lie, and names the camera and the second."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from app.cli.main import main
from ares.media import encode_mp4
from tests.generators.scenes import filmed_dataset, random_scene

_SEED = 18
_BLACK_FROM = 30


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    """Four mp4 of one camera: the third is black for a while, the fourth is cut off."""
    rng = np.random.default_rng(_SEED)
    films = filmed_dataset(random_scene(rng), rng, 4)
    folder = tmp_path / "videos"
    folder.mkdir()
    for number, film in enumerate(films):
        frames = film.cameras["camera_0"].copy()
        if number == 2:
            frames[_BLACK_FROM : _BLACK_FROM + 8] = 0
        encode_mp4(frames, folder / f"video_{number}.mp4", film.rate_hz)
    cut = folder / "video_3.mp4"
    cut.write_bytes(cut.read_bytes()[:2000])
    return folder


def test_a_black_span_and_a_damaged_file_are_named(videos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", str(videos), "--video", "--json"])
    (dataset,) = json.loads(capsys.readouterr().out)["datasets"]
    assert dataset["video"]["episodes"] == 3
    (black,) = [count for count in dataset["findings"] if count["code"] == "A033"]
    (worst,) = black["worst"]
    assert worst["episode"].endswith("video_2.mp4")
    assert worst["seconds"] == pytest.approx(_BLACK_FROM / 15, abs=0.1)
    assert "video_3.mp4" in dataset["first_failure"]


def test_without_the_option_no_video_is_decoded(videos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", str(videos), "--json"])
    (dataset,) = json.loads(capsys.readouterr().out)["datasets"]
    assert "A033" not in {count["code"] for count in dataset["findings"]}


def test_many_long_recordings_are_decoded_a_few_at_a_time(
    videos: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.check.video._MOST_FRAMES", 150)
    main(["check", str(videos), "--video", "--json"])
    (dataset,) = json.loads(capsys.readouterr().out)["datasets"]
    assert dataset["video"]["episodes"] == 3
    assert "A033" in {count["code"] for count in dataset["findings"]}
