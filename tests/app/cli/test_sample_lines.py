"""What `ares check` prints over sample data are the lines that a person read and held right."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from app.cli.main import main
from tests.conftest import ROOT

_RECORD = ROOT / "tests" / "fixtures" / "sample_lines.tsv"
_HEADERS = ("code name ", "signal dimensions ")


def _read_lines() -> list[dict[str, str]]:
    with _RECORD.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_no_line_is_recorded_as_wrong() -> None:
    rows = _read_lines()
    assert {row["command"] for row in rows} == {"ingest", "check"} and len(rows) > 200
    assert {row["verdict"] for row in rows} == {"right"}


@pytest.mark.parametrize("folder", ["reported", "irregular/so101_record_test", "robosuite_hdf5"])
def test_the_lines_of_a_folder_are_those_that_were_held_right(
    folder: str, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = {row["line"] for row in _read_lines() if row["command"] == "check"}
    main(["check", str(shared_data / folder), "-q"])
    out = capsys.readouterr().out.replace(str(shared_data), "DATA")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    printed = [line for line in lines if line and not line.startswith(_HEADERS)]
    # The last line counts what only this folder has.
    assert printed[-1].split(" checked")[0].endswith("episodes") and set(printed[:-1]) - right == set()
