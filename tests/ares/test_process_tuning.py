"""Imports that are put off: what nobody uses is not run, and what is used is all there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_UNUSED = "lance_namespace_urllib3_client.api"


def _run(folder: Path, code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_a_package_that_is_put_off_runs_at_its_first_name(tmp_path: Path) -> None:
    (tmp_path / "guest").mkdir()
    (tmp_path / "guest" / "__init__.py").write_text("print('runs')\nfrom guest.part import value\n")
    (tmp_path / "guest" / "part.py").write_text("value = 5")
    put_off = "from ares.process_tuning import load_package_later; load_package_later('guest'); "
    assert _run(tmp_path, put_off + "from guest.part import value; print(value)") == "5"
    uses = "import guest; print(hasattr(guest, 'none')); print(guest.value)"
    assert _run(tmp_path, put_off + uses).split() == ["runs", "False", "5"]
    missing = put_off.replace("guest", "surely_not_installed")
    assert _run(tmp_path, missing + "import sys; print('surely_not_installed' in sys.modules)") == "False"


@pytest.mark.slow
def test_writing_tables_does_not_import_the_client_of_a_web_service(
    tmp_path: Path, demo_samples: Path
) -> None:
    """It takes more than a CPU-second, for each `ares ingest`; the client is complete where someone uses it."""
    code = (
        f"import ares, sys; ares.open('w', create=True).ingest({str(demo_samples / 'video')!r}, limit=1);"
        f" print({_UNUSED!r} in sys.modules, 'lancedb' in sys.modules);"
        " import lance_namespace_urllib3_client as client; print(client.TableApi.__name__)"
    )
    assert _run(tmp_path, code).split() == ["False", "False", "TableApi"]
