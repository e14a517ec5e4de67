"""`ares doctor --environment` tells what is installed and set, in four lines, whatever is broken or missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ares.doctor import describe_environment
from ares.settings import Settings
from ares.workspace import open_workspace
from tests.workspaces import CommandResult


def facts(workspace: str = "") -> dict[str, str]:
    return {fact.name: f"{fact.value}; {fact.advice}" for fact in describe_environment(workspace)}


def test_without_a_workspace_there_are_four_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_ares: Callable[..., CommandResult]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = run_ares("doctor", "--environment").out.splitlines()
    assert len(lines) == 4
    assert not list(tmp_path.iterdir())
    document = run_ares("doctor", "--environment", "--json").json
    assert [fact["name"] for fact in document] == [line.split("  ")[0] for line in lines]


def test_a_missing_extra_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"torch", "umap", "huggingface_hub"}
    monkeypatch.setattr("ares.doctor.environment._has_module", lambda name: name not in missing)
    assert "not installed: models, map, hf" in facts()["extras"]
    assert facts()["extras"].endswith("pip install 'ares-curation[models]'")


def test_the_workspace_is_not_opened(tmp_path: Path) -> None:
    path = str(tmp_path / "ws")
    open_workspace(path, Settings()).close()
    assert facts(path)["workspace"] == f"{path}, format 3, annotations in sqlite; "
    (tmp_path / "ws" / "workspace.json").write_text("{")
    assert "cannot be read" in facts(path)["workspace"]
    assert "on an object store" in facts("s3://lab/curation")["workspace"]
    assert "cannot be read" in facts(f"file://{path}")["workspace"]
    assert "`ares ingest` creates one" in facts(str(tmp_path / "none"))["workspace"]


def test_settings_are_told_and_secrets_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARES_CONFIG", str(tmp_path / "ares.toml"))
    monkeypatch.setenv("ARES_CACHE", "/tmp/elsewhere")
    monkeypatch.setenv("ARES_APP_PASSWORD", "hidden")
    (tmp_path / "ares.toml").write_text('judge_model = "stub:x"\n')
    described = facts()["settings"]
    assert str(tmp_path / "ares.toml") in described and "ARES_CACHE=/tmp/elsewhere" in described
    assert "ARES_APP_PASSWORD=***" in described and "hidden" not in described
    (tmp_path / "ares.toml").write_text("wrong = 1\n")
    assert "cannot be read: unknown key 'wrong'" in facts()["settings"]
