"""Every benchmark runs at its smallest size, and prints the rows that a reader compares; no test fails on a time."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

import ares
from benchmarks import memory
from benchmarks.run import BENCHMARKS
from tests.thinning import some_by_day

_ROOT = Path(__file__).parents[1]
_SECONDS, _RATIO = r"\d+\.\d{3} s", r"\d+\.\d{2}"
# By its number: the smallest sizes, and rows that are printed.
_NUMBERED = {
    "1": ("4", [r"ingest 4 RLDS records, \d+ MB/s"]),
    "2": ("4 8", [r"ingest 4 LeRobot episodes", r"ingest 8 LeRobot episodes \(exponent -?\d+\.\d\d\)"]),
    "3": ("4", [r"ingest 4 mp4 files, \d+/s"]),
    "4": ("3", [r"export a third of 3 LeRobot episodes, packets bit-identical"]),
    "5": ("8", [r"export a third of 8 RLDS episodes, \d+ MB/s"]),
    "14": ("3", [r"1 batches of 32 windows of 8 frames of 3 episodes, \d+/s"]),
    "6": ("2", [r"8 frames of 2 random episodes, images in TFRecords", r"of 2 random episodes, H.264 files"]),
    "7": (
        "1000",
        [
            r"1,000 vectors \(flat, index \d+ s\): recall@20 1.000",
            r"a filter that keeps 1 %: recall@20 1.000",
            r"looks and words and meaning among 10 % of the episodes, 1,000 frames",
        ],
    ),
    "9": ("50", [r"facets of all, first call .* 50 episodes", r"facets after a filter change, 50 episodes"]),
    "10": ("1", [r"embed 16 frames with ViT-S-32-alt of random weights from 256p H.264, .* frames/s"]),
    "16": ("3", [r"`ares --help`", r"`ares status`, 3 episodes", r"four LeRobot episodes, CPU-seconds"]),
    "18": ("50", [r"page at 90% again, 50 episodes", r"set of 60%, 50 episodes"]),
    "23": ("2", [r"ingest 200 segments of LeRobot, \d+/s"]),
    "19": ("2", [r"no encoder stored yet", r"text search, again", r"a new text, by a running dashboard"]),
}
# By the module and its arguments.
_COMMANDS = {
    "picture_libraries 2": r"decode JPEG \| \d+ \| \d+ \| \d",
    "accelerator caption --episodes 2 --concurrency 2": r"caption, 2 kept: .* a plain client .* ratio \d",
    "accelerator embed --models ViT-S-32-alt --episodes 1 --seconds 1 --height 128 --rounds 1": (
        r"embed 1 frames with ViT-S-32-alt of random weights from 128p H.264"
    ),
    "dimension_kinds --seeds 4:5": r"(?m)^\| arm \| 14 \| 10/14 .* \| 10/10 ",
    "dimension_kinds --seeds 4:5 --foreign": r"(?m)^\| hand \| 12 \| 12/12 .* \| 12/12 ",
    "planted_differences --seed 3 --faults 2 --halves 1 --motions 1": r"right or asked: 2/2 ",
    "instruction_audit --made-up --draws 2": (
        r"(?m)^\| 1 \| (1[6-9]|20)/20 = [^$]*exchanged at random: unsure, 0 named; "
    ),
    "meaning_faults --generated --seeds 1000:1001": r"(?m)^\| all \| 1[5-8]/18 ",
    "model_server --slots 4 --latency 0.05 --episodes 4 --annotators caption": (
        r"caption: 4 kept, 5 calls \(0 refused\)"
    ),
    "motion_length --seeds 0:5": r"(?m)^\| joint_jerk_ldlj \| [+-]\d\.\d\d \(",
    "near_duplicates cost --rows 500": r"500 trajectories: .* planted 10 of 10 ",
    "near_duplicates worlds --worlds 2 --episodes 9": (
        r"two sides: 0; values of a group on two sides: 0; reported: 0\n[^$]*recall of pairs: 6 of 6 "
    ),
    "operation_speed check --episodes 4": r"4 episodes: .* checked 4, clean True",
    "operation_speed export --episodes 4": r"4 episodes: .* 40 segments; without texts .*: speed \d",
    "operation_speed grades --episodes 50": r"50 episodes: .* accepted [1-9]\d*, again ",
    "operation_speed motion --episodes 4 8": r"kept 4\n8 episodes: .* kept 8\nexponent of growth: ",
    "quality --seeds 5:6": r"A004 spike \| 0.2 rad at one step \| 1/1 ",
    "quality --seeds 6:7 --foreign": r"A004 spike .* 1/1 [^$]*lag claimed in 3/5 ",
    "quality --seeds 5:6 --curve": r"(?m)^\| A004 \|.* 1/1 ",
    "repairs --seeds 3:4": r"(?m)^\| A004 \| 1/1 .*[^$]*clean episodes that were changed: 0/5 ",
    "segment_model --episodes 2 --seconds 32 --rows 1": (
        r"(?m)^\| 0.1 s, 0.0, 0.0 \| \d\.\d{3} .* \| \d+, 0, 0 \| .* \| 0 calls \|$"
    ),
    "segments --seeds 5:9": r"(?m)^\| signals \| 0\.\d{3} \([^|]*\| [01]\.\d{3} .*[^$]*\| equal thirds \| 0\.\d{3} ",
    "video_quality --seeds 3:4": r"A033 video-black \| 0.2 s \| 1/1 [^$]*lag within one step: (\d+) of \1\n",
    "video_copies worlds --worlds 1 --episodes 4 --seed 3": (
        r"two sides: 0 of 2\n[^$]*split: recall of pairs: 2 of 2 [^$]*copies: 0 of 13 pairs\n[^$]*dedupe: recall"
    ),
    "workers motion --workers 1 --episodes 8": r"motion, 1 workers: 8 in .* 1.00 of the first run",
    "workers embed --workers 1 --episodes 1": r"embed, 1 workers: 1 in .* 1.00 of the first run",
}
_WITH_RAY = {
    "workers ray --workers 1 --episodes 16 --milliseconds 1": r"ray, 1 workers: 8 in .* of the first run",
    "workers driver --episodes 8 --runs 1": r"for each of 8 episodes: .* with 10 of 512, ratio \d",
}
# "slot_comparison" needs text models that no machine of the tests has.
# drawn_robots, metaworld_events and simulated_robots record with simulators that are no dependency.
_OTHER = {
    "drawn_robots",
    "evaluation",
    "grading",
    "map",
    "memory",
    "metaworld_events",
    "page",
    "run",
    "simulated_robots",
    "loading",
    "slot_comparison",
}


@pytest.fixture(autouse=True)
def _small_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """ViT-B/32 would take a minute to write and to load."""
    monkeypatch.setattr("benchmarks.synthetic_media.RANDOM_MODEL", "ViT-S-32-alt")


def _run_benchmark(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, *arguments = command.split()
    monkeypatch.chdir(_ROOT)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    import_module(f"benchmarks.{name}").main()


def test_every_benchmark_is_here() -> None:
    programs = {path.stem for path in (_ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text()}
    assert programs == {command.split()[0] for command in [*_COMMANDS, *_WITH_RAY]} | _OTHER
    assert BENCHMARKS.keys() == _NUMBERED.keys()


# Number 10 writes a large model, number 19 loads one in separate processes, and 4 and 14 write videos first. What
# the others measure the tests of the operation run, too.
_BY_NIGHT, _QUICK = ("1", "4", "5", "9", "10", "14", "18", "19"), ("23", "3")


def _mark_of(number: str) -> list[pytest.MarkDecorator]:
    return [] if number in _QUICK else [pytest.mark.nightly if number in _BY_NIGHT else pytest.mark.slow]


@pytest.mark.parametrize("number", [pytest.param(number, marks=_mark_of(number)) for number in _NUMBERED])
def test_a_numbered_benchmark_prints_its_rows(
    number: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, works = _NUMBERED[number]
    _run_benchmark(f"run {number} --sizes {sizes} --rounds 0", monkeypatch)
    rows = capsys.readouterr().out.splitlines()
    for work in works:
        row = rf"\| \d+ \| [^|]*{work}.* \| {_SECONDS} \| .* \| {_SECONDS} \| {_RATIO} \| [+-]{_SECONDS} \| .+ \|"
        assert any(re.fullmatch(row, line) for line in rows), (work, rows)


@pytest.mark.slow
@pytest.mark.parametrize("command", some_by_day(_COMMANDS, 5))
def test_a_benchmark_prints_what_it_measured(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _run_benchmark(command, monkeypatch)
    printed = capsys.readouterr().out
    assert re.search(_COMMANDS[command], printed), printed


@pytest.mark.nightly
@pytest.mark.parametrize("command", _WITH_RAY)
def test_a_benchmark_of_a_cluster_prints_what_it_measured(
    command: str, ray_cluster: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _run_benchmark(command, monkeypatch)
    printed = capsys.readouterr().out
    assert re.search(_WITH_RAY[command], printed), printed


@pytest.mark.slow
def test_every_operation_of_memory_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "workspace")
    for arguments in (["grow", "20"], *([name] for name in memory.OPERATIONS)):
        monkeypatch.setattr(sys, "argv", ["memory", path, *arguments])
        memory.main()
        measured = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert measured["seconds"] > 0 and measured["megabytes"] > 10
    with ares.open(path) as ws:
        assert ws.stores.tables.episodes.count() == 20 and sorted(ws.sets) == ["every", "good"]


@pytest.mark.slow
def test_policies_of_a_curated_pool_are_rolled_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _run_benchmark(f"curation.__main__ --small --folder {tmp_path}", monkeypatch)
    printed = capsys.readouterr().out
    if printed.startswith("not run: "):
        pytest.skip(printed.strip())
    assert "| failure | 6 | 6 |" in printed and "| gripper inverted | 6 | 6 | A013 6" in printed
    rows = re.findall(r"(?m)^\| (all|random|success filter|ARES|clean) \| (\d+) \| \d\.\d{3} ", printed)
    assert [count for _, count in rows[:1] + rows[2:3] + rows[4:]] == ["54", "48", "24"]
    assert rows[1][1] == rows[3][1] and re.search(r"ARES minus random: [+-]\d\.\d{3} \(", printed)


@pytest.mark.nightly
def test_the_map_is_measured_in_a_browser(
    chromium: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARES_TEST_CHROMIUM", chromium)
    _run_benchmark("map --sizes 30 60 --rounds 1", monkeypatch)
    printed = capsys.readouterr().out
    for work in ("open the map", "lasso to its episodes", "zoom to the next picture", "another colour"):
        assert re.search(rf"\| {work} \| \d+\.\d\d s \| \d+\.\d\d s \| \d+\.\d\d \|", printed), printed
