"""The tour of Python and the recipes of docs/recipes work: the code of each page runs, block after block."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ares
from tests.annotators.served.scripted_server import CAPTION, ScriptedServer
from tests.conftest import ROOT

_CLOCK = """
import os, time
seconds, now, now_ns = int(os.environ.get("TEST_CLOCK", 0)), time.time, time.time_ns
time.time, time.time_ns = lambda: now() + seconds, lambda: now_ns() + seconds * 10**9
"""
PAGES = sorted((ROOT / "docs" / "recipes").glob("*.md"))


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.M | re.S)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with `ares` on the path and no settings of this machine."""
    programs = tmp_path / "programs"
    programs.mkdir()
    ares_program = programs / "ares"
    # A test may limit the size of the files of an export, as a full disk does, and move the clock.
    (programs / "sitecustomize.py").write_text(_CLOCK)
    ares_program.write_text(
        '#!/bin/sh\n[ "$1" != export ] || ulimit -f "${TEST_BLOCKS:-unlimited}"\n'
        f'PYTHONPATH="{programs}:{ROOT}" exec "{sys.executable}" -m ares "$@"\n'
    )
    ares_program.chmod(0o755)
    for name in [name for name in os.environ if name.startswith("ARES_") and name != "ARES_LEROBOT_PYTHON"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def run(script: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script, "recipe", *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=600,
    )


def succeed(script: str, **environ: str) -> str:
    """What a script prints that ends with status 0."""
    done = run(script, **environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def clips(folder: Path, demo_samples: Path) -> Path:
    """Four videos with the table of the page."""
    made = folder / "clips"
    made.mkdir()
    lines = (demo_samples / "video" / "metadata.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines][:4]
    with (made / "metadata.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file_name", "instruction", "success", "operator"])
        for number, row in enumerate(rows):
            shutil.copy(demo_samples / "video" / row["videos"]["front"], made / f"drawer_{number:03d}.mp4")
            writer.writerow([f"drawer_{number:03d}.mp4", row["instruction"], row["success"], "Ada"])
    return made


@pytest.fixture
def robot_data(folder: Path, demo_samples: Path) -> Path:
    """A LeRobot dataset of the simulated arm."""
    made = folder / "robot-data"
    with ares.open(folder / "source", create=True) as ws:
        ws.ingest(demo_samples / "rlds", rate_hz=20, quiet=True)
        ws.sets.create("all", where="num_steps > 0")
        ws.export("all", made, format="lerobot", quiet=True)
    return made


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_recipe_is_short(page: Path) -> None:
    assert page.read_text().count("\n") <= 80 and page.read_text().startswith("# How do I ")


@pytest.mark.slow
def test_lerobot_in_and_a_clean_split_out(folder: Path, robot_data: Path) -> None:
    printed = succeed("\n".join(blocks("recipes/lerobot", "sh")))
    parts = [
        json.loads((folder / "exports" / name / "meta" / "info.json").read_text())
        for name in ("train", "val")
    ]
    assert all(part["total_episodes"] > 0 for part in parts)
    assert sum(part["total_episodes"] for part in parts) <= 12
    assert "source key" in printed and "idle_share" in printed
    python = os.environ.get("ARES_LEROBOT_PYTHON")
    if python:
        succeed("\n".join(blocks("recipes/lerobot", "bash")), LEROBOT=str(Path(python).parent))


@pytest.mark.slow
def test_the_tutorial_ends_in_a_training(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks of sh and Python in the order of the page; those of bash install, or open a browser."""
    (folder / "app").symlink_to(ROOT / "app")
    text = (ROOT / "docs" / "tutorial.md").read_text()
    for language, block in re.findall(r"^```(sh|python)\n(.*?)^```", text, flags=re.M | re.S):
        for name, value in re.findall(r"^export (\w+)=(.+)$", block, flags=re.M):
            monkeypatch.setenv(name, value)
        if language == "python":
            exec(block, {})
        else:
            shown = succeed(block)
    printed = capsys.readouterr().out
    assert "100 % true, at least 91 % (11 answers of 1 person)" in printed and "\n4 " in printed
    assert "set: accepted-val@1\nepisodes: 2\n" in shown


@pytest.mark.slow
def test_two_datasets_become_one(folder: Path, robot_data: Path) -> None:
    robot_data.rename(folder / "first")
    with ares.open(folder / "source") as ws:
        ws.export("all", folder / "second", format="rlds", fps=10.0, quiet=True)
    (script,) = blocks("recipes/merge", "bash")
    night = {"ARES_SETTLE": "0", "ARES_NIGHT": "2026-12-01"}

    def merge() -> subprocess.CompletedProcess[str]:
        return run(script, "first", "second", "curation", "exports", **night)

    for side in ("train", "val", "val"):
        done = merge()
        assert done.returncode == 0, done.stdout + done.stderr
        info = json.loads((folder / "exports" / "2026-12-01" / side / "meta" / "info.json").read_text())
        assert info["splits"] == {side: f"0:{info['total_episodes']}"}
        if side == "train":  # as after a crash between the two exports
            shutil.rmtree(folder / "exports" / "2026-12-01" / "val")


@pytest.mark.slow
def test_twenty_captions_are_reviewed(folder: Path, clips: Path, server: ScriptedServer) -> None:
    with ares.open(folder / "curation", create=True) as ws:
        ws.ingest("clips", quiet=True)
        ws.annotate("caption", model=f"openai:MODEL@{server.url}", quiet=True)
    first, correct, use = blocks("recipes/review", "sh")
    succeed(first)
    exec(blocks("recipes/review", "python")[0], {})
    succeed(correct + use)
    texts = [row["caption"] for row in csv.DictReader((folder / "reviewed.csv").read_text().splitlines())]
    assert sorted(texts) == sorted([CAPTION] * 3 + ["push the green drawer closed"])


def test_own_files_are_read_by_a_spec_and_a_table(folder: Path) -> None:
    data = folder / "recordings" / "push_the_drawer"
    data.mkdir(parents=True)
    values = np.random.default_rng(0).random((2, 30, 4)).cumsum(axis=1)
    eye = np.zeros((30, 8, 8, 3), np.uint8)
    eye[..., 2] = 200
    for name, q in zip("ab", values, strict=True):
        stamp = np.arange(30) * 100_000_000
        np.savez(data / f"{name}.npz", q=q, u=np.roll(q, -1, 0), stamp=stamp, eye=eye, debug=np.ones(30))
    (data / "a.json").write_text(json.dumps({"task": {"text": "close it"}, "result": "failed"}))
    look, read = blocks("recipes/own-files", "sh")
    succeed(look)
    assert "q" in (folder / "spec.yaml").read_text()
    (folder / "spec.yaml").write_text(*blocks("recipes/own-files", "yaml"))
    (data / "labels.csv").write_text(*blocks("recipes/own-files", "text"))
    succeed(read)
    with ares.open(folder / "curation") as ws:
        first, second = ws.episodes
        assert (first.instructions, first.success) == (("close it", "push the drawer"), False)
        assert second.success is True and "push the drawer closed" in second.instructions
        assert (first.rate_hz, first.robot, first.state_names[3]) == (10.0, "UR5", "gripper")
        assert not first.trajectory.extra
        assert first.frames("wrist", [0.0])[0, 0, 0].tolist() == [200, 0, 0]


def test_withdrawn_recordings_are_gone(folder: Path, clips: Path) -> None:
    with ares.open(folder / "curation", create=True) as ws:
        ws.ingest("clips", quiet=True)
        ws.sets.create("all")
    succeed("\n".join(blocks("recipes/consent", "sh")))
    assert len((folder / "withdrawn.jsonl").read_text().splitlines()) == 4
    assert json.loads((folder / "purged.json").read_text())["sets"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ScriptedServer]:
    with ScriptedServer(tmp_path, {"fine": 1}) as running:
        yield running


@pytest.mark.slow
def test_videos_and_a_table_become_captions(folder: Path, clips: Path, server: ScriptedServer) -> None:
    succeed("\n".join(blocks("recipes/captions", "sh")).replace("http://127.0.0.1:8000/v1", server.url))
    with (folder / "captions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 and {row["caption"] for row in rows} == {CAPTION}
    assert {row["key"] for row in rows} == {f"drawer_{number:03d}.mp4" for number in range(4)}


@pytest.mark.slow
def test_failures_under_dim_light_leave_as_a_dataset(
    folder: Path, clips: Path, server: ScriptedServer
) -> None:
    script = blocks("attributes", "sh")[1].replace("http://127.0.0.1:8000/v1", server.url)
    # The server calls every scene dim, which is the first of the choices.
    succeed(script.replace("ingest videos", f"ingest {clips}"))
    dim = json.loads(succeed("ares search --where \"attr_lighting = 'dim'\" --output json -w lab"))
    assert len(dim) == 4
    info = json.loads((folder / "dim" / "meta" / "info.json").read_text())
    assert 0 < info["total_episodes"] < 4


def nightly(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    (script,) = blocks("recipes/nightly", "bash")
    return run(script, *arguments, **{"ARES_SETTLE": "0", **environ})


def log_of(folder: Path) -> str:
    (log,) = (folder / "exports").glob("nightly-*.log")
    return log.read_text()


@pytest.mark.slow
def test_a_night_exports_what_matches_and_another_night_reads_nothing_twice(
    folder: Path, robot_data: Path
) -> None:
    assert nightly("robot-data").returncode == 2
    for _ in range(2):
        done = nightly("robot-data", "curation", "exports", ARES_KEEP="1")
        assert done.returncode == 0, done.stderr + log_of(folder)
    assert len(list((folder / "exports").glob("20??-??-??"))) == 1
    info = json.loads((folder / "exports" / "latest" / "meta" / "info.json").read_text())
    assert info["total_episodes"] > 0 and (folder / "exports" / "latest").is_symlink()
    # The lock of a run that goes on: the second says so, and writes nothing.
    before = log_of(folder)
    locked = run('exec 9>exports/.nightly.lock; flock 9; bash -c "$1" nightly robot-data curation exports 9>&-',
                 *blocks("recipes/nightly", "bash"))  # fmt: skip
    assert locked.returncode == 75 and "another run has the lock" in locked.stderr
    assert log_of(folder) == before


@pytest.mark.slow
def test_a_night_in_which_nothing_matches_is_no_alarm(folder: Path, clips: Path) -> None:
    done = nightly("clips", "curation", "exports", ARES_FILTER="num_steps > 100000")
    assert done.returncode == 0, log_of(folder)
    assert "nothing matches the filter, no export" in log_of(folder)
    assert not (folder / "exports" / "latest").exists()


@pytest.mark.nightly
def test_a_night_with_a_bad_file_exports_the_rest_and_says_so(folder: Path, clips: Path) -> None:
    (clips / "drawer_001.mp4").write_bytes(b"no video")
    gone = {"ARES_NIGHTLY_MODEL": "openai:m@http://127.0.0.1:9/v1", "ARES_PRICE": "1,1"}
    done = nightly("clips", "curation", "exports", ARES_FILTER="num_steps > 0", **gone)
    assert done.returncode == 1 and "status 4 of ares annotate caption" in log_of(folder), log_of(folder)
    assert (folder / "exports" / "latest" / "meta" / "info.json").exists()


@pytest.mark.slow
def test_five_nights_end_as_the_page_says(folder: Path, demo_samples: Path) -> None:
    """A cut upload, a full disk, an unmounted source, a clock an hour back with a new episode; then nothing is new."""
    lab, exports = folder / "lab", folder / "exports"
    lab.mkdir()
    files = iter(sorted((demo_samples / "video").rglob("*.mp4")))

    def upload(episodes: str) -> None:
        for name in [f"{episode}_{camera}.mp4" for episode in episodes for camera in ("front", "wrist")]:
            shutil.copy(next(files), lab / name)

    def night(number: int, **environ: str) -> int:
        usual = {"ARES_NIGHT": f"2026-12-0{number}", "ARES_FILTER": "num_steps > 0", "ARES_MIN_KEPT": "0.6"}
        usual |= {"ARES_SPLIT": "--train .5 --val .5"}
        return nightly("lab", "curation", "exports", **usual, **environ).returncode

    def check(number: int, episodes: int) -> None:
        """The export that `latest` names, its size, and that no side has changed."""
        assert (exports / "latest").readlink() == Path(f"2026-12-0{number}")
        info = json.loads((exports / "latest" / "meta" / "info.json").read_text())
        rows = (exports / "latest" / "manifest.split.jsonl").read_text().splitlines()
        drawn = {row["content_hash"]: row["side"] for row in map(json.loads, rows)}
        assert info["total_episodes"] == len(drawn) == episodes
        assert sides.items() <= drawn.items() and set(drawn.values()) == {"train", "val"}
        sides.update(drawn)

    sides: dict[str, str] = {}
    upload("ABCD")
    late = lab / "B_wrist.mp4"
    whole = late.read_bytes()
    late.write_bytes(whole[: len(whole) // 2])
    assert night(1) == 1, "what is half there fails, the rest is exported"
    check(1, 3)
    late.write_bytes(whole)
    assert night(2, TEST_BLOCKS="400") == 2
    assert "the disk is full" in (exports / "nightly-2026-12-02.log").read_text()
    check(1, 3)
    assert not (exports / "2026-12-02").exists()
    assert night(2) == 0, "the same night again, with room"
    check(2, 4)
    lab.rename(folder / "unmounted")
    assert night(3) == 2
    check(2, 4)
    (folder / "unmounted").rename(lab)
    upload("E")
    assert night(4, TEST_CLOCK="-3600", ARES_SETTLE="120") == 0
    check(4, 5)
    assert night(5, ARES_SETTLE="120") == 0
    check(5, 5)
    assert "unchanged: the files are those of" in (exports / "nightly-2026-12-05.log").read_text()
    known = {path.stat().st_ino for path in (exports / "2026-12-04").rglob("*")}
    stats = [path.stat() for path in (exports / "2026-12-05").rglob("*") if path.is_file()]
    written = sum(stat.st_size for stat in stats if stat.st_ino not in known)
    assert written < 0.05 * sum(stat.st_size for stat in stats), "texts alone, of five short episodes"
    assert night(5) == 0, "the same night again changes nothing"
    check(5, 5)


def test_a_notebook_reaches_a_plot(folder: Path, clips: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for block in blocks("recipes/notebook", "python"):
        exec(block, names)
    assert len(names["frame"]) == 4 and names["image"].ndim == 3
    assert "vega" in (folder / "durations.html").read_text()
    assert names["hits"][0].score is not None and "short@1" in capsys.readouterr().out


def test_the_tour_of_python_runs_in_one_go(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "app").symlink_to(ROOT / "app")
    names: dict[str, Any] = {}
    for block in blocks("python", "python"):
        exec(block, names)
    printed = capsys.readouterr().out
    assert "Workspace('curation': 12 episodes, 1 dataset)" in printed
    assert "all promises between the stores hold" in printed
    assert names["frames"].shape == (2, 192, 192, 3) and names["export"].episodes == 3
