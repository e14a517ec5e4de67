"""What `ares check` prints over sample data are the lines that were read, each held right or marked as wrong."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ares_app.cli.main import main
from tests.conftest import ROOT

pytestmark = pytest.mark.slow
_RECORD = ROOT / "tests" / "fixtures" / "sample_lines.tsv"
_HEADERS = ("code name ", "signal dimensions ")
# The cases of the folder that were read line by line; one that is added there later was not.
_REPORTED = (
    "abc_mcap", "calvin23", "constant_action_unnamed", "d4rl40_flat", "egovid2_frames", "gymhil2000_chw",
    "isaac5754_quat", "kai24_action_is_state", "l1487_broken_jpeg", "lerobot3508_stale_stats",
    "lerobot3644_depth_video", "mcap_simclock_prefix", "mikasa5_npz", "oxe11_is_last", "videos_gone",
    "viz62_multi_task",
)  # fmt: skip
_FOLDERS = ("irregular/so101_record_test", "robosuite_hdf5", *(f"reported/{case}" for case in _REPORTED))


def _read_lines() -> list[dict[str, str]]:
    with _RECORD.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_a_line_is_right_or_belongs_to_the_issue_on_foreign_data() -> None:
    rows = _read_lines()
    assert {row["command"] for row in rows} == {"ingest", "check"} and len(rows) > 200
    assert {row["verdict"] for row in rows} == {"right", "foreign"}
    assert all(row["why"] for row in rows if row["verdict"] == "foreign")


@pytest.mark.parametrize("folder", _FOLDERS)
def test_the_lines_of_a_folder_are_those_that_were_read(
    folder: str, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not (shared_data / folder).exists():
        pytest.skip(f"no {folder} in the sample data")
    recorded = {row["line"] for row in _read_lines() if row["command"] == "check"}
    main(["check", str(shared_data / folder), "-q"])
    out = capsys.readouterr().out.replace(str(shared_data), "DATA")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    printed = [line for line in lines if line and not line.startswith(_HEADERS)]
    # The last line counts what only this folder has.
    assert printed[-1].split(" checked")[0].endswith(("episode", "episodes", "no episode could be read"))
    assert set(printed[:-1]) - recorded == set()
