"""Seeds of simulated episodes stay in their part, and a part without failures is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.grading import check_rows, read_rows, read_seeds


def _episode(seed: int, length: int, success: bool) -> dict[str, Any]:
    mode = "expert" if success else "stop"
    return {"id": f"push_{seed}", "task": "push", "success": success, "mode": mode, "length": length}


def test_a_folder_of_another_part_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta_0.jsonl").write_text(json.dumps(_episode(125, 80, True)))
    assert len(read_rows(tmp_path, "development")) == 1
    with pytest.raises(ValueError, match=r"no folder of the test part: seeds \[125\]"):
        read_rows(tmp_path, "test")
    assert read_seeds()[124] == "test"


def test_too_few_failures_and_lengths_that_tell_the_outcome_are_refused() -> None:
    success, failure = _episode(124, 80, True), _episode(192, 80, False)
    assert "AUROC of 0.500" in check_rows([success, failure, failure])
    with pytest.raises(ValueError, match="too few failures"):
        check_rows([success, success, success, failure])
    with pytest.raises(ValueError, match="which tells the outcome"):
        check_rows([success, {**failure, "length": 110}])
