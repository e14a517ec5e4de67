"""The script that lists the files of the house: each once, with its sentence, from any folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.house.imports import ROOT, SOURCES


def test_every_file_is_listed_once_with_its_sentence(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "tree.py"), "ares/search", "app"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    listed = [line.partition(" ") for line in done.stdout.splitlines()]
    names = [str(path.relative_to(ROOT)).removesuffix("__init__.py") for path in SOURCES]
    assert sorted(path for path, _, _ in listed) == sorted(
        name for name in names if name.startswith(("ares/search/", "app/"))
    )
    assert all(sentence.strip().endswith(".") for _, _, sentence in listed)
