"""`ares check` in continuous integration: baselines, and options that are gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.cli.gone import GONE_OPTIONS
from app.cli.main import main
from ares.checks import CODES, QualityFinding
from ares.reports import read_baseline
from ares.reports.finding_counts import FindingCounter
from tests.app.cli.motion_dataset import random_motions, write_motions
from tests.conftest import ROOT


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """Four episodes; the third has a NaN in its second dimension."""
    motions = random_motions(2)
    motions[2][60, 1] = np.nan
    return write_motions(tmp_path / "faulty", motions)


def _json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_baseline_accepts_what_is_known_and_nothing_else(
    faulty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline = tmp_path / "known.json"
    assert main(["check", str(faulty), "--write-baseline", str(baseline)]) == 1
    assert {key.signal for key in read_baseline(str(baseline))} == {"state", "action"}
    capsys.readouterr()

    assert main(["check", str(faulty), "--baseline", str(baseline)]) == 0
    text = capsys.readouterr().out
    assert "no faults; 2 findings accepted by the baseline" in text
    assert "A001" not in text

    # The same fault in a copy elsewhere is known too; a new fault is not.
    motions = random_motions(2)
    motions[2][60, 1] = motions[1][10, 2] = np.nan
    moved = write_motions(tmp_path / "elsewhere" / "faulty", motions)
    assert main(["check", str(moved), "--baseline", str(baseline), "--json"]) == 1
    (dataset,) = _json(capsys)["datasets"]
    assert dataset["accepted"] == 2
    assert [count["dimensions"] for count in dataset["findings"]] == [{"wrist": 1}]


def test_a_code_of_two_datasets_is_one_kind_and_one_episode_is_singular(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed in (("first", 2), ("second", 3)):
        motions = random_motions(seed)[:1]
        motions[0][60, 1] = np.nan
        write_motions(tmp_path / "both" / name, motions)
    assert main(["check", str(tmp_path / "both"), "-q"]) == 1
    out = capsys.readouterr().out
    assert "2 episodes checked: 1 kind of fault\n" in out and "): 1 episode; " in out
    assert "1 episodes" not in out and "kinds" not in out


def test_what_is_of_the_files_of_a_dataset_is_of_no_episode() -> None:
    counter = FindingCounter()
    total = QualityFinding(
        code="A062", signal="dataset", dimension="index max", seconds=0.0, size=3.0, confidence=1.0
    )
    counter.add("", "meta/stats.json", [total])
    assert [(count.code, count.num_episodes) for count in counter.counts()] == [("A062", 0)]
    counter.add("episode", "meta/episodes/0.parquet", [total])
    assert [(count.code, count.num_episodes) for count in counter.counts()] == [("A062", 1)]


def test_two_baselines_of_equal_data_are_equal_files(faulty: Path, tmp_path: Path) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file in files:
        main(["check", str(faulty), "--write-baseline", str(file)])
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, "cannot be read"),
        ("no JSON", "no baseline"),
        ('{"version": 2, "findings": []}', "version"),
        ('{"version": 1, "findings": [{"code": "A001"}]}', "findings.0.dataset"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused_in_one_line(
    faulty: Path, tmp_path: Path, text: str | None, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "baseline.json"
    if text is not None:
        file.write_text(text)
    assert main(["check", str(faulty), "--baseline", str(file)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert part in line and str(file) in line


@pytest.mark.parametrize("gone", GONE_OPTIONS)
def test_an_option_or_a_command_that_is_gone_names_what_does_its_work(
    gone: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, name = gone.rsplit(" ", 1)
    required = ["--against=two"] if command == "ares set overlap" else []
    before = ["one", "two", *required] if name.startswith("-") else []
    with pytest.raises(SystemExit, match="2"):
        main([*command.split()[1:], *before, name])
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"{command}: {name} is gone: {GONE_OPTIONS[gone]}")


def test_every_kind_of_report_links_to_the_page_of_the_code(
    faulty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = CODES["A001"].page
    assert all((ROOT / code.page).is_file() for code in CODES.values())
    main(["check", str(faulty), "--json"])
    (dataset,) = _json(capsys)["datasets"]
    assert [count["page"] for count in dataset["findings"]] == [page]
    main(["check", str(faulty)])
    assert page in capsys.readouterr().out
