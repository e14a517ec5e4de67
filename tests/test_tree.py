"""The script that lists the files of the house: each once, with its sentence, from any folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.house.imports import ROOT, SOURCES


def _listed(*folders: str, cwd: Path = ROOT) -> dict[str, str]:
    command = [sys.executable, str(ROOT / "scripts" / "tree.py"), *folders]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
    return {
        path: sentence for path, _, sentence in (line.partition(" ") for line in done.stdout.splitlines())
    }


def test_every_file_is_listed_once_with_its_sentence(tmp_path: Path) -> None:
    listed = _listed(cwd=tmp_path)
    names = [str(path.relative_to(ROOT)).removesuffix("__init__.py") for path in SOURCES]
    assert sorted(listed) == sorted(names)
    assert all(sentence.strip().endswith(".") for sentence in listed.values())


def test_a_folder_is_listed_without_the_others() -> None:
    listed = _listed("ares/search")
    assert next(iter(listed)) == "ares/search/" and "ares/search/rankers/base.py" in listed
    assert all(path.startswith("ares/search/") for path in listed)
