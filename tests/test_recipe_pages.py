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

import pytest

import ares
from tests.annotators.served.scripted_server import CAPTION, ScriptedServer
from tests.conftest import ROOT

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
    ares_program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m ares "$@"\n')
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
    done = run("\n".join(blocks("recipes/lerobot", "sh")))
    assert done.returncode == 0, done.stdout + done.stderr
    parts = [
        json.loads((folder / "exports" / name / "meta" / "info.json").read_text())
        for name in ("train", "val")
    ]
    assert all(part["total_episodes"] > 0 for part in parts)
    assert sum(part["total_episodes"] for part in parts) <= 12
    assert "source key" in done.stdout and "idle_share" in done.stdout
    python = os.environ.get("ARES_LEROBOT_PYTHON")
    if python:
        trained = run("\n".join(blocks("recipes/lerobot", "bash")), LEROBOT=str(Path(python).parent))
        assert trained.returncode == 0, trained.stdout + trained.stderr


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ScriptedServer]:
    with ScriptedServer(tmp_path, {"fine": 1}) as running:
        yield running


@pytest.mark.slow
def test_videos_and_a_table_become_captions(folder: Path, clips: Path, server: ScriptedServer) -> None:
    script = "\n".join(blocks("recipes/captions", "sh")).replace("http://127.0.0.1:8000/v1", server.url)
    done = run(script)
    assert done.returncode == 0, done.stdout + done.stderr
    with (folder / "captions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 and {row["caption"] for row in rows} == {CAPTION}
    assert {row["key"] for row in rows} == {f"drawer_{number:03d}.mp4" for number in range(4)}


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
    """An upload is cut in half, goes on, the source is unmounted, and comes back; then nothing is new."""
    lab, exports = folder / "lab", folder / "exports"
    lab.mkdir()
    files = sorted((demo_samples / "video").rglob("*.mp4"))[:8]
    for file, name in zip(files, [f"{n}_{c}.mp4" for n in "ABCD" for c in ("front", "wrist")], strict=True):
        shutil.copy(file, lab / name)
    late = lab / "B_wrist.mp4"
    whole = late.read_bytes()
    late.write_bytes(whole[: len(whole) // 2])

    def night(number: int) -> int:
        environ = {"ARES_NIGHT": f"2026-12-0{number}", "ARES_FILTER": "num_steps > 0", "ARES_MIN_KEPT": "0.6"}
        return nightly("lab", "curation", "exports", **environ).returncode

    def episodes(link: str = "latest") -> int:
        info = json.loads((exports / link / "meta" / "info.json").read_text())
        return int(info["total_episodes"])

    assert night(1) == 1 and episodes() == 3, "what is half there fails, the rest is exported"
    late.write_bytes(whole)
    assert night(2) == 0 and episodes() == 4
    lab.rename(folder / "unmounted")
    assert night(3) == 2 and (exports / "latest").readlink() == Path("2026-12-02")
    (folder / "unmounted").rename(lab)
    assert night(4) == 0 and episodes() == 4
    log = (exports / "nightly-2026-12-04.log").read_text()
    assert "unchanged: the files are those of" in log
    known = {path.stat().st_ino for path in (exports / "2026-12-02").rglob("*")}
    stats = [path.stat() for path in (exports / "2026-12-04").rglob("*") if path.is_file()]
    written = sum(stat.st_size for stat in stats if stat.st_ino not in known)
    assert written < 0.05 * sum(stat.st_size for stat in stats), "texts alone, of four short episodes"
    assert night(4) == 0 and episodes() == 4, "the same night again changes nothing"


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
