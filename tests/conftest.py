"""Fixtures that every test folder shares: where sample data and reference models are."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def demo_samples() -> Path:
    """The committed sample: `rlds` and `video`."""
    return ROOT / "app" / "demo" / "samples"


@pytest.fixture(scope="session")
def reference_models() -> Path:
    """The committed reference models: `reference-clip` and `reference-captioner`."""
    return ROOT / "app" / "demo" / "models"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real and simulated data beside the repository; tests on it are skipped where it is absent."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no sample data at {folder}")
    return folder
